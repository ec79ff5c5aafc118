"""Grids that are killed at chosen file operations, in processes of their own."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from executor_jobs import scores
from faults_tools import hashes, short_run
from hooks.sitecustomize import arm

from harness.store import Store
from harness.store import index as store_index

HOOKS = Path(__file__).parent / "hooks"
#: seconds after which a grid of a few seconds hangs, on the slowest machine
HANGS_S = 3_600
GRID = (
    *("--profile", "tiny", "--methods", "simcse,mcse", "--seeds", "1", "--suites", "sts,retrieval"),
    *("--set", "steps=4", "--set", "eval_every=2", "--set", "batch_size=8"),
)
#: stage -> what the paths of its operations contain
STAGES = {
    "toy data": "cache/(toy|hashes|declarations)/",
    "tokens": "cache/tokens/",
    "features": "cache/features/",
    "log": "run.log",
    "checkpoint": "checkpoint",
    "best model": "best",
    "trained": "trained.json",
    "seen texts": "cache/seen/",
    "scores of a suite": "scores-",
    "result": "results/tiny/",
}


HEAD = ("head",)
#: what a command prints that has lost the head of its cluster
LOST = "error: the head of the Ray cluster"
MAIN = "import sys; from harness.cli.main import main; sys.argv[0] = 'harness'; main()"
#: before it, where SLURM is to be asked every second
ASKS = "from harness.work.slurm import executor; executor.ASK_S = 1.0; "


class Kill(NamedTuple):
    """A kill -9 of `who` at the nth time of an operation, some seconds later."""

    at: str
    nth: int
    who: tuple[str, ...]
    delay: float

    @property
    def stage(self) -> str:
        """The stage that the operation belongs to."""
        return next((name for name, part in STAGES.items() if re.search(part, self.at)), "other")


class Series(NamedTuple):
    """So many kills under an executor with its options; who is killed, by turns, at operations of
    which stages.
    """

    executor: str
    count: int
    sides: tuple[tuple[str, ...], ...]
    options: tuple[str, ...] = ()
    stages: tuple[str, ...] = tuple(STAGES)

    def kills(self, operations: Counter[str], seed: int) -> Iterator[Kill]:
        """The kills by a seed, of all stages by turns; half of them come up to 50 ms after the
        operation.
        """
        rng = random.Random(seed)
        by_stage: dict[str, list[str]] = {}
        for line in sorted(operations):
            by_stage.setdefault(Kill(line, 1, (), 0).stage, []).append(line)
        for number in range(self.count):
            line = rng.choice(by_stage[self.stages[number % len(self.stages)]])
            delay = rng.uniform(0, 0.05) if number % 2 else 0.0
            # the head in the first of several runs, so that the others miss it
            nth = 1 if HEAD in self.sides else rng.randint(1, operations[line])
            yield Kill(line, nth, self.sides[number % len(self.sides)], delay)


def started(
    folder: Path,
    *options: str,
    fault: Mapping[str, Any] | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[str]:
    """Start a grid below a folder, as a session of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {**os.environ, **env, "HARNESS_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    if fault is not None:
        about |= {"FAULT": json.dumps({"root": str(folder), **fault})}
        about["PYTHONPATH"] = os.pathsep.join(
            (str(HOOKS), *filter(None, [os.environ.get("PYTHONPATH")]))
        )
    words = ["run", *GRID, "--results", str(folder / "results"), *options]
    return subprocess.Popen(
        [sys.executable, "-c", (ASKS if "slurm" in options else "") + MAIN, *words],
        env=about, cwd=folder, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a grid, and what it printed."""
    said = process.communicate(timeout=HANGS_S)[0]
    return process.returncode, said


class Undisturbed(NamedTuple):
    """A grid that nothing disturbs: its folder, its operations and its scores."""

    folder: Path
    operations: Counter[str]
    scores: dict[str, object]


def undisturbed(folder: Path) -> Undisturbed:
    """Run it, one run after the other."""
    trace = folder.with_name(f"{folder.name}.trace")
    code, said = ended(started(folder, "--executor", "serial", fault={"trace": str(trace)}))
    assert code == 0, said
    return Undisturbed(folder, Counter(trace.read_text().splitlines()), scores(folder / "results"))


def assert_as_before(
    results: Path, before: Mapping[str, str], wanted: Mapping[str, object]
) -> None:
    """Nothing that was finished has changed since the kill, after which hashes were `before`, and
    scores are right.
    """
    after = hashes(results)
    assert [
        name
        for name, content in before.items()
        if name.endswith(".json") and after.get(name) != content
    ] == []
    assert scores(results) == wanted


def short(folder: str, fault: Mapping[str, Any] | None, methods: str | None, **how: Any) -> None:
    """A short grid in this process, which is killed as a fault says; what it prints is lost."""
    os.environ["HARNESS_CACHE"] = f"{folder}/cache"
    if fault is not None:
        arm({"root": folder, **fault})
    short_run(methods, Path(folder, "results"), executor="serial", **how)


def index(folder: str, fault: Mapping[str, Any]) -> None:
    """Read results through an index, however few they are, in a process that is killed as a fault
    says.
    """
    arm({"root": folder, **fault})
    store_index.WORTH_FILES = 1
    Store(Path(folder, "results")).frames()


def exit_code(process: ForkServerProcess) -> int | None:
    """The exit code of a process, once it has ended."""
    process.join()
    return process.exitcode
