"""What the fault suite shares: a small grid, and what must be equal whatever else went wrong."""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from executor_jobs import scored

import harness
from harness.files import remove
from harness.reporting.results import Results

#: runs of a second
SHORT: dict[str, Any] = {
    "profile": "tiny",
    "settings": "toy-text",
    "suites": "sts",
    "set": {"steps": 4, "eval_every": 2, "batch_size": 8},
}


class KilledError(Exception):
    """Stands for whatever ends a process at a moment that a test chooses."""


def short_run(methods: str | None, results: Path, **how: Any) -> Results:
    """Runs of methods with one seed, or as `how` says."""
    return harness.run(methods=methods, results=results, **{**SHORT, "seeds": 1, **how})


def outcome(results: Results) -> dict[str, object]:
    """What must be equal bit for bit in two runs of one configuration: fingerprint, curves, scores;
    by key.
    """
    return scored(results.runs)


def hashes(folder: Path) -> dict[str, str]:
    """The hash of each result file, arrays and logs included, by its name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("[!.]*/*/*/*/seed-*")
    }


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


def flip(path: Path, share: float) -> None:
    """Change one bit at a share between 0 and 1 of a file's length, which keeps its size and its
    time.
    """
    content, before = bytearray(path.read_bytes()), path.stat()
    content[int(len(content) * share)] ^= 1 << int(share * 1000) % 8
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """A limit on the size of each file, in bytes."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def contents(folder: Path, *, links: bool = True) -> dict[str, bytes]:
    """Every file below a folder by its path; with `links`, what these point to as well."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and (links or not path.is_symlink())
    }
