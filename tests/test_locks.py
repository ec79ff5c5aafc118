"""Locks: held by one process, refused where the file system has none."""

from __future__ import annotations

import errno
import os
import threading
import time
import warnings
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.locks import NO_LOCKS, locked, try_lock
from harness.store import Store


def test_a_lock_that_another_holds_is_reported_and_waited_for(tmp_path: Path) -> None:
    lines: list[str] = []
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path / "lock", "features", lines.append):
            order.append("second")

    with locked(tmp_path / "lock", "features", lines.append):
        thread = threading.Thread(target=second)
        thread.start()
        while not lines:
            time.sleep(0.01)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert lines == ["features: in use elsewhere; waiting"]


def test_a_lock_that_another_holds_is_not_waited_for(tmp_path: Path) -> None:
    with try_lock(tmp_path / "lock") as mine, try_lock(tmp_path / "lock") as theirs:
        assert (mine, theirs) == (True, False)
    with try_lock(tmp_path / "lock") as again:
        assert again


@pytest.mark.parametrize("number", NO_LOCKS)
def test_a_file_system_without_locks_is_refused_in_one_line_and_leaves_no_soft_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """flock answers as on Lustre without -o flock, on a file system without locks, and on NFS without its server."""

    def flock(file: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError, match="has no file locks") as refused, Store(tmp_path).lock("a" * 64):
            pytest.fail("the lock was given")
    assert "--executor ray --no-shared-folder" in str(refused.value)
    assert "\n" not in str(refused.value)
    monkeypatch.undo()
    with Store(tmp_path).lock("a" * 64) as acquired:
        assert acquired, "nothing of the refused lock is in the way"


def test_another_error_of_the_file_system_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: int, operation: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(OSError, match="Input/output error"), try_lock(tmp_path / "lock"):
        pass
