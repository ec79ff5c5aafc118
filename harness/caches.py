"""The cache folder, for data that can be computed again."""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import REFUSALS, UserError
from harness.files import (
    ABANDONED_S,
    add_seal,
    expand,
    make_temporary_path,
    read_note,
    read_regular,
    remove_leftovers,
    write_text,
)

T = TypeVar("T")

log = logging.getLogger(__name__)


def get_cache_folder() -> Path:
    """The folder of reproducible files: HARNESS_CACHE, else ~/.cache/harness."""
    return _make_absolute(os.environ.get("HARNESS_CACHE") or "~/.cache/harness")


@cache
def _make_absolute(folder: str) -> Path:
    """Resolve by the working folder of the first call, since plug-ins may change it later."""
    return expand(folder).absolute()


def check_cache() -> None:
    """Raise UserError if the cache folder cannot be created; a read-only one is allowed, as it may
    be complete.
    """
    make_in_cache(".", lambda folder: None)


def is_unusable(error: OSError) -> bool:
    """Whether an error means that a folder is full, read-only, forbidden, or not a folder."""
    return error.errno in REFUSALS


@contextmanager
def explain_write_errors(what: object, advice: str) -> Iterator[None]:
    """Convert an error of a folder into a UserError of one line: its file, or that `what` cannot be
    written.

    The file may be one that was read: a forbidden source of an import is not an error of the target
    folder.
    """
    try:
        yield
    except OSError as error:
        if not is_unusable(error):
            raise
        subject = error.filename or f"{what} cannot be written"
        raise UserError(f"{subject}: {error.strerror}; {advice}") from error


def make_in_cache(name: str, make: Callable[[Path], T]) -> T:
    """Return `make(folder)` for the folder `name` of the cache, created if missing.

    Raises UserError if the cache cannot be written, and any other error of `make`.
    """
    cache = get_cache_folder()
    folder = cache / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _explain_unusable(error) from error

    try:
        return make(folder)
    except OSError as error:
        # a file elsewhere, such as one that `make` read
        file = error.filename
        is_elsewhere = file is not None and not Path(os.fsdecode(file)).is_relative_to(cache)
        if is_elsewhere or not is_unusable(error):
            raise
        raise _explain_unusable(error) from error


def read_cached_text(name: str) -> str | None:
    """Read a small file of the cache; None if it is missing or unreadable."""
    try:
        return read_regular(get_cache_folder() / name).decode()
    except (OSError, UnicodeDecodeError):
        return None


def read_or_make_note(
    name: str, then: str, make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Read a note in the cache; make and keep it if it is absent or damaged.

    Its values are those of JSON: lists for tuples, texts as keys. The warning about a damaged note
    ends with `then`.
    """
    note = read_note(get_cache_folder() / name, then)
    if note is None:
        text = json.dumps(make())
        keep_text(name, add_seal(text))
        note = json.loads(text)
    return note


def keep_text(name: str, text: str) -> None:
    """Write a small file of the cache, for `read_cached_text`; if that fails, warn once."""
    path = Path(name)

    def write(folder: Path) -> None:
        _clean(folder)
        write_text(folder / path.name, text)

    try:
        make_in_cache(str(path.parent), write)
    except UserError as error:
        _warn_once(str(error))


def read_own_secret() -> str:
    """A random text that stays the same for this user, from a file of the cache that nobody else
    can read; empty where the cache cannot be written.
    """
    path = get_cache_folder() / "secret"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = make_temporary_path(path)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(secrets.token_hex(32).encode())
                with suppress(FileExistsError):  # another process was faster
                    path.hardlink_to(temporary)
            finally:
                temporary.unlink()

        return read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        return ""


@cache
def _warn_once(line: str) -> None:
    log.warning("%s", line)


@cache
def _clean(folder: Path) -> None:
    """Remove leftovers of killed processes from a folder of the cache, once per process."""
    remove_leftovers(folder, older_than_s=ABANDONED_S)


def read_or_compute_hash(name: str, compute: Callable[[], str]) -> str:
    """Read a hash from the cache by name; compute and keep it if it is absent or damaged."""
    then = "it will be computed again"
    note = read_or_make_note(f"{name}.json", then, lambda: {"hash": compute()})
    return str(note["hash"])


def _explain_unusable(error: OSError) -> UserError:
    reason = f"the cache {get_cache_folder()} cannot be used ({error.strerror})"
    return UserError(f"{reason}; repair it, or set HARNESS_CACHE to another folder")
