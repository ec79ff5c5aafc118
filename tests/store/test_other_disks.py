"""Folders of results on several disks: what moves between them is copied whole, and an error holds
up no later run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import result

from harness.errors import UserError
from harness.files import flush, move
from harness.store import Store
from harness.store.folder import supersede

OLD = result(finished="2026-01-02T03:04:05+00:00")
RUN = (OLD.profile, OLD.spec, OLD.fingerprint)


def disk_of(path: Path, other: Path) -> bool:
    """Whether a path is on the second disk."""
    return path.parent.resolve().is_relative_to(other)


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for another disk: nothing is renamed between it and the rest."""
    other, replace = tmp_path / "other disk", Path.replace
    other.mkdir()

    def replaced(path: Path, target: Path) -> Path:
        if disk_of(path, other) != disk_of(Path(target), other):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path), None, str(target))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replaced)
    return other


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "results")
    made.save_log(OLD, "the first\n")
    made.save(OLD)
    weights = made.work(OLD.fingerprint) / "best" / "weights"
    weights.parent.mkdir(parents=True)
    weights.write_text("the weights")
    return made


def on(store: Store, other: Path, name: str) -> None:
    """Put a folder of the store on the other disk."""
    path = store.root / name
    if path.exists():
        path.rename(other / name)
    else:
        (other / name).mkdir()
    path.symlink_to(other / name)


@pytest.mark.parametrize("name", [".superseded", ".work", OLD.profile])
def test_a_run_moves_across_disks(store: Store, other: Path, name: str) -> None:
    on(store, other, name)
    earlier = Store(*supersede(store, [RUN]))
    assert (earlier.work(OLD.fingerprint) / "best" / "weights").read_text() == "the weights"
    assert (store.load()[0], earlier.load()[0], earlier.log(OLD)) == ([], [OLD], "the first\n")
    assert not list(store.root.rglob("*.tmp"))
    assert not list(other.rglob("*.tmp"))


@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.ENOSPC, errno.EIO]
)
def test_what_cannot_move_is_one_line_and_holds_up_no_later_run(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(path: Path, target: Path) -> Path:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        replace: Callable[[Path, Path], Any] = Path.replace
        patch.setattr(
            Path,
            "replace",
            lambda p, to: refused(p, to) if ".superseded" in str(to) else replace(p, to),
        )
        with pytest.raises(UserError, match=f"{os.strerror(number)}; correct this"):
            supersede(store, [RUN])
    assert store.load()[0] == [OLD]
    assert (store.work(OLD.fingerprint) / "best" / "weights").read_text() == "the weights"
    assert len(supersede(store, [RUN])) == 1, "later it works"


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_a_move_that_is_killed_leaves_one_of_both_whole(
    tmp_path: Path, other: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    source, target = tmp_path / "source", other / "below" / "target"
    if what == "folder":
        (source / "deep").mkdir(parents=True)
        (source / "deep" / "file").write_text("content")
    elif what == "link":
        source.symlink_to("elsewhere")
    else:
        source.write_text("content")

    def content(path: Path) -> object:
        if path.is_symlink():
            return path.readlink()
        return (path / "deep" / "file" if what == "folder" else path).read_text()

    before, replace = content(source), Path.replace
    for stop in (1, 2, 3):
        calls = iter(range(1, stop + 1))

        def killed(path: Path, to: Path, calls: Iterator[int] = calls, stop: int = stop) -> Path:
            if next(calls) == stop:
                raise KeyboardInterrupt
            return replace(path, to)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                move(source, target)
        assert content(source) == before
    move(source, target)
    assert content(target) == before
    assert not os.path.lexists(source)
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_file_system_that_cannot_flush_is_used_and_one_that_fails_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, fails in (
        (errno.EINVAL, False),
        (errno.ENOSYS, False),
        (errno.EIO, True),
        (errno.ENOSPC, True),
    ):

        def fsync(handle: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fsync)
        if fails:
            with pytest.raises(OSError, match=os.strerror(number)):
                flush(0)
        else:
            flush(0)
