"""The folder of a report: written beside its target and then swapped in, so that a killed report keeps the old one.

A file in the folder lists all files of the report. Files that are not listed are never deleted. Some pages have a key
there, a hash of all that is on them: a page with the same key is taken over from the report before, not written again.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from harness.caches import is_unusable
from harness.errors import UserError
from harness.plaintext import LONGEST_NAME
from harness.sources import digest

#: File that lists the files of a report, one per line, and marks the folder as a report.
MARK = ".harness-report"
#: begins the line of a page with its key, size and time
_KEYED = "# "


class Written(NamedTuple):
    """A page that has a key: the key, and the page's size and time, by which a changed page is known."""

    key: str
    size: int
    mtime: int


class NewFolder:
    """The folder of a report that is being written, and the pages of the one before."""

    def __init__(self, path: Path, before: Path) -> None:
        """`before` is the folder that will be replaced; it need not exist."""
        self.path, self._before = path, before
        self._known, self._keys = _written(before / MARK), dict[str, str]()

    def kept(self, page: str, key: str) -> bool:
        """Take a page over from the report before if it had the same key; notes the key otherwise.

        `page` is its path below the folder. A page without a key is always written.
        """
        if not key:
            return False
        self._keys[page] = key
        old, new = self._before / page, self.path / page
        if page not in self._known or self._known[page] != _found(old, key):
            return False
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(old, new)
        except OSError:  # a file system without links
            shutil.copy2(old, new)
        return True

    def finish(self) -> None:
        """Write the list of files and keys."""
        names = sorted(path.relative_to(self.path).as_posix() for path in self.path.rglob("*") if path.is_file())
        keyed = ((page, _found(self.path / page, key)) for page, key in self._keys.items())
        lines = [f"{_KEYED}{page} {' '.join(map(str, found))}" for page, found in keyed if found]
        (self.path / MARK).write_text("\n".join([*names, MARK, *lines]) + "\n", encoding="utf-8")


@contextmanager
def new_folder(out: Path) -> Iterator[NewFolder]:
    """Yield a new folder that replaces `out` when the block succeeds and is removed otherwise.

    Raises UserError if `out` holds other files than those of an earlier report, or cannot be written.
    """
    out = out.resolve()
    if not out.name:
        raise UserError(f"{out} cannot be the folder of a report, which is replaced as a whole; give another --out")
    fresh, old = (out.with_name(f".{_short(out.name)}.{os.getpid()}.{what}") for what in ("new", "old"))
    with _os_errors_as(f"the report cannot be written to {out}"):
        _clean_up(out)
        _refuse_foreign(out)
        fresh.mkdir(parents=True)
    try:
        folder = NewFolder(fresh, out)
        try:
            yield folder
            folder.finish()
        except OSError as error:
            if not is_unusable(error):
                raise
            raise UserError(f"the report cannot be written to {out}: {error.strerror}; choose another --out") from error
        # checked again: writing may have taken a minute
        _refuse_foreign(out)
        with _os_errors_as(f"the report cannot be moved to {out}"):
            _swap(fresh, old, out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _short(name: str) -> str:
    """A folder's name, or for a long one a hash, so that a temporary name made from it is not too long."""
    return name if len(name.encode()) < LONGEST_NAME - 40 else digest(name)[:32]


def _found(page: Path, key: str) -> Written | None:
    try:
        stat = page.stat()
    except OSError:
        return None
    return Written(key, stat.st_size, stat.st_mtime_ns)


def _written(mark: Path) -> dict[str, Written]:
    """The pages with keys of an earlier report; none where there is no such report."""
    found: dict[str, Written] = {}
    with suppress(OSError, ValueError):
        for line in mark.read_text(encoding="utf-8").splitlines():
            if line.startswith(_KEYED):
                page, key, size, mtime = line.removeprefix(_KEYED).split(" ")
                found[page] = Written(key, int(size), int(mtime))
    return found


@contextmanager
def _os_errors_as(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{what}: {error.strerror}; choose another --out") from error


def _swap(fresh: Path, old: Path, out: Path) -> None:
    try:
        if out.exists():
            out.rename(old)
        fresh.rename(out)
    finally:
        if old.exists() and not out.exists():
            old.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def _clean_up(out: Path) -> None:
    """Clean up after killed reports: restore an old report that was moved away, delete unfinished new ones."""
    abandoned = [
        path for path in sorted(out.parent.glob(f".{glob.escape(_short(out.name))}.*.*")) if _is_abandoned(path)
    ]
    for path in abandoned:
        if path.suffix == ".old" and (path / MARK).is_file() and not out.exists():
            path.rename(out)
        elif path.suffix == ".new" or (path / MARK).is_file():
            shutil.rmtree(path)


def _is_abandoned(path: Path) -> bool:
    """Whether the process that created a folder has ended."""
    process = path.name.split(".")[-2]
    if not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return int(process) == os.getpid()


def _refuse_foreign(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder for the report")
    if not out.exists() or not any(out.iterdir()):
        return
    mark = out / MARK
    if not mark.is_file():
        raise UserError(f"{out} is not empty and not a report of harness; empty it or give another --out")
    own = set(mark.read_text(encoding="utf-8").splitlines())
    for path in sorted(out.rglob("*")):
        if not path.is_dir() and path.relative_to(out).as_posix() not in own:
            raise UserError(f"{path} is not a file of the report in this folder; move it away or give another --out")
