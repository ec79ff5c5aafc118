"""Every writer where one of its operations on files fails, the first to the last by turns."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from faults_tools import contents
from hooks.sitecustomize import operation
from writers import APPENDING, EXPENDABLE, OF_CACHES, WRITERS

from harness.errors import UserError


@dataclass
class Shim:
    """Fails the n-th operation on files below a folder in this process, and notes all of them."""

    root: str = ""
    nth: int = 0
    operations: list[str] = field(default_factory=list)

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.root:
            return
        root, self.root = self.root, ""  # it is not called by itself
        try:
            line = operation(root, event, given)
        finally:
            self.root = root
        if line is None:
            return
        self.operations.append(line)
        if len(self.operations) == self.nth:
            raise OSError(errno.EIO, os.strerror(errno.EIO), line)

    @contextmanager
    def armed(self, root: Path, nth: int = 0) -> Iterator[None]:
        """Watch a folder; fail the n-th operation there, none for 0."""
        self.operations, self.nth, self.root = [], nth, str(root)
        try:
            yield
        finally:
            self.root = ""


@pytest.fixture(scope="module")
def shim() -> Shim:
    """The shim of this process, which cannot be removed from it."""
    shim = Shim()
    sys.addaudithook(shim)
    return shim


def state(folder: Path) -> dict[str, bytes]:
    """The files below a folder but locks, parts of a file, and those named by a time."""
    files = contents(folder)
    return {
        name: content
        for name, content in files.items()
        if not name.endswith(".lock") and "/hashes/" not in name and ".parts/" not in name
    }


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_survives_the_failure_of_any_of_its_operations(
    name: str, every: bool, shim: Shim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there stays or is replaced as a whole, nothing temporary stays, and it works later."""
    folder, write = tmp_path / "folder", WRITERS[name]
    cache = folder / "cache" if name in OF_CACHES else tmp_path / "cache"
    monkeypatch.setenv("HARNESS_CACHE", str(cache))
    folder.mkdir()
    with shim.armed(folder):
        write(folder)
    count, whole = len(shim.operations), state(folder)
    assert count >= 1

    for nth in range(1, count + 1) if every else {1, count}:
        shutil.rmtree(folder)
        folder.mkdir()
        said = ""
        try:
            with shim.armed(folder, nth):
                write(folder)
        except (OSError, UserError) as error:
            said = str(error)
        after = state(folder)
        appends = name in APPENDING
        assert said or after == whole or appends or name in EXPENDABLE, f"{nth}: it says nothing"
        assert appends or after.items() <= whole.items(), f"{nth}: half a file"
        assert not [path for path in after if path.endswith(".tmp")], f"{nth}: a file is left"
        write(folder)
        assert appends or state(folder) == whole, f"{nth}: it does not work later"
