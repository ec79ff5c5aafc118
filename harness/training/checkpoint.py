"""Checkpoints and folders that are never left partly written."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

log = logging.getLogger(__name__)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values to a temporary file, flush it to disk, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def load_checkpoint(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Read a checkpoint; None where there is none. A damaged one is renamed with a warning, and training restarts."""
    if not path.is_file():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError, KeyError) as error:
        aside = path.with_suffix(".damaged")
        path.replace(aside)
        log.warning("the checkpoint %s cannot be read (%s); renamed to %s, training restarts", path, error, aside.name)
        return None
    return state


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a new folder by calling `fill(path)`, flush it to disk, then replace `folder` by it.

    If `fill` raises, the new folder is removed and `folder` stays as it was.
    """
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        fill(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for path in temporary.rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
