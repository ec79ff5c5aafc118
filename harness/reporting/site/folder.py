"""The folder of a report: written beside its target and then swapped in, so that a killed report keeps the old one.

A file in the folder lists all files of the report. Files that are not listed are never deleted.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.caches import is_unusable
from harness.errors import UserError
from harness.plaintext import LONGEST_NAME
from harness.sources import digest

#: File that lists the files of a report, one per line, and marks the folder as a report.
MARK = ".harness-report"


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
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
        try:
            yield fresh
            _list_files(fresh)
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


def _list_files(folder: Path) -> None:
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    (folder / MARK).write_text("\n".join([*names, MARK]) + "\n", encoding="utf-8")


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
