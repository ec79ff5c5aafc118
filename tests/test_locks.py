"""Locks: held by one process, refused where the file system has none."""

from __future__ import annotations

import errno
import os
import threading
import time
import warnings
from pathlib import Path

import pytest
from executor_jobs import ignore, jobs, plan

from harness.errors import UserError
from harness.locks import NO_LOCKS, hold_lock, try_lock
from harness.runs.execution import Execution
from harness.store import Store
from harness.store.folder import is_in_progress
from harness.work.base import execute


def test_a_lock_that_another_holds_is_reported_and_waited_for(tmp_path: Path) -> None:
    lines: list[str] = []
    order: list[str] = []

    def second() -> None:
        with hold_lock(tmp_path / "lock", "features", lines.append):
            order.append("second")

    with hold_lock(tmp_path / "lock", "features", lines.append):
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


def test_a_run_is_in_progress_while_its_lock_is_held_and_a_look_leaves_no_trace(
    tmp_path: Path,
) -> None:
    store, run = Store(tmp_path), "ab" * 32
    assert not is_in_progress(store, run)
    assert not list(tmp_path.iterdir()), "who only looks writes nothing"
    with store.lock(run):
        store.lock_file(run).chmod(0o444)  # of a colleague
        assert is_in_progress(store, run)
    assert not is_in_progress(store, run), "the file of a lock that nobody holds may stay"
    store.lock_file(run).unlink(missing_ok=True)
    store.lock_file(run).mkdir()
    assert not is_in_progress(store, run), "a lock that cannot be taken is held by nobody"


@pytest.mark.parametrize("number", [*NO_LOCKS, errno.EIO])
def test_a_file_system_without_locks_is_refused_in_one_line_and_leaves_no_soft_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """flock answers as on Lustre without -o flock, on a file system without locks, and on NFS
    without its server.

    Another error is itself.
    """

    def flock(file: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused = pytest.raises(UserError, match="has no file locks")
        with pytest.raises(OSError, match=os.strerror(number)) if number == errno.EIO else refused:
            Store(tmp_path).lock("a" * 64).__enter__()
    monkeypatch.undo()
    with Store(tmp_path).lock("a" * 64) as acquired:
        assert acquired, "nothing of the refused lock is in the way"


def test_a_lock_that_cannot_be_made_costs_its_run_alone(tmp_path: Path) -> None:
    (run,) = jobs(tmp_path, "none")
    (tmp_path / ".locks" / f"{run.id[:32]}.lock").mkdir(parents=True)
    (failure,) = execute(plan(tmp_path, "none"), ignore, Execution(executor="serial"))
    assert f"{run.id[:32]}.lock" in getattr(failure, "error", "")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
def test_a_results_folder_that_takes_no_file_is_one_line() -> None:
    with pytest.raises(UserError, match="--results /proc/self cannot be written"):
        execute(plan(Path("/proc/self"), "none"), ignore)
