"""The images of a retrieval task that are left out for every model of a profile, because trainings in
its settings read them.

All rows of a table then rank one gallery, whichever runs a command asks for. A setting whose
trainings read so many images that fewer than `FEWEST` would be left does not count: models that are
trained in it have no recalls on that task, and so stand in no column with others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from unicodedata import unidata_version

import numpy as np

from harness.caches import read_or_make_note
from harness.corpora.base import CorpusSource
from harness.errors import UserError
from harness.evaluation.retrieval import FEWEST, RetrievalTask, check_captions, find_seen_images
from harness.planning.ingredients import Ingredient
from harness.planning.seen import VERSION, SeenRows
from harness.sources import digest, hash_reading_code


@dataclass(frozen=True)
class ImagesLeftOut:
    """The images of a task that are left out for every model: their rows, of `images` in all.

    `readers` are the settings whose trainings read some of them, and `barred` those whose trainings
    read too many, each with the number of images of the task that it reads.
    """

    images: int
    rows: tuple[int, ...]
    readers: Mapping[str, int]
    barred: Mapping[str, int]

    @property
    def lines(self) -> Iterator[str]:
        """What a user should know before a run."""
        if self.rows:
            readers = ", ".join(self.readers)
            ranked = self.images - len(self.rows)
            yield (
                f"{len(self.rows):,} of {self.images:,} images are training images of {readers} and are left out for "
                f"every model; {ranked:,} are ranked"
            )
        for setting, count in self.barred.items():
            yield (
                f"{count:,} of {self.images:,} images are training images of {setting}; fewer than {FEWEST} are left, "
                "so models trained in it have no recalls"
            )


def find_left_out_images(
    task: Ingredient[RetrievalTask], settings: Mapping[str, Sequence[Ingredient[CorpusSource]]]
) -> ImagesLeftOut:
    """The images of a task that trainings in settings read; `settings` have their captioned images.

    Kept in the cache folder; the task is read only where a setting has such images. Raises
    MissingData or UserError for a task that cannot be read.
    """
    if not settings:
        return ImagesLeftOut(0, (), {}, {})

    fingerprints = {
        name: [corpus.fingerprint for corpus in corpora] for name, corpora in settings.items()
    }
    code = (VERSION, hash_reading_code(), unidata_version, FEWEST)
    key = digest("left out", *code, task.fingerprint, fingerprints)
    note = read_or_make_note(
        f"galleries/{key}.json",
        "it will be computed again",
        lambda: _compare_with_settings(task, settings),
    )
    return ImagesLeftOut(note["images"], tuple(note["rows"]), note["readers"], note["barred"])


def _compare_with_settings(
    task: Ingredient[RetrievalTask], settings: Mapping[str, Sequence[Ingredient[CorpusSource]]]
) -> dict[str, Any]:
    """The values of `ImagesLeftOut`."""
    data = task.source.load(task.root)
    check_captions(task.source.name, data)
    count = len(data.images)
    left_out = np.zeros(count, dtype=bool)
    readers: dict[str, int] = {}
    barred: dict[str, int] = {}
    for name, corpora in settings.items():
        # a corpus that cannot be read trains no model: its own runs are refused with the reason
        with suppress(UserError):
            seen = find_seen_images(data, SeenRows(corpora))
            seen_count = int(seen.sum())
            if not seen_count:
                continue
            if count - seen_count < FEWEST:
                barred[name] = seen_count
            else:
                readers[name] = seen_count
                left_out |= seen
    rows = np.flatnonzero(left_out).tolist()
    return {"images": count, "rows": rows, "readers": readers, "barred": barred}
