"""Jobs in a stand-in of SLURM: submitted once, in arrays after what they need; where they are; what
dies and stops.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import slurm_standin
from click.testing import CliRunner
from executor_jobs import TAUGHT, errand, ignore, jobs, notes, plan
from faults_tools import KilledError

from harness.cli.main import cli
from harness.errors import UserError
from harness.events import Event
from harness.runs.execution import Execution
from harness.stopping import Interrupted
from harness.store import Result, Store
from harness.store.folder import read_submissions
from harness.work.base import find_submitted_states
from harness.work.job import Prepared
from harness.work.jobs import list_jobs

pytest.importorskip("submitit", reason="submitit is not installed; its executor was not tested")
from harness.work.slurm import executor as slurm_executor
from harness.work.slurm.executor import Slurm

STATUS = (
    "--profile",
    "tiny",
    "--methods",
    "none,none[pooling=mean]",
    "--settings",
    "toy",
    "--suites",
    "sts",
)


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in for SLURM, whose commands are found."""
    for name, value in slurm_standin.install(tmp_path / "slurm").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(Path(slurm_standin.__file__).parent))
    for name in ("LOOK_S", "ASK_S", "SUBMITS_S"):
        monkeypatch.setattr(slurm_executor, name, 0.1)
    monkeypatch.setattr(slurm_standin, "PLACE", tmp_path / "slurm")
    return tmp_path / "slurm"


def slurm(**settings: str) -> Slurm:
    return Slurm(Execution(jobs="auto", device="auto", executor_options={"gpus": "0", **settings}))


def scripts(standin: Path) -> list[dict[str, str]]:
    """The options of each batch script, in the order of their submission; `lines` are its other
    lines.
    """
    texts = [path.read_text() for path in sorted(standin.glob("*.sh"))]
    return [
        {**dict(re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", text, re.M)), "lines": text}
        for text in texts
    ]


def wait_for(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_plan_becomes_arrays_by_stage_and_gpu(standin: Path, tmp_path: Path) -> None:
    (standin / "hold").touch()
    made = list_jobs(plan(tmp_path / "results", "simcse", TAUGHT))
    chosen = {
        "gpus": "a100:1",
        "cpus": "4",
        "time": "1-00:00:00",
        "constraint": "x",
        "setup": "module load y",
    }
    assert slurm(**chosen).execute(made, ignore) == []
    tokens, features, runs, from_run, taught = scripts(standin)
    assert [each.get("gres") for each in (tokens, features, runs, from_run, taught)] == [
        None,
        *["gpu:a100:1"] * 4,
    ]
    assert "dependency" not in tokens
    assert {
        script["array"]
        for script in (tokens, features, runs, from_run, taught)
        if "array" in script
    } <= {"0-1%2"}
    assert runs["dependency"] == "afterany:100"
    assert from_run["dependency"] == "afterany:102", "features of a run come after it"
    assert set(taught["dependency"].removeprefix("afterany:").split(":")) >= {"101", "103"}
    shared = {
        "time": "1440",
        "signal": "USR2@120",
        "constraint": "x",
        "cpus-per-task": "4",
        "requeue": "",
    }
    assert shared.items() <= taught.items()
    assert int(runs["mem"].removesuffix("M")) > 1000, "by the size of the encoder and the batch"
    assert "module load y\n" in runs["lines"]
    assert f"export HARNESS_CACHE={os.environ['HARNESS_CACHE']}\n" in runs["lines"]
    assert " --cpus-per-task=4 " in runs["lines"], "srun takes it from nowhere else"


def test_a_limit_holds_for_arrays_together_and_large_ones_are_divided(
    standin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_ARRAY", "2")
    (standin / "hold").touch()
    several = [errand(tmp_path, f"job-{number}") for number in range(3)]
    Slurm(Execution(jobs=2, device="cpu")).execute(several, ignore)
    first, second = scripts(standin)
    assert (first["array"], second.get("array"), second["dependency"]) == (
        "0-1%2",
        None,
        "afterany:100",
    )


def test_jobs_are_submitted_once_and_again_when_they_are_lost(
    standin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (standin / "hold").touch()
    results, file = tmp_path / "results", tmp_path / "cpu.toml"
    file.write_text(
        '[slurm]\ngpus = 0\npartition = "long"\nsbatch = {nice = 5, exclusive = true, requeue = false}\n'
    )
    attended: list[int] = []
    monkeypatch.setattr(Slurm, "work", lambda executor, queue, listen: attended.append(1))
    for _ in range(2):
        said = typed(
            "run", *STATUS, "--results", str(results), "--executor", "slurm", "--slurm", str(file)
        )
        assert (
            "\n2 runs in SLURM: `harness status` with the same options shows where they are" in said
        )
        assert "`scancel 100` cancels them" in said
    assert len(scripts(standin)) == len(attended) == 1, (
        "the second command follows what the first has submitted"
    )
    assert "all runs are already submitted to SLURM; following them here" in caplog.text
    asked = {"array": "0-1%2", "partition": "long", "nice": "5", "exclusive": ""}
    assert asked.items() <= scripts(standin)[0].items()
    assert "requeue" not in scripts(standin)[0]
    slurm_standin.state("100_1", "RUNNING")
    shown = status(results)
    assert "queued   none" in shown
    assert "SLURM 100_0, pending (Priority)" in shown
    assert "SLURM 100_1, running on node1 for 0:07" in shown
    log = CliRunner().invoke(cli, ["logs", "none", "--results", str(results)])
    assert "matches 2 runs" in str(log.exception)
    slurm_standin.state("100_0", "NODE_FAIL")
    assert "failed   none" in status(results)
    assert "SLURM 100_0 ended without a result (NODE_FAIL); log: " in status(results)
    slurm().execute(jobs(results, "none", "none[pooling=mean]"), ignore)
    assert len(scripts(standin)) == 2
    assert {note.id for note in read_submissions(Store(results)).values()} == {"100_1", "101"}


def typed(*words: str) -> str:
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.exception
    return shown.output


def status(results: Path) -> str:
    return typed("status", *STATUS, "--results", str(results))


def test_what_sbatch_refuses_is_one_line_and_without_squeue_nothing_is_known(
    standin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (standin / "refuse").write_text("Batch job submission failed: Invalid partition name specified")
    with pytest.raises(
        UserError, match=r"SLURM refused 1 of the jobs: .*Invalid partition name specified; correct"
    ):
        slurm(partition="x").execute([errand(tmp_path, "job")], ignore)
    assert not read_submissions(Store(tmp_path))
    (standin / "refuse").unlink()
    (standin / "hold").touch()
    slurm().execute([errand(tmp_path, "job")], ignore)
    monkeypatch.setenv("PATH", "nowhere")
    ((state, where),) = find_submitted_states(Store(tmp_path)).values()
    assert state == "queued"
    assert "SLURM 100; `squeue` is not installed here" in where
    with pytest.raises(
        UserError, match="`squeue` is not installed here; run this where SLURM's commands work"
    ):
        slurm().execute([errand(tmp_path, "job")], ignore)


@pytest.mark.parametrize("before", ["sbatch", "the note"])
def test_a_command_that_was_killed_while_it_submitted_submits_nothing_twice(
    before: str, standin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (standin / "hold").touch()
    first, second = errand(tmp_path, "first"), errand(tmp_path, "second")
    several = [first, second, errand(tmp_path, "third", first)]

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if before == "sbatch":
            patch.setattr(slurm_executor.submitit.SlurmExecutor, "submit_array", killed)
        else:
            patch.setattr(slurm_executor, "write_submission", killed)
        with pytest.raises(KilledError):
            slurm().execute(several, ignore)
    assert len(scripts(standin)) == (0 if before == "sbatch" else 1)

    assert slurm().execute(several, ignore) == []
    noted = {note.key: note.id for note in read_submissions(Store(tmp_path)).values()}
    assert noted == {"first": "100_0", "second": "100_1", "third": "101"}
    first_script, second_script = scripts(standin)
    assert "dependency" not in first_script
    assert second_script["dependency"].startswith("afterany:100")
    assert not list(tmp_path.glob(".slurm/*/array.json"))


def test_a_job_that_is_held_up_names_the_preparation_and_its_reason(
    standin: Path, tmp_path: Path
) -> None:
    (standin / "hold").touch()
    tokens = errand(tmp_path, "tokens")
    features = errand(tmp_path, "features", tokens)
    assert slurm().execute([tokens, features, errand(tmp_path, "run", features)], ignore) == []
    (standin / "held-100").write_text("ReqNodeNotAvail, UnavailableNodes:node1")
    blocked = "it needs tokens, SLURM 100, pending (ReqNodeNotAvail, UnavailableNodes:node1)"
    assert sorted(where for _, where in find_submitted_states(Store(tmp_path)).values()) == [
        "SLURM 100, pending (ReqNodeNotAvail, UnavailableNodes:node1)",
        f"SLURM 101, pending (Dependency: {blocked})",
        f"SLURM 102, pending (Dependency: {blocked})",
    ]


def test_submitted_jobs_run_without_a_command_and_what_needs_a_failed_one_fails(
    standin: Path, tmp_path: Path
) -> None:
    good, bad = errand(tmp_path, "good"), errand(tmp_path, "bad", fails=True)
    after_good, after_bad = errand(tmp_path, "after-good", good), errand(tmp_path, "after-bad", bad)
    assert slurm(cpus="2").execute([good, bad, after_good, after_bad], ignore) == []
    wait_for(lambda: not read_submissions(Store(tmp_path)))
    assert notes(tmp_path, "good") == notes(tmp_path, "after-good") == ["cpu 2"]
    assert notes(tmp_path, "bad") == ["cpu 2", "failed: no such luck"]
    assert notes(tmp_path, "after-bad") == [
        "failed: bad failed, which is needed here: no such luck"
    ]
    wait_for(
        lambda: (
            {slurm_standin.state(path.name) for path in standin.glob("states/*[0-9]")}
            == {"COMPLETED"}
        )
    )


def test_a_command_that_waits_sees_preemptions_and_a_death(standin: Path, tmp_path: Path) -> None:
    patient, dead = errand(tmp_path, "patient", stops=2), errand(tmp_path, "dead", killed=True)
    never = errand(tmp_path, "never", dead)
    told: list[Event] = []

    def preempt(event: Event) -> None:
        if event.run == "patient":
            told.append(event)
            if [heard.kind for heard in told[-2:]] == ["start", "prepare"]:
                slurm_standin.scancel("--signal=USR2", "100_0")

    ends = slurm(wait="yes").execute([patient, dead, never], preempt)
    errors = {end.id.rstrip("-"): end.error for end in ends if isinstance(end, Prepared)}
    assert errors["patient"] == ""
    assert re.match(
        r"the SLURM job 100_1 ended without a result \(FAILED\); log: .*100_1_0_log\.out",
        errors["dead"],
    )
    assert errors["never"].startswith("dead failed, which is needed here: the SLURM job 100_1")
    assert notes(tmp_path, "patient") == ["cpu 1", "stopped", "cpu 1", "stopped", "cpu 1"]
    assert [event.kind for event in told if event.kind != "prepare"] == [
        "start",
        "start",
        "start",
        "prepared",
    ]
    assert slurm_standin.state("101") == "CANCELLED", "nothing is left behind in the queue"


def test_ctrl_c_of_a_command_that_waits_stops_its_jobs_after_saving(
    standin: Path, tmp_path: Path
) -> None:
    patient = errand(tmp_path, "patient", stops=2)
    later = errand(tmp_path, "later", patient)

    def interrupt(event: Event) -> None:
        if event.kind == "prepare":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        slurm(wait="yes").execute([patient, later], interrupt)
    assert notes(tmp_path, "patient") == ["cpu 1", "stopped"], (
        "it has saved and is not queued again"
    )
    wait_for(lambda: slurm_standin.state("100") == "COMPLETED")
    assert slurm_standin.state("101") == "CANCELLED"
    assert not read_submissions(Store(tmp_path))


def test_a_job_whose_node_died_is_submitted_again_and_what_needs_it_after_it(
    standin: Path, tmp_path: Path
) -> None:
    teacher = errand(tmp_path, "teacher", stops=1)
    pupil = errand(tmp_path, "pupil", teacher)

    def die(event: Event) -> None:
        if event.kind == "start" and not notes(tmp_path, "teacher")[1:]:
            slurm_standin.state("100", "NODE_FAIL")
            slurm_standin.send("100", signal.SIGKILL)
            teacher.note("stopped")

    ends = slurm(wait="yes").execute([teacher, pupil], die)
    assert [end.error for end in ends if isinstance(end, Prepared)] == ["", ""]
    assert notes(tmp_path, "teacher") == ["cpu 1", "stopped", "cpu 1"]
    assert notes(tmp_path, "pupil") == ["cpu 1"], (
        "its first job, after the one that died, was taken back"
    )
    states = {path.name: slurm_standin.state(path.name) for path in standin.glob("states/*[0-9]")}
    assert (states["100"], states["101"]) == ("NODE_FAIL", "CANCELLED")
    assert set(states) == {"100", "101", "102", "103"}


@pytest.mark.parametrize(
    ("state", "says"),
    [
        pytest.param(
            "OUT_OF_MEMORY",
            ["(OUT_OF_MEMORY)", "memory=", "--chunk", "batch_size"],
            id="for lack of memory",
        ),
        pytest.param("FAILED", ["(FAILED)"], id="by somebody"),
    ],
)
def test_who_killed_a_job(state: str, says: list[str], standin: Path, tmp_path: Path) -> None:
    def die(event: Event) -> None:
        if event.kind == "start":
            slurm_standin.state("100", state)
            slurm_standin.send("100", signal.SIGKILL)

    (end,) = slurm(wait="yes").execute([errand(tmp_path, "killed", stops=1)], die)
    assert isinstance(end, Prepared)
    assert all(word in end.error for word in says)
    assert ("--chunk" in end.error) == ("--chunk" in says)


@pytest.mark.long
def test_a_job_that_was_killed_before_it_started_is_carried_out_by_the_next_command(
    standin: Path, tmp_path: Path
) -> None:
    """In the queue, and by a kill of the process that was to start it."""
    (standin / "hold").touch()
    slurm().execute(jobs(tmp_path, "none"), ignore)
    for name in [path.name for path in standin.glob("states/*[0-9]")]:
        slurm_standin.state(name, "FAILED")
    (standin / "hold").unlink()
    ends = slurm(wait="yes").execute(jobs(tmp_path, "none"), ignore)
    assert (
        len(Store(tmp_path).files()) == len([end for end in ends if isinstance(end, Result)]) == 1
    )
    assert not read_submissions(Store(tmp_path))
