"""The runs of the profile `grounding` in results/reference, and what the blocks of docs/grounding.md
share.
"""

from __future__ import annotations

from collections.abc import Sequence

from reference_runs import format_interval, select_runs

from harness.metrics import Column, Metric
from harness.reporting.seeds.cells import Cell, Label, Row
from harness.reporting.seeds.choose import group_rows
from harness.reporting.seeds.summary import Block
from harness.reporting.tables.grids import format_summary
from harness.spec import BASELINE, UNTRAINED
from harness.stats import TTest
from harness.store import Frames, Result

PROFILE = "grounding"
OTHER_IMAGES = "grounding-efficientnet"
STUDENT = "text-bert"
OTHER_STUDENT = "text-bert-seed-1"
CAPTIONS = "flickr8k"
UNPAIRED = "wiki+cifar10"
METHOD = "mcse"
SHUFFLED = "mcse[images=shuffled]"
UNTRAINED_STUDENT = "none[pooling=mean]"
#: the overrides of runs whose last weights are scored, not those of the best dev score
LAST = "checkpoint=last"
SPEARMAN = Metric("spearman", unit="points of Spearman")


def select_untuned_runs(profile: str = PROFILE) -> list[Result]:
    """The runs at the profile's rate, without those of the configurations that a tuning chose."""
    runs = select_runs(profile)
    return [run for run in runs if "learning_rate" not in dict(run.spec.variant.options)]


def select_main_runs(profile: str = PROFILE, student: str = STUDENT) -> list[Result]:
    """The runs on all images with a student, without those of other weights."""
    runs = []
    for run in select_untuned_runs(profile):
        of_some_images = "shot" in dict(run.spec.setting.options)
        of_other_weight = "lambda" in dict(run.spec.variant.options)
        if run.spec.encoder != student or run.overrides or of_some_images or of_other_weight:
            continue
        runs.append(run)
    return runs


def select_main_pair_runs() -> list[Result]:
    """The runs of the main question: SimCSE and MCSE on captions only, of one caption a picture."""
    return [
        run
        for run in select_main_runs()
        if str(run.spec.setting) == CAPTIONS and str(run.spec.variant) in (BASELINE, METHOD)
    ]


def make_label(
    profile: str, variant: str, encoder: str = STUDENT, overrides: str = "", setting: str = CAPTIONS
) -> Label:
    """The label of a variant on captions, or of the student before training."""
    if variant == UNTRAINED_STUDENT:
        return Label(profile, variant, UNTRAINED, encoder, "")
    return Label(profile, variant, setting, encoder, overrides)


def find_rows(frames: Frames, suite: str, labels: Sequence[Label]) -> list[Row] | None:
    """The rows of labels in a suite, with the cells of parts of tasks; None where one was not run."""
    rows_by_suite = group_rows(frames, frames.scores, frames.parts)
    rows = []
    for label in labels:
        row = rows_by_suite.get(label, {}).get(suite)
        if row is None:
            return None
        rows.append(row)
    return rows


def find_row(block: Block, variant: str) -> Row | None:
    """The row of a variant at the profile's values."""
    for row in block.rows:
        if row.label.variant == variant and not row.label.overrides:
            return row
    return None


def format_mean(cell: Cell) -> str:
    """Mean and deviation of a cell, without the star of its table."""
    return str(format_summary(cell.summary, SPEARMAN.digits))


def format_mean_of(row: Row | None, column: Column) -> str:
    """Mean and deviation of a row; empty where it was not run."""
    return format_mean(row.cells[column]) if row else ""


def format_test(test: TTest | None) -> str:
    """A difference with its 95 % interval; empty where nothing was tested."""
    return format_interval(test, SPEARMAN.digits) if test else ""
