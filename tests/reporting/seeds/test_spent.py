"""What runs spent, and which comparisons a term without a part in the gradient decides nothing
about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from builders import result, sts

from harness.papers.published import read_ablations, read_published
from harness.reporting.sections.claims import make_claims_grid
from harness.reporting.seeds.cells import Row
from harness.reporting.seeds.choose import group_rows
from harness.reporting.seeds.controls import (
    describe_powerless,
    describe_short_budget,
    find_removed_terms,
)
from harness.reporting.seeds.summary import make_summary_tables
from harness.reporting.tables.filled import fill_tables
from harness.reporting.tables.paper_grids import make_paper_grid
from harness.store import Result, frames_of, metrics_of
from harness.store.schema import Budget, GradientPoint

FULL = {"info": 0.4, "cons": 0.001, "rank": 0.599}
SAID = "cannot show anything: cons carries 0.1 % of the gradient"


def point(shares: Mapping[str, float], step: int = 50) -> GradientPoint:
    return GradientPoint(step=step, shares=dict(shares), cosines=dict.fromkeys(shares, 0.5))


def row(*runs: Result) -> Row:
    frames = frames_of(runs)
    ((by_suite),) = group_rows(frames, frames.scores).values()
    return by_suite["sts"]


def measured(variant: str, *shares: Mapping[str, float], **changes: Any) -> Row:
    """A row of one seed for each of the shares."""
    return row(
        *(
            result(variant, seed, gradients={"pairs": [point(each)]}, **changes)
            for seed, each in enumerate(shares)
        )
    )


@pytest.mark.parametrize(
    ("variant", "shares", "said"),
    [
        ("dalr[without=cons]", {"info": 0.4, "rank": 0.6}, SAID),
        ("dalr[lambda=0]", {"info": 0.4, "rank": 0.6, "cons": 0.0}, SAID),
        ("dalr[without=cons]", {}, SAID),
        ("dalr[without=rank]", {"info": 0.9, "cons": 0.1}, ""),
        ("dalr[without=cons+rank]", {"info": 1.0}, ""),
        ("dalr[mu=0.1,without=cons]", {"info": 0.4, "rank": 0.6}, ""),
        ("dalr@official", {"info": 0.4, "rank": 0.6}, ""),
        ("mcse", {"info": 0.4, "rank": 0.6}, ""),
    ],
)
def test_a_removed_term_without_a_part_in_the_gradient_shows_nothing(
    variant: str, shares: Mapping[str, float], said: str
) -> None:
    full, other = measured("dalr", FULL, FULL), measured(variant, shares)
    assert describe_powerless(full, other) == describe_powerless(other, full) == said


def test_the_largest_share_of_any_batch_and_seed_counts() -> None:
    once = {"info": 0.4, "cons": 0.02, "rank": 0.58}
    full, other = (
        measured("dalr", FULL, once),
        measured("dalr[without=cons]", {"info": 0.4, "rank": 0.6}),
    )
    assert find_removed_terms(full, other) == {"cons": 0.02}
    assert not describe_powerless(full, other)
    elsewhere = measured("dalr[without=cons]", {"info": 1.0}, overrides={"steps": 9})
    assert not find_removed_terms(full, elsewhere)


def test_a_control_that_was_kept_early_in_its_budget_says_so() -> None:
    budget = Budget(steps=600, text_rows=38_400, other_rows=0, flops=1e12)
    longer = row(
        *(
            result("simcse[steps=600]", n, dev=(60.0, *[50.0] * 11), losses={}, budget=budget)
            for n in range(3)
        )
    )
    half = budget.model_copy(update={"steps": 300})
    own = row(
        *(result("mcse", n, dev=(50.0, 55.0, 60.0), losses={}, budget=half) for n in range(3))
    )
    said = "not trained to its budget: scored at step 50 of 600, MCSE at 150 of 300"
    assert describe_short_budget(longer, own) == said
    assert describe_short_budget(own, longer) == describe_short_budget(own, own) == ""
    last = row(*(result("simcse", n, dev=(50.0, 60.0), budget=budget) for n in range(3)))
    assert describe_short_budget(row(result("none", setting="none", dev=(), losses={})), last) == ""


def test_what_runs_spent_is_a_median_and_minutes_have_their_range() -> None:
    budgets = [
        Budget(steps=400, text_rows=25_600, other_rows=rows, flops=3e12) for rows in (90, 100, 5000)
    ]
    runs = [
        result("mcse", n, budget=budget, train_seconds=60.0 * (n + 1))
        for n, budget in enumerate(budgets)
    ]
    assert row(*runs).spent.texts() == {
        "steps": "100 of 400",
        "rows of text": "6,400 of 25,600",
        "rows of images or audio": "25 of 100",
        "FLOPs": "7.5e+11 of 3e+12",
        "peak MB": "812",
        "minutes (this machine)": "2 (1 to 3)",
    }
    assert row(result("mcse")).spent.budget == {"steps": 100, "peak_memory_mb": 812}, (
        "of the last dev score"
    )


def test_ablations_of_a_papers_table_and_claims_say_what_they_cannot_show() -> None:
    place = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}
    shares = {
        "dalr": FULL,
        "dalr[without=cons]": {"info": 0.4, "rank": 0.6},
        "dalr[without=rank]": {"info": 1.0},
    }
    runs = [
        result(variant, seed, sts(STS12=70.0), gradients={"pairs": [point(some)]}, **place)
        for variant, some in shares.items()
        for seed in range(3)
    ]
    (table,) = (
        each
        for each in fill_tables("paper", runs)
        if (each.paper.name, each.name) == ("dalr", "T3")
    )
    said = [note for note in make_paper_grid(table).notes if "cannot show" in note]
    assert said == [f"dalr[without=cons] beside dalr {SAID}."]
    grid = make_claims_grid(
        read_ablations(), make_summary_tables(runs, metrics_of(runs)), read_published()
    )
    heads = [str(line.heads[0]) for section in grid.sections for line in section.lines]
    assert [SAID in head for head in heads] == ["consistency" in head for head in heads]
