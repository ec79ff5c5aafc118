"""Which trackers can be used here. Imports none of their libraries, and no torch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from harness.errors import UserError
from harness.registry import get_class
from harness.work.tracking.base import Tracker


def installed_trackers(names: str | Sequence[str]) -> dict[str, type[Tracker]]:
    """Look up trackers by name, in a sequence or one text with commas.

    Raises UserError for an unknown one and for one whose library is not installed.
    """
    listed = names.split(",") if isinstance(names, str) else names
    found = {name: get_class("tracker", name, Tracker) for name in map(str.strip, listed) if name}
    for name, tracker in found.items():
        if tracker.module and not _is_installed(tracker.module):
            raise UserError(
                f"the tracker '{name}' needs {tracker.module}, which is not installed; run `{tracker.install}`"
            )
    return found


def _is_installed(module: str) -> bool:
    """Whether a package is there; a folder of its name, such as W&B's, is found as a package without a file."""
    found = find_spec(module)
    return found is not None and found.origin is not None


def tracker_folder(name: str, results: Path) -> Path:
    """Where a tracker puts files, unless its library's own variables say otherwise."""
    return results / name


def tracker_places(names: str | Sequence[str], results: Path) -> dict[str, str]:
    """Where each tracker records, in a few words. Raises as `installed_trackers` does."""
    return {name: found.place(tracker_folder(name, results)) for name, found in installed_trackers(names).items()}
