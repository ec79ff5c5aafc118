"""Which images of a corpus can be decoded: found out once a content, and what stands in for the others."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from harness.encoders.pictures import UNREADABLE, Encoded, decoded, described
from harness.errors import UserError
from harness.sources import cache_folder, digest, write_text

log = logging.getLogger(__name__)

#: names of unreadable images that a message gives
NAMED = 5


def mended(
    items: Sequence[Encoded], names: Sequence[str], where: str, limit: int, key: str
) -> tuple[np.ndarray, list[str]]:
    """For each of n images the number of the one to read, (n,), and a warning where that is another.

    An unreadable image is replaced by the next readable one, counted on from the last to the first. `key`
    names the content, for which the check is done once. Raises UserError for more unreadable images than
    `limit`, naming the first.
    """
    bad = _unreadable(items, key)
    order = np.arange(len(items))
    if not bad:
        return order, []
    told = "; ".join(f"{names[row]} ({why})" for row, why in list(bad.items())[:NAMED])
    told += f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    if len(bad) > limit or len(bad) == len(items):
        raise UserError(
            f"{where}: {len(bad)} of {len(items)} images cannot be decoded: {told}; "
            f"remove or replace them, or set bad = {len(bad)} for the corpus to have the next ones in their place"
        )
    good = np.array([row for row in range(len(items)) if row not in bad])
    order = good[np.searchsorted(good, order) % len(good)]
    warning = f"{where}: {len(bad)} of {len(items)} images cannot be decoded and the next ones stand for them: {told}"
    log.warning(warning)
    return order, [warning]


def _unreadable(items: Sequence[Encoded], key: str) -> Mapping[int, str]:
    """Why each unreadable image is so, by its number."""
    note = cache_folder() / "readable" / f"{digest('readable', key)}.json"
    if note.is_file():
        return {int(row): why for row, why in json.loads(note.read_text()).items()}
    # Pillow decodes without the interpreter's lock
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = {row: why for row, why in enumerate(pool.map(_why_not, items)) if why}
    write_text(note, json.dumps(found))
    return found


def _why_not(item: Encoded) -> str:
    try:
        decoded(item)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno:
            raise UserError(f"an image cannot be read: {error}; look after its folder") from error
        return described(error)
    return ""
