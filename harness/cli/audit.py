"""`harness audit --seen`: tests that are in the training data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import names_option, options_of
from harness.cli.output import echo, print_table
from harness.command_line import Selection
from harness.errors import UserError
from harness.formatting import fixed

if TYPE_CHECKING:
    from harness.planning.overlaps import PairOverlap

_PLACE = ("setting", "suite", "task")
_PAIRS = (
    *_PLACE,
    "subset",
    "pairs",
    "any seen",
    "both seen",
    "of one image",
    "gold, one image",
    "gold, other images",
)
_LEGEND = (
    "any seen: a sentence of the pair is in the training data (compared in lower case, letters and digits only); of "
    "one image: both sentences are captions of one training image. The gold columns are mean scores of such pairs, "
    "and of pairs of captions of different training images. Subsets without a seen sentence are not listed. A dash: no "
    "such pair, or no corpus with several captions per image."
)


@click.command()
@click.option(
    "--seen", is_flag=True, help="List test pairs and images that are in the training data."
)
@options_of(Selection, "profile")
@names_option("--settings", "S,T", "Training settings (default: the profile's).")
@options_of(Selection, "suites", "data_root")
def audit(
    seen: bool, profile: str, settings: str | None, suites: str | None, data_root: Path | None
) -> None:
    """Compare tests with training data.

    With --seen, the tests of a profile's suites, and the task that selects checkpoints, are
    compared with the training data of its settings. Nothing is trained.
    """
    if not seen:
        raise UserError(
            "nothing is selected; add --seen to compare tests with training data (the audit of the papers' "
            "printed numbers is a page of each report)"
        )
    show_overlaps(profile, settings, suites, data_root)


def show_overlaps(
    profile: str, settings: str | None, suites: str | None, data_root: Path | None
) -> None:
    """Print the overlaps of settings with the tests of suites. Raises UserError."""
    from harness import api

    overlaps = api.overlaps(profile, settings=settings, suites=suites, data_root=data_root)
    if overlaps.pairs:
        shown_pairs = [overlap for overlap in overlaps.pairs if overlap.seen or not overlap.subset]
        print_table(_PAIRS, [_make_pair_row(overlap) for overlap in shown_pairs])
        echo(_LEGEND)

    if overlaps.images:
        rows = [
            (
                overlap.setting,
                overlap.suite,
                overlap.task,
                f"{overlap.images:,}",
                f"{overlap.seen:,}",
            )
            for overlap in overlaps.images
        ]
        print_table((*_PLACE, "images", "seen in training"), rows)
    for line in overlaps.skipped:
        echo(f"skipping {line}")


def _make_pair_row(overlap: PairOverlap) -> tuple[str, ...]:
    """The cells below `_PAIRS`, which `_LEGEND` explains."""
    return (
        overlap.setting,
        overlap.suite,
        overlap.task,
        overlap.subset,
        f"{overlap.pairs:,}",
        f"{overlap.seen:,}",
        f"{overlap.both_seen:,}",
        "-" if overlap.one_image is None else f"{overlap.one_image:,}",
        _format_gold(overlap.gold_one_image),
        _format_gold(overlap.gold_other_images),
    )


def _format_gold(mean: float | None) -> str:
    return "-" if mean is None else fixed(mean, 2)
