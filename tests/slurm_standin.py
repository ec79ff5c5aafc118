"""A stand-in for SLURM: sbatch, srun, squeue, sacct, scontrol and scancel as one script, with its
state in a folder.

It takes job arrays with a width and `afterany`, runs their batch scripts in processes of this
machine, sends signals and queues jobs again. A test steers it by files in the folder: `hold` keeps
jobs in the queue, `held-JOB` holds the reason why a job waits, `refuse` holds what sbatch answers,
and `meets-TASK` what a job meets, once: NOTICE of its time limit (USR2), or its end by TERM and
KILL, GRACE_S apart, after which it is queued again (PREEMPTED) or over (TIMEOUT).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

NAMES = ("sbatch", "srun", "squeue", "sacct", "scontrol", "scancel")
PLACE = Path(os.environ.get("STANDIN_FOLDER", "."))
LOOK_S, GRACE_S = 0.05, 1.0


def install(folder: Path) -> dict[str, str]:
    """Write the commands into FOLDER/bin; return the variables with which they are found."""
    (folder / "bin").mkdir(parents=True)
    for name in NAMES:
        path = folder / "bin" / name
        path.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -S -E "{Path(__file__).resolve()}" {name} "$@"\n'
        )
        path.chmod(0o755)
    return {
        "STANDIN_FOLDER": str(folder),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }


def state(number: str, word: str | None = None) -> str:
    """The state of a job; with a word, its new one."""
    path = PLACE / "states" / number
    if word is not None:
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".new").write_text(word)
        path.with_suffix(".new").replace(path)
    return path.read_text() if path.is_file() else ""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def sbatch(script: str) -> None:
    refused = PLACE / "refuse"
    if refused.is_file():
        sys.exit(f"sbatch: error: {refused.read_text()}")
    text = Path(script).read_text()
    number = str(100 + len(list(PLACE.glob("*.sh"))))
    (PLACE / f"{number}.sh").write_text(text)
    about = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", text, re.M))
    last, _, width = about.get("array", "").removeprefix("0-").partition("%")
    tasks = [f"{number}_{index}" for index in range(int(last) + 1)] if last else [number]
    for task in tasks:
        state(task, "PENDING")
    say(f"Submitted batch job {number}")
    if not (PLACE / "hold").exists() and os.fork() == 0:
        os.setsid()
        for stream in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        schedule(tasks, int(width or 1), about)


def schedule(tasks: list[str], width: int, about: dict[str, str]) -> None:
    needs = about.get("dependency", "").removeprefix("afterany:").split(":")
    while any(
        state(path.name) in ("PENDING", "RUNNING") for need in needs if need for path in those(need)
    ):
        time.sleep(LOOK_S)
    running: dict[str, subprocess.Popen[bytes]] = {}
    ends: dict[str, tuple[float, str]] = {}
    while tasks or running:
        while tasks and len(running) < width:
            task = tasks.pop(0)
            if state(task) == "PENDING":
                state(task, "RUNNING")
                running[task] = start(task, about["output"])
        for task, process in list(running.items()):
            meet(task, ends)
            if process.poll() is not None:
                del running[task]
                ends.pop(task, None)
                again = PLACE / f"requeue-{task}"
                if again.exists():
                    again.unlink()
                    tasks.append(task)
                if state(task) == "RUNNING":
                    state(
                        task,
                        "PENDING"
                        if task in tasks
                        else "FAILED"
                        if process.returncode
                        else "COMPLETED",
                    )
        time.sleep(LOOK_S)


def meet(task: str, ends: dict[str, tuple[float, str]]) -> None:
    """Do to a job what its file says, and once its time is over, end it."""
    path = PLACE / f"meets-{task}"
    if path.is_file():
        manner = path.read_text()
        path.unlink()
        send(task, signal.SIGUSR2 if manner == "NOTICE" else signal.SIGTERM)
        if manner != "NOTICE":
            ends[task] = (time.monotonic() + GRACE_S, manner)
    at, manner = ends.get(task, (float("inf"), ""))
    if time.monotonic() >= at:
        del ends[task]
        (PLACE / f"requeue-{task}").touch() if manner == "PREEMPTED" else state(task, manner)
        send(task, signal.SIGKILL)


def those(need: str) -> list[Path]:
    """The files of a job, or of all of an array."""
    return [
        path
        for path in (PLACE / "states").iterdir()
        if path.name == need or path.name.startswith(f"{need}_")
    ]


def start(task: str, output: str) -> subprocess.Popen[bytes]:
    array, _, index = task.partition("_")
    about = {"SLURM_JOB_ID": array, "STANDIN_TASK": task, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    about |= {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": index} if index else {}
    log = Path(output.replace("%A", array).replace("%a", index).replace("%j", task))
    with log.open("ab") as stream:
        script = ["bash", str(PLACE / f"{array}.sh")]
        return subprocess.Popen(script, stdout=stream, stderr=stream, env={**os.environ, **about})


def srun(*words: str) -> None:
    """Become the command."""
    options = {"--output": 2, "--error": 2}
    while words[0].startswith("-"):
        words = words[options.get(words[0], 1) :]
    (PLACE / f"pid-{os.environ['STANDIN_TASK']}").write_text(str(os.getpid()))
    os.execvp(words[0], words)


def send(task: str, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(int((PLACE / f"pid-{task}").read_text()), number)


def scancel(*words: str) -> None:
    asked = next((word.partition("=")[2] for word in words if word.startswith("--signal=")), None)
    for need in (word for word in words if not word.startswith("-")):
        for path in those(need):
            if asked:
                send(path.name, signal.Signals[f"SIG{asked}"])
            elif state(path.name) in ("PENDING", "RUNNING"):
                state(path.name, "CANCELLED")
                send(path.name, signal.SIGKILL)


def squeue(*words: str) -> None:
    for path in sorted((PLACE / "states").glob("*[0-9]")):
        word, array = state(path.name), path.name.partition("_")[0]
        text = (PLACE / f"{array}.sh").read_text()
        about = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", text, re.M))
        held = PLACE / f"held-{array}"
        reason = "None"
        if word == "PENDING":
            waits = "Dependency" if "dependency" in about else "Priority"
            reason = held.read_text() if held.is_file() else waits
        say(f"{path.name}|{word}|{reason}|node1|0:07|{about.get('job-name', '')}")


def sacct(*words: str) -> None:
    number = next(word.partition("=")[2] for word in words if word.startswith("--jobs="))
    say(state(number))


def scontrol(*words: str) -> None:
    if words[0] == "requeue":
        (PLACE / f"requeue-{words[1]}").touch()
    else:
        say(f"MaxArraySize            = {os.environ.get('STANDIN_ARRAY', '1001')}")


if __name__ == "__main__":
    {command.__name__: command for command in (sbatch, srun, squeue, sacct, scontrol, scancel)}[
        sys.argv[1]
    ](*sys.argv[2:])
