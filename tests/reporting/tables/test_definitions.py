"""Tables whose numbers have several definitions: which one stands beside print, and what else is shown."""

from __future__ import annotations

import pytest
from builders import result
from table_samples import PLACE, lines, row, table

from harness.reporting.csvfiles import tidy
from harness.reporting.sections.papers import paper_rows
from harness.reporting.tables.cells import FilledLine, FilledTable
from harness.reporting.tables.grids import Line
from harness.reporting.tables.worded import paper_grid
from harness.store import Result

BATCHES, SPLIT = "batches of 128, gold from 4", "whole split, gold above 4"
FIVE, ONE = "up to five captions an image", "one caption an image"


def geometry(variant: str, split: float = 0.2, batches: float = 1.2) -> list[Result]:
    """Two runs with an alignment by the whole split and one by batches, the second run 0.01 above the first."""
    scores = {"alignment": split, "uniformity": -split, "alignment_batch128": batches, "uniformity_batch128": -batches}
    return [
        result(variant, seed, {"geometry": {"STS-B-dev": {k: v + seed / 100 for k, v in scores.items()}}}, **PLACE)
        for seed in (0, 1)
    ]


def retrieval(variant: str, parts: bool = True) -> list[Result]:
    metrics = ("i2t_R@1", "i2t_R@5", "t2i_R@1", "t2i_R@5")

    def one(seed: int) -> Result:
        values = {"Flickr30k-Entities": dict.fromkeys(metrics, 30.0 + seed)}
        single = {"retrieval": {"Flickr30k-Entities": {"one": dict.fromkeys(metrics, 20.0 + seed)}}}
        return result(variant, seed, {"retrieval": values}, parts=single if parts else {}, **PLACE)

    return [one(0), one(1)]


def lines_of(filled: FilledTable, variant: str) -> dict[str, FilledLine]:
    return {line.family.definition: line for line in row(filled, variant).lines}


def said(filled: FilledTable, variant: str) -> dict[str, Line]:
    return {line.heads[2]: line for line in lines(paper_grid(filled), variant)}


@pytest.mark.parametrize(
    ("name", "variant", "own", "other"),
    [
        ("kdmcse:T2", "mcse", BATCHES, SPLIT),
        ("kdmcse:T2", "kdmcse", BATCHES, SPLIT),
        ("dalr:T6", "mcse", BATCHES, SPLIT),
        ("dalr:T6", "kdmcse", BATCHES, SPLIT),
        ("dalr:T6", "dalr", SPLIT, BATCHES),
    ],
)
def test_alignment_stands_beside_print_by_the_program_that_made_the_row(
    name: str, variant: str, own: str, other: str
) -> None:
    filled = table(geometry(variant), name)
    found = lines_of(filled, variant)
    assert list(found) == [own, other]
    for label, line in found.items():
        cell = line.cells["alignment"]
        assert cell.measured.summary.mean == pytest.approx(0.205 + (label == BATCHES))
        assert (cell.published is not None) is (label == own)
    texts = said(filled, variant)
    assert f"measured, {own}, 2 seeds" in texts
    assert f"measured, {other}, 2 seeds" in texts
    assert f"difference, {own}" in texts
    assert f"difference, {other}" not in texts


@pytest.mark.parametrize(("name", "variant"), [("mcse:T6", "mcse"), ("dalr:T4", "kdmcse")])
def test_recall_with_one_caption_an_image_stands_beside_that_with_five(name: str, variant: str) -> None:
    filled = table(retrieval(variant), name)
    found = lines_of(filled, variant)
    assert {label: line.cells["i2t_R@1"].measured.summary.mean for label, line in found.items()} == {  # type: ignore[union-attr]
        FIVE: 30.5,
        ONE: 20.5,
    }
    texts = said(filled, variant)
    assert {f"difference, {FIVE}", f"difference, {ONE}"} <= set(texts), "the paper does not say which of them it prints"
    csv = [text.split(",") for text in tidy(paper_rows(filled)).splitlines()]
    part = csv[0].index("part")
    assert {line[part] for line in csv[1:]} == {"", "one"}


def test_a_definition_without_numbers_has_no_line() -> None:
    assert list(lines_of(table(retrieval("mcse", parts=False), "mcse:T6"), "mcse")) == [FIVE]
    assert list(lines_of(table([], "mcse:T6"), "mcse")) == [FIVE]


def test_rows_are_counted_and_run_by_their_own_definition() -> None:
    filled = table(geometry("mcse"), "kdmcse:T2")
    assert filled.coverage.measured == 1
    assert [line.command is None for line in lines_of(filled, "mcse").values()] == [False, True]
