"""`harness audit`: checks of the papers' printed numbers and claims, and of tests that are in the
training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from harness.cli.options import names_option, options_of
from harness.cli.output import echo, plain_table
from harness.command_line import Selection, harness_command
from harness.errors import UserError
from harness.formatting import fixed
from harness.registry import suggest

if TYPE_CHECKING:
    from harness.papers.printed import Finding
    from harness.planning.seen import PairOverlap

_PLACE = ("setting", "suite", "task")
_PAIRS = (
    *_PLACE,
    "subset",
    "pairs",
    "one seen",
    "both seen",
    "of one image",
    "gold, one image",
    "other images",
)
_LEGEND = (
    "one seen: a sentence of the pair is in the training data (compared in lower case, letters and digits only); of "
    "one image: both sentences are captions of one training image. The gold columns are mean scores of such pairs, "
    "and of pairs of captions of different training images. Subsets without a seen sentence are not listed. A dash: no "
    "such pair, or no corpus with several captions per image."
)


@click.command()
@click.option("--paper", metavar="NAME", help="Check this paper only, and list every exception.")
@click.option(
    "--seen",
    is_flag=True,
    help="Instead: list test pairs and images that are in the training data.",
)
@options_of(Selection, "profile")
@names_option("--settings", "S,T", "With --seen: training settings (default: the profile's).")
@options_of(Selection, "suites", "data_root")
@click.pass_context
def audit(
    context: click.Context,
    /,
    paper: str | None,
    seen: bool,
    profile: str,
    settings: str | None,
    suites: str | None,
    data_root: Path | None,
) -> None:
    """Check the papers' printed numbers and claims.

    The checks recompute averages, stars, quotes and claims. Verdicts: holds, fails, or within
    rounding (fails as printed, but not for all values that round to it). Statements that the paper
    does not make are counted apart.

    With --seen, the tests of a profile's suites, and the task that selects checkpoints, are
    compared with the training data of its settings. Nothing is trained.
    """
    if seen and paper is not None:
        raise UserError("--paper checks printed numbers and --seen compares data; give one of them")
    if seen:
        show_overlaps(profile, settings, suites, data_root)
    elif (
        settings
        or suites
        or data_root
        or context.get_parameter_source("profile") is not ParameterSource.DEFAULT
    ):
        raise UserError(
            "--profile, --settings, --suites and --data-root select what --seen compares; add --seen"
        )
    else:
        _check_papers(paper)


def _check_papers(paper: str | None) -> None:
    from harness.papers.audit import audit as findings_of
    from harness.papers.needed import own_case
    from harness.papers.published import read_published

    findings = findings_of(read_published())
    names = list(dict.fromkeys(finding.paper for finding in findings))
    paper = paper if paper is None else own_case(paper, names)
    if paper is not None and paper not in names:
        raise UserError(f"unknown paper '{paper}'; {suggest(paper, names)}")
    for name in names if paper is None else [paper]:
        _show(
            name,
            [finding for finding in findings if finding.paper == name],
            details=paper is not None,
        )
    if paper is None:
        echo(f"{harness_command('audit', paper='NAME')} lists every exception")


def _show(name: str, findings: Sequence[Finding], details: bool) -> None:
    from harness.papers.printed import tally

    counts = ", ".join(f"{word} {count}" for word, count in tally(findings).items())
    echo(f"{name}: {len(findings)} checks; {counts}")
    plain_table(
        ("where", "statement", "check", "verdict", "exceptions"),
        [(f.where, f.claim, f.check, f.word, _counts(f)) for f in findings],
    )
    for finding in findings if details else ():
        if finding.details:
            echo(f"{finding.where}: {finding.claim}")
            for line in finding.details:
                echo(f"  {line}")


def _counts(finding: Finding) -> str:
    text = f"{finding.failed} of {finding.checked}"
    return f"{text}, {finding.within} within rounding" if finding.within else text


def show_overlaps(
    profile: str, settings: str | None, suites: str | None, data_root: Path | None
) -> None:
    """Print the overlaps of settings with the tests of suites. Raises UserError."""
    from harness import api

    overlaps = api.overlaps(profile, settings=settings, suites=suites, data_root=data_root)
    if overlaps.pairs:
        plain_table(
            _PAIRS, [_pair_row(row) for row in overlaps.pairs if row.seen or not row.subset]
        )
        echo(_LEGEND)
    if overlaps.images:
        rows = [
            (row.setting, row.suite, row.task, f"{row.images:,}", f"{row.seen:,}")
            for row in overlaps.images
        ]
        plain_table((*_PLACE, "images", "seen in training"), rows)
    for line in overlaps.skipped:
        echo(f"skipping {line}")


def _pair_row(row: PairOverlap) -> tuple[str, ...]:
    counts = (row.pairs, row.seen, row.both_seen, row.one_image)
    means = (row.gold_one_image, row.gold_other_images)
    texts = ("-" if count is None else f"{count:,}" for count in counts)
    return (
        row.setting,
        row.suite,
        row.task,
        row.subset,
        *texts,
        *("-" if m is None else fixed(m, 2) for m in means),
    )
