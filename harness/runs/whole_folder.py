"""New folders, written completely or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from glob import escape
from pathlib import Path

from safetensors import SafetensorError

from harness.errors import UserError, first_line
from harness.files import fill_folder, temporary_beside
from harness.locks import try_lock

#: the file that marks a folder as an export that has not ended, and is locked as long as its process lives
_MARK = ".harness-export.lock"


def check_new(to: Path, option: str) -> None:
    """Raise UserError where the folder that an option names is neither new nor empty."""
    folder = to.expanduser().resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{option} {to} exists and is not an empty folder; nothing is overwritten, give another folder")


def write_whole(to: Path, option: str, fill: Callable[[Path], None]) -> Path:
    """Fill a new folder beside `to`, which is empty or not there, and rename it; remove it where that fails.

    Raises UserError where it cannot be written.
    """
    folder = to.expanduser().resolve()
    try:
        _write(folder, fill)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else first_line(error)
        raise UserError(f"{option} {to} cannot be written: {reason}; give another folder") from error
    return folder


def _write(folder: Path, fill: Callable[[Path], None]) -> None:
    fresh = temporary_beside(folder)
    _remove_leftovers(folder)

    with ExitStack() as held:

        def fill_marked(path: Path) -> None:
            held.enter_context(try_lock(path / _MARK))
            fill(path)

        fill_folder(fresh, fill_marked)
        try:
            (fresh / _MARK).unlink()
            fresh.replace(folder)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed exports to the same folder left: unfinished folders with their mark, which nobody holds."""
    for mark in folder.parent.glob(f"{escape(temporary_beside(folder).name.rsplit('.', 2)[0])}.*.tmp/{_MARK}"):
        with try_lock(mark) as free:
            if free:
                shutil.rmtree(mark.parent, ignore_errors=True)
