"""What the fault suite shares: a small grid, and what must be equal whatever else went wrong."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import result

import harness
from harness.caches import known_hash
from harness.code import Declarations
from harness.encoders.features import cached_features, cached_ragged
from harness.files import remove, write_note
from harness.metrics import ArrayName
from harness.planning.events import Event
from harness.planning.seen import cached_hashes
from harness.reporting.results import Results
from harness.runs.log import RunLog
from harness.store import Failure, Store
from harness.store.columns import TablesWriter
from harness.store.folder import Submission, begin_attempt, note_submission
from harness.store.index import write_tables
from harness.training.folder import TrainingFolder
from harness.work.crew import EventWriter
from harness.work.ray.node import Parcel, unpack

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


def hashes(folder: Path) -> dict[str, str]:
    """The hash of each result file, arrays and logs included, by its name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("[!.]*/*/*/*/seed-*")}


def cut(path: Path, tenth: int) -> None:
    """Leave so many tenths of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * tenth // 10])


def misplace(path: Path, kind: str) -> None:
    """Put something that is no regular file where a file or folder is."""
    remove(path)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "loop": path.name}[kind])


#: what `misplace` puts there, and what of it could be waited for
ODD_KINDS = ("pipe", "device", "folder", "loop")
WAITING = ("pipe", "device", "loop")


def flip(path: Path, place: float) -> None:
    """Change one bit at a place between 0 and 1 of a file, which keeps its size and its time."""
    content, before = bytearray(path.read_bytes()), path.stat()
    content[int(len(content) * place)] ^= 1 << int(place * 1000) % 8
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@dataclass(frozen=True)
class Disk:
    """A small file system in memory, mounted for a test."""

    path: Path

    def remount(self, options: str) -> None:
        """Change its size, or make it read-only."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)

    def fill(self) -> None:
        """Leave no room."""
        with (self.path / "filler").open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(bytes(4096))


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


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without any permission, where this process is root's."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """A limit on the size of each file, in bytes."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Place:
    """A kind of file that is written. `expendable`: work goes on without it; `appends`: to a file that is no result."""

    name: str
    write: Callable[[Path], object]
    expendable: bool = False
    appends: bool = False


def places() -> list[Place]:
    """Everything that writes on its own, not into a folder that is renamed as a whole."""
    one, fingerprint = result(), "ab" * 32
    failure = Failure(spec=one.spec, profile="tiny", fingerprint=fingerprint, error="x", traceback="", when="now")
    note = Submission(system="SLURM", id="7", key="k", folder=Path("f"), log=Path("l"))
    arrays = {ArrayName("task", "what", ""): np.arange(1000.0)}
    return [
        Place("result", lambda to: Store(to).save(one)),
        Place("arrays", lambda to: Store(to).save_arrays(one, one.evaluations[0], arrays)),
        Place("log of a result", lambda to: Store(to).save_log(one, "a line\n" * 9)),
        Place("failure", lambda to: Store(to).save_failure(failure, "a line\n" * 9)),
        Place("attempt", lambda to: begin_attempt(Store(to), fingerprint), expendable=True),
        Place("submission", lambda to: note_submission(Store(to), fingerprint, note)),
        Place("index", lambda to: write_tables(to / "index.bin", TablesWriter().tables())),
        Place("note", lambda to: write_note(to / "trained.json", {"a": 1})),
        Place("files from a node", lambda to: unpack(Parcel({"a/b.json": b"content" * 10}), Store(to))),
        Place("checkpoint", lambda to: TrainingFolder(to).save({"step": 1, "weights": torch.arange(100.0)})),
        Place("run's log", _log, appends=True),
        Place("events", _events, appends=True),
        *_caches(),
    ]


def _caches() -> Iterator[Place]:
    """Files of the cache, which HARNESS_CACHE names."""

    def declare() -> None:
        known = Declarations()
        known._known, known._new = {"a": 1}, True
        known.save()

    def rows(start: int, stop: int) -> np.ndarray:
        return np.ones((stop - start, 64), np.float32)

    yield Place("features", lambda _: cached_features("key", 64, rows))
    yield Place("recordings", lambda _: cached_ragged("key", 64, 8, lambda number: np.ones((4, 8))))
    yield Place("seen texts", lambda _: cached_hashes("c", lambda: ["x"]))
    yield Place("hash", lambda _: known_hash("hashes/key", lambda: "a" * 64), expendable=True)
    yield Place("declarations", lambda _: declare(), expendable=True)


def _log(folder: Path) -> None:
    with RunLog(folder / "run.log", "a key") as log:
        log.write("a line")


def _events(folder: Path) -> None:
    with EventWriter(folder / "events") as write:
        write(Event("start", "a key"))
