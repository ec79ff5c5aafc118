"""What the fault suite shares: a small grid, and what must be equal whatever else went wrong."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.reporting.results import Results

#: runs of a second
SHORT: dict[str, Any] = {
    "profile": "tiny",
    "settings": "toy-text",
    "suites": "sts",
    "set": {"steps": 4, "eval_every": 2, "batch_size": 8},
}


def short_run(methods: str, results: Path, **how: Any) -> Results:
    """Runs of methods with one seed, or as `how` says."""
    return harness.run(methods=methods, results=results, **{**SHORT, "seeds": 1, **how})


def outcome(results: Results) -> dict[str, object]:
    """What must be equal bit for bit in two runs of one configuration: fingerprint, curves, scores; by key."""
    return {
        run.spec.key: (run.fingerprint, run.losses, run.dev, [one.scores for one in run.evaluations])
        for run in results.runs
    }


@dataclass(frozen=True)
class Disk:
    """A small file system in memory, mounted for a test."""

    path: Path

    def remount(self, options: str) -> None:
        """Change its size, or make it read-only."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)

    def fill(self) -> None:
        """Leave no room."""
        with (self.path / "filler").open("wb") as stream, suppress(OSError):
            while True:
                stream.write(bytes(4096))
                stream.flush()


@contextmanager
def small_disk(path: Path, size: str = "8m") -> Iterator[Disk]:
    """Mount one; the test is skipped where that is not permitted."""
    path.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(path)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no tmpfs can be mounted here; what a full or a read-only disk does was not tried")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def in_child(work: Callable[[], None], before: Callable[[], object]) -> str:
    """What work raises in a forked process that calls `before` first; empty where it raises nothing."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        said = ""
        try:
            before()
            work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writes, said.encode()[:4000])
        os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with os.fdopen(reads, "rb") as stream:
        return stream.read().decode()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
