"""Claims of ablation tables: their printed numbers, and the verdict of one's own runs."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest
import scipy.stats
from builders import over_seeds, tables

from harness.papers.published import (
    Ablation,
    find_printed_differences,
    find_printed_interaction,
    read_ablations,
    read_interactions,
    read_published,
)
from harness.registry import get, list_registered
from harness.reporting.contents import Contents
from harness.reporting.sections.claims import make_claims_grid, make_interactions_grid
from harness.reporting.seeds.cells import list_training_differences
from harness.reporting.seeds.gains import describe_lead, make_forests
from harness.reporting.tables.grids import get_code
from harness.spec import Variant
from harness.stats import summarise
from harness.stats.contrasts import contrast_test
from harness.store import Result, Store

PUBLISHED = read_published()
CLAIMS = read_ablations()


def printed_difference(claim: Ablation) -> float:
    """The printed difference of a claim, over encoders and settings."""
    return mean(find_printed_differences(claim, PUBLISHED).values())


def verdicts(results: list) -> dict[tuple[str, str], str]:
    grid = make_claims_grid(CLAIMS, tables(results), PUBLISHED)
    if grid is None:
        return {}
    return {
        (get_code(line.heads[1]), get_code(line.heads[2])): str(line.cells[2])
        for part in grid.sections
        for line in part.lines
    }


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.better}>{claim.worse}")
def test_every_claim_names_variants_that_exist_and_numbers_that_are_printed_for_it(claim) -> None:
    for text in (claim.better, claim.worse):
        variant = Variant.parse(text)
        assert str(variant) == text
        assert variant.name in list_registered("method")
        get("method", variant.name).configure(variant.reading, dict(variant.options))
    assert printed_difference(claim) > 0, "the paper prints the opposite"


@pytest.mark.parametrize("interaction", read_interactions(), ids=lambda one: one.text)
def test_every_interaction_is_printed_as_it_says(interaction) -> None:
    size = find_printed_interaction(interaction, PUBLISHED)
    assert size is not None
    assert size > 0


def test_dalr_without_its_ranking_loss_lost_what_tables_3_and_8_print() -> None:
    (claim,) = (claim for claim in CLAIMS if claim.worse == "dalr[without=rank]")
    assert printed_difference(claim) == pytest.approx(((79.49 - 79.06) + (78.64 - 78.31)) / 2)


def test_verdicts_are_what_the_runs_say() -> None:
    high, low = [70.0, 73.0, 72.2], [20.0, 24.0, 22.5]
    said = verdicts(
        over_seeds("dalr", high)
        + over_seeds("dalr[without=rank]", low)
        + over_seeds("dalr[without=ima]", [71.0, 72.0, 73.1])
        + over_seeds("dalr[without=cons]", [90.0, 91.0, 92.0])
        + over_seeds("dalr[without=cma]", [60.0])
    )
    assert {
        worse.removeprefix("dalr"): text.partition(" (")[0] for (_, worse), text in said.items()
    } == {
        "[without=rank]": "holds",
        "[without=ima]": "not significant",
        "[without=cons]": "opposite",
        "[without=cma]": "too few seeds",
    }


def test_a_claim_is_judged_in_the_family_of_its_two_rows() -> None:
    near, dalr = [70.0, 71.0, 72.0], [72.3, 73.3, 74.3]
    runs = over_seeds("dalr", dalr) + over_seeds("dalr[without=rank]", near)
    (alone,) = verdicts(runs).values()
    assert alone.startswith("holds (better, p = 0.0")
    both = verdicts(runs + over_seeds("dalr[without=ima]", [70.1, 71.1, 72.0])).values()
    assert [text.partition(" (")[0] for text in both] == ["alone", "alone"]
    family = "not after Holm's correction over 2 tests (variants against their methods)"
    assert all(family in text for text in both)
    assert verdicts(over_seeds("dalr", dalr)) == {}, "no table without both variants"


def stated(results: list) -> list[tuple[str, str]]:
    """The printed differences beside measured ones, and what they are of."""
    grid = make_claims_grid(CLAIMS, tables(results), PUBLISHED)
    cells = [line.cells[0] for part in grid.sections for line in part.lines]
    return [(cell.value, cell.extra) for cell in cells]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (
            {"profile": "paper", "setting": "flickr", "encoder": "roberta-base"},
            ("+0.90", "flickr / roberta-base"),
        ),
        ({"profile": "tiny", "setting": "toy"}, ("+2.00", "wiki+flickr / bert-base-uncased")),
        ({"profile": "tiny", "setting": "other"}, ("+2.07", "mean over 8 places, other ones")),
    ],
)
def test_a_printed_difference_is_of_the_place_that_was_measured(
    place: dict[str, str], expected: tuple[str, str]
) -> None:
    runs = over_seeds("mcse", [70.0, 71.0, 72.0], **place)
    runs += over_seeds("simcse", [60.0, 61.0, 62.0], **place)
    assert stated(runs)[0] == expected


def test_a_difference_of_differences_is_tested_and_its_missing_half_is_a_command() -> None:
    def gain(encoder: str, size: float) -> list[Result]:
        place = {"profile": "paper", "setting": "flickr", "encoder": encoder}
        better = over_seeds("mcse", [70.0 + size, 71.5 + size, 71.9 + size], **place)
        return better + over_seeds("simcse", [70.0, 71.0, 72.5], **place)

    bert, roberta = gain("bert-base-uncased", 20.0), gain("roberta-base", 5.0)
    interactions = read_interactions()
    both = Contents(Store(Path("nowhere")), bert + roberta)
    grid = make_interactions_grid(interactions, both)
    lines = {str(line.heads[0]): line for part in grid.sections for line in part.lines}
    line = next(line for text, line in lines.items() if "BERT more than RoBERTa" in text)
    printed, measured, verdict = line.cells
    assert (printed.value, measured.value, str(verdict).partition(" (")[0]) == (
        "+1.60",
        "+15.00",
        "holds",
    )
    half = make_interactions_grid(interactions, Contents(Store(Path("nowhere")), bert))
    assert any(
        "--methods simcse,mcse" in command and "--encoders roberta-base" in command
        for command in half.commands
    )


def test_the_contrast_of_two_means_is_welch_s_test() -> None:
    first, second = [1.0, 2.0, 4.0, 9.0], [3.0, 3.5, 5.0]
    ours = contrast_test([1, -1], [summarise(first), summarise(second)])
    theirs = scipy.stats.ttest_ind(first, second, equal_var=False)
    assert (ours.p, ours.df) == pytest.approx((theirs.pvalue, theirs.df))
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval())
    double = contrast_test([1, -1, -1, 1], [summarise(first), summarise(second)] * 2)
    assert double.difference == 0


def trained(
    variant: str, *values: float, epochs: int = 3, precision: str = "fp32", **where: str
) -> list[Result]:
    training = {
        "batch_size": 64,
        "learning_rate": 3e-05,
        "epochs": epochs,
        "precision": precision,
        "steps": None,
    }
    return over_seeds(
        variant,
        values,
        hyperparameters={"method": {}, "training": training, "encoder": {}},
        **where,
    )


def test_values_that_both_sides_have_are_compared() -> None:
    (table,) = tables(trained("mcse", 1.0) + trained("simcse", 2.0, epochs=1))
    other, mine = (row.training for row in table.rows)
    assert mine == {
        "batch_size": "64",
        "checkpoint": "best",
        "epochs": "3",
        "learning_rate": "3e-05",
        "precision": "fp32",
        "steps": "None",
    }
    assert list_training_differences(mine, other) == "epochs 3 against 1"
    assert list_training_differences(mine, {"epochs": "3", "unreached": "rest"}) == ""
    assert list_training_differences(mine, {}) == list_training_differences({}, mine) == ""


@pytest.mark.parametrize(
    ("epochs", "precision", "said"),
    [(3, "fp32", "epochs 1 against 3, precision fp16 against fp32"), (1, "fp16", "")],
)
def test_headlines_and_claims_say_it(epochs: int, precision: str, said: str) -> None:
    ours = trained("visualcse", 70.0, 71.0, 72.0, epochs=1, precision="fp16")
    made = tables(ours + trained("simcse", 60.0, 61.0, 62.0, epochs=epochs, precision=precision))
    (forest,) = make_forests(made[0])
    assert describe_lead(forest).partition("; trained with ")[2] == (f"{said})." if said else "")
    grid = make_claims_grid(CLAIMS, made, PUBLISHED)
    (line,) = [line for part in grid.sections for line in part.lines]
    assert line.heads[0] == "unpaired images help (nonling T3)" + (f"; here {said}" if said else "")
