"""Tables whose numbers have several definitions: which one stands beside print, and what else is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import frame, result

from harness.errors import UserError
from harness.papers.published import read_paper, read_papers, read_published
from harness.reporting.files.csv import tidy
from harness.reporting.sections.papers import paper_rows
from harness.reporting.tables.cells import FilledLine, FilledTable
from harness.reporting.tables.filled import paper_tables
from harness.reporting.tables.grids import Line, code_of
from harness.reporting.tables.worded import paper_grid
from harness.store import Result

BATCHES, SPLIT = "batches of 128, gold from 4", "whole split, gold above 4"
FIVE, ONE = "up to five captions an image", "one caption an image"


def geometry(variant: str, split: float = 0.2, batches: float = 1.2) -> list[Result]:
    """Two runs with an alignment by the whole split and one by batches, the second run 0.01 above the first."""
    scores = {"alignment": split, "uniformity": -split, "alignment_batch128": batches, "uniformity_batch128": -batches}
    where = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}
    return [
        result(variant, seed, {"geometry": {"STS-B-dev": {k: v + seed / 100 for k, v in scores.items()}}}, **where)
        for seed in (0, 1)
    ]


def retrieval(variant: str, parts: bool = True) -> list[Result]:
    metrics = ("i2t_R@1", "i2t_R@5", "t2i_R@1", "t2i_R@5")
    where = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}

    def one(seed: int) -> Result:
        values = {"Flickr30k-Entities": dict.fromkeys(metrics, 30.0 + seed)}
        single = {"retrieval": {"Flickr30k-Entities": {"one": dict.fromkeys(metrics, 20.0 + seed)}}}
        return result(variant, seed, {"retrieval": values}, parts=single if parts else {}, **where)

    return [one(0), one(1)]


def table(name: str, results: list[Result]) -> FilledTable:
    filled = paper_tables(read_papers(), read_published(), frame(results))
    (found,) = [one for one in filled if f"{one.paper.name}:{one.name}" == name]
    return found


def lines_of(filled: FilledTable, variant: str, setting: str = "wiki+flickr") -> dict[str, FilledLine]:
    rows = [row for row in filled.rows if row.own.place == (variant, setting, "bert-base-uncased")]
    return {line.family.definition: line for row in rows for line in row.lines}


def said(filled: FilledTable, variant: str) -> dict[str, Line]:
    every = [line for section in paper_grid(filled).sections for line in section.lines]
    return {line.heads[2]: line for line in every if tuple(map(code_of, line.heads[:2])) == (variant, "wiki+flickr")}


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
    filled = table(name, geometry(variant))
    lines = lines_of(filled, variant)
    assert list(lines) == [own, other]
    for label, line in lines.items():
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
    filled = table(name, retrieval(variant))
    lines = lines_of(filled, variant)
    assert {label: line.cells["i2t_R@1"].measured.summary.mean for label, line in lines.items()} == {  # type: ignore[union-attr]
        FIVE: 30.5,
        ONE: 20.5,
    }
    texts = said(filled, variant)
    assert {f"difference, {FIVE}", f"difference, {ONE}"} <= set(texts), "the paper does not say which of them it prints"
    csv = [text.split(",") for text in tidy(paper_rows(filled)).splitlines()]
    part = csv[0].index("part")
    assert {line[part] for line in csv[1:]} == {"", "one"}


def test_a_definition_without_numbers_has_no_line() -> None:
    assert list(lines_of(table("mcse:T6", retrieval("mcse", parts=False)), "mcse")) == [FIVE]
    assert list(lines_of(table("mcse:T6", []), "mcse")) == [FIVE]


def test_rows_are_counted_and_run_by_their_own_definition() -> None:
    filled = table("kdmcse:T2", geometry("mcse"))
    assert filled.coverage.measured == 1
    assert [line.command is None for line in lines_of(filled, "mcse").values()] == [False, True]


PAPER = """
title = "A paper"
reference = "Somebody, 2022"
[tables.T1]
title = "A table"
suite = "sts"
metric = "spearman"
decimals = 1
seeds = 5
encoders = ["bert-base-uncased"]
columns = ["Avg"]
definitions = [{ label = "one", metrics = { Avg = "pearson" } }, { label = "other" }]
rows = [{ variant = "simcse", setting = "wiki", published = "simcse", definition = "other" }]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('definition = "other"', 'definition = "third"', "the row simcse has the definition 'third'"),
        ("{ Avg =", "{ STS12 =", "the definition 'one' names the column 'STS12'"),
    ],
)
def test_a_definition_that_is_not_there_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PAPER)
    assert [one.label for one in read_paper(path).tables["T1"].definitions] == ["one", "other"]
    path.write_text(PAPER.replace(old, new))
    with pytest.raises(UserError, match=message):
        read_paper(path)
