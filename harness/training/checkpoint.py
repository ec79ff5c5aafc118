"""Checkpoints and folders that are never left partly written.

A checkpoint is named by its step and the hash of its content, `checkpoint-STEP-HASH.pt`: a file of that name is whole
if it has that hash. Two are kept, the current one and the one before.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness.checksums import DamagedError
from harness.regular import open_regular
from harness.sources import fill_folder, remove

_NAME = re.compile(r"checkpoint-([0-9]+)-([0-9a-f]{32})\.pt")
_KEPT = 2


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, whose "step" names the file, flush them to disk, and keep the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / ".checkpoint.pt.tmp"
    try:
        with temporary.open("wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except (OSError, RuntimeError) as error:
        temporary.unlink(missing_ok=True)
        raise _cause(error) from error
    temporary.replace(folder / f"checkpoint-{state['step']}-{_hash(temporary)}.pt")
    for path in checkpoints(folder)[_KEPT:]:
        path.unlink()


def _cause(error: BaseException) -> BaseException:
    """The error of the file system behind one of torch, which says only that a size is unexpected; else the error."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, OSError):
        found = found.__context__
    return found or error


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, that of the latest step first."""
    found = ((match, path) for path in folder.glob("checkpoint-*.pt") if (match := _NAME.fullmatch(path.name)))
    return [path for _, path in sorted(found, key=lambda one: int(one[0][1]), reverse=True)]


def load_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint. Raises DamagedError for one that has changed since it was written."""
    try:
        match = _NAME.fullmatch(path.name)
        if match is None or _hash(path) != match[2]:
            raise DamagedError("its content does not match its name")
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError, KeyError, OSError) as error:
        raise DamagedError(f"it cannot be read: {error}") from error
    return state


def _hash(path: Path) -> str:
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a new folder by calling `fill(path)`, flush it to disk, then replace `folder`, or a link to one, by it.

    If `fill` raises, the new folder is removed and `folder` stays as it was.
    """
    temporary = folder.with_name(f".{folder.name}.tmp")
    remove(temporary)
    fill_folder(temporary, fill)
    remove(folder)
    temporary.rename(folder)
