"""Folders of results on several disks: what moves between them is copied whole, and an error holds
up no later run.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from builders import result

from harness.errors import UserError
from harness.files import flush, move, rename, write_bytes
from harness.store import Store
from harness.store.folder import supersede

OLD = result(finished="2026-01-02T03:04:05+00:00")
RUN = (OLD.profile, OLD.spec, OLD.fingerprint)


def place(name: object, folder: int | None) -> Path:
    """The path of a name, which may be relative to an open folder."""
    path = Path(str(name))
    return path if folder is None else Path(f"/proc/self/fd/{folder}").readlink() / path


def put_on_another_disk(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nothing is renamed from what is below a folder to the rest, or back."""
    replace = os.replace

    def replaced(source: object, target: object, **folders: int) -> None:
        before = place(source, folders.get("src_dir_fd"))
        after = place(target, folders.get("dst_dir_fd"))
        if (folder in before.parents) != (folder in after.parents):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(before), None, str(after))
        replace(source, target, **folders)  # type: ignore[type-var]

    monkeypatch.setattr(os, "replace", replaced)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "results")
    made.save_log(OLD, "the first\n")
    made.save(OLD)
    weights = made.work(OLD.fingerprint) / "best" / "weights"
    weights.parent.mkdir(parents=True)
    weights.write_text("the weights")
    return made


@pytest.mark.parametrize("name", [".superseded", ".work", OLD.profile])
def test_a_run_moves_across_disks(store: Store, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    put_on_another_disk(monkeypatch, store.root / name)
    earlier = Store(*supersede(store, [RUN]))
    assert (earlier.work(OLD.fingerprint) / "best" / "weights").read_text() == "the weights"
    assert (store.load()[0], earlier.load()[0], earlier.log(OLD)) == ([], [OLD], "the first\n")
    assert not list(store.root.rglob("*.tmp"))


@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.ENOSPC, errno.EIO]
)
def test_what_cannot_move_is_one_line_and_holds_up_no_later_run(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    replace = os.replace

    def refused(source: object, target: object, **folders: int) -> None:
        if ".superseded" in str(place(target, folders.get("dst_dir_fd"))):
            raise OSError(number, os.strerror(number), str(source))
        replace(source, target, **folders)  # type: ignore[type-var]

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refused)
        with pytest.raises(UserError, match=f"{os.strerror(number)}; correct this"):
            supersede(store, [RUN])
    assert store.load()[0] == [OLD]
    assert (store.work(OLD.fingerprint) / "best" / "weights").read_text() == "the weights"
    assert len(supersede(store, [RUN])) == 1, "later it works"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_move_that_is_killed_leaves_one_of_both_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    source, target = tmp_path / "source", tmp_path / "other disk" / "below" / "target"
    if what == "folder":
        (source / "deep").mkdir(parents=True)
        (source / "deep" / "file").write_text("content")
    else:
        source.write_text("content")

    def content(path: Path) -> str:
        return (path / "deep" / "file" if what == "folder" else path).read_text()

    before = content(source)
    put_on_another_disk(monkeypatch, tmp_path / "other disk")
    replace = os.replace
    for stop in (1, 2, 3):
        calls = iter(range(1, stop + 1))

        def killed(
            *names: object, calls: Iterator[int] = calls, stop: int = stop, **folders: int
        ) -> None:
            if next(calls) == stop:
                raise KeyboardInterrupt
            replace(*names, **folders)  # type: ignore[arg-type,call-arg]

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                move(source, target, tmp_path)
        assert content(source) == before
    move(source, target, tmp_path)
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


@pytest.mark.parametrize(
    ("number", "fails"),
    [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True), (errno.ENOSPC, True)],
)
def test_an_error_while_a_name_is_flushed_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, fails: bool
) -> None:
    """The folder holds the name of a new file; some file systems cannot flush it."""
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    for write in (
        lambda: write_bytes(tmp_path / "file", b"content"),
        lambda: rename(tmp_path / "file", "renamed"),
    ):
        with pytest.raises(OSError, match=os.strerror(number)) if fails else nullcontext():
            write()
