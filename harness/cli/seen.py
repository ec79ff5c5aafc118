"""The tables of `harness audit --seen`: pairs and images of the tests that are training data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import echo
from harness.cli.tables import plain_table
from harness.formatting import fixed

if TYPE_CHECKING:
    from harness.planning.overlap import PairOverlap

_PLACE = ("setting", "suite", "task")
_PAIRS = (*_PLACE, "subset", "pairs", "one seen", "both seen", "of one image", "gold, one image", "other images")
_LEGEND = (
    "one seen: a sentence of the pair is in the training data (compared in lower case, letters and digits only); of "
    "one image: both sentences are captions of one training image. The gold columns are mean scores of such pairs, "
    "and of pairs of captions of different training images. Subsets without a seen sentence are not listed. A dash: no "
    "such pair, or no corpus with several captions per image."
)


def show_overlaps(profile: str, settings: str | None, suites: str | None, data_root: Path | None) -> None:
    """Print the overlaps of settings with the tests of suites. Raises UserError."""
    from harness import api

    found = api.overlaps(profile, settings=settings, suites=suites, data_root=data_root)
    if found.pairs:
        plain_table(_PAIRS, [_pair_row(row) for row in found.pairs if row.seen or not row.subset])
        echo(_LEGEND)
    if found.images:
        rows = [(row.setting, row.suite, row.task, f"{row.images:,}", f"{row.seen:,}") for row in found.images]
        plain_table((*_PLACE, "images", "seen in training"), rows)
    for line in found.skipped:
        echo(f"skipping {line}")


def _pair_row(row: PairOverlap) -> tuple[str, ...]:
    counts = (row.pairs, row.seen, row.both_seen, row.one_image)
    means = (row.gold_one_image, row.gold_other_images)
    texts = ("-" if count is None else f"{count:,}" for count in counts)
    return (row.setting, row.suite, row.task, row.subset, *texts, *("-" if m is None else fixed(m, 2) for m in means))
