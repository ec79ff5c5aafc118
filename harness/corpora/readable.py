"""Replacing images that cannot be decoded; the check is cached by content."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from harness.corpora.base import some_of
from harness.encoders.pictures import UNREADABLE, Encoded, decoded, described
from harness.errors import UserError
from harness.sources import cache_folder, digest, write_text

log = logging.getLogger(__name__)


def replace_unreadable(
    items: Sequence[Encoded], names: Sequence[str], where: str, limit: int, key: str
) -> tuple[np.ndarray, list[str]]:
    """Map each of n images to itself, or to the next readable one, wrapping at the end: (n,), and a warning.

    `key` identifies the content, which is checked once. Raises UserError, naming the first ones, for more
    unreadable images than `limit`.
    """
    bad = _unreadable(items, key)
    order = np.arange(len(items))
    if not bad:
        return order, []
    found = f"{where}: {len(bad)} of {len(items)} images cannot be decoded"
    listed = some_of([f"{names[row]} ({why})" for row, why in bad.items()])
    if len(bad) > limit or len(bad) == len(items):
        raise UserError(
            f"{found}: {listed}; remove or replace them, or set bad = {len(bad)} for the corpus to use the next "
            "images in their place"
        )
    good = np.array([row for row in range(len(items)) if row not in bad])
    order = good[np.searchsorted(good, order) % len(good)]
    warning = f"{found} and are replaced by the next ones: {listed}"
    log.warning(warning)
    return order, [warning]


def _unreadable(items: Sequence[Encoded], key: str) -> Mapping[int, str]:
    """The reason for each unreadable image, by its number."""
    note = cache_folder() / "readable" / f"{digest('readable', key)}.json"
    if note.is_file():
        return {int(row): why for row, why in json.loads(note.read_text()).items()}
    # Pillow releases the interpreter's lock
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = {row: why for row, why in enumerate(pool.map(_why_not, items)) if why}
    write_text(note, json.dumps(found))
    return found


def _why_not(item: Encoded) -> str:
    try:
        decoded(item)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno:
            raise UserError(f"an image cannot be read: {error}; check its folder") from error
        return described(error)
    return ""
