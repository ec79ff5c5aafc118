"""A paper's table in several readings and by several definitions: each has a measured line of its
own below print.
"""

from __future__ import annotations

from functools import partial

import pytest
import scipy.stats
import table_samples
from builders import result, sts, tidy
from table_samples import PLACE

from harness.metrics import AVERAGE
from harness.reporting.sections.papers import list_paper_fields
from harness.reporting.tables.cells import FilledLine, FilledTable
from harness.reporting.tables.grids import Line
from harness.reporting.tables.paper_grids import make_paper_grid
from harness.store import Result

SIMCSE, MCSE = [70.0, 71.0, 72.0], [72.3, 73.3, 74.3]
SIMCSE_CODE, MCSE_CODE = [73.0, 73.5, 74.0], [71.0, 71.5, 72.0]


runs = partial(table_samples.runs, setting="flickr")
table = partial(table_samples.table, name="mcse:T2")
row = partial(table_samples.row, setting="flickr")


def lines(filled: FilledTable, variant: str) -> list[Line]:
    return table_samples.lines(make_paper_grid(filled), variant, "flickr")


@pytest.fixture(scope="module")
def both() -> list[Result]:
    """MCSE better than SimCSE by the text, worse by the code."""
    text = runs("simcse", SIMCSE) + runs("mcse", MCSE)
    return text + runs("simcse@official", SIMCSE_CODE) + runs("mcse@official", MCSE_CODE)


def test_each_reading_has_its_line_below_print(both: list[Result]) -> None:
    mcse = lines(table(both), "mcse")
    assert [line.heads[2].partition(":")[0] for line in mcse] == [
        "printed, 5 seeds",
        *("measured, paper, 3 seeds", "difference, paper", "verdict, paper"),
        *("measured, official, 3 seeds", "difference, official", "verdict, official"),
    ]
    assert [line.span for line in mcse] == [7, 0, 0, 0, 0, 0, 0], "one row of the paper"
    measured = [str(line.cells[0]) for line in mcse if line.kind == "measured"]
    assert [text.partition(" ")[0] for text in measured] == ["73.3", "71.5"]
    differences = [line.cells[0].value for line in mcse if line.kind == "difference"]
    printed = row(table([]), "mcse").own.cells["Avg"].published
    assert differences == [f"{mean - printed.value:+.1f}" for mean in (73.3, 71.5)]


def test_a_reading_is_tested_against_the_same_reading_and_changes_no_star_of_another(
    both: list[Result],
) -> None:
    """Holm's correction is over the tests of one reading: here one test each, which it leaves as it
    is.
    """
    own, code = row(table(both), "mcse").lines
    assert (own.against.variant, code.against.variant) == ("simcse", "simcse@official")
    for line, values, rival in ((own, MCSE, SIMCSE), (code, MCSE_CODE, SIMCSE_CODE)):
        cell = line.cells["Avg"].measured
        assert cell.test.p == cell.p == pytest.approx(scipy.stats.ttest_ind(values, rival).pvalue)
    alone = row(table(runs("simcse", SIMCSE) + runs("mcse", MCSE)), "mcse").own.cells["Avg"]
    assert own.cells["Avg"].measured == alone.measured
    marks = [
        line.cells[0].mark.strip("()")
        for line in lines(table(both), "mcse")
        if line.kind == "measured"
    ]
    assert marks == ["*", "†"]


def test_a_reading_without_its_own_baseline_is_not_tested() -> None:
    filled = table(runs("simcse", SIMCSE) + runs("mcse@official", MCSE_CODE))
    assert not any(
        cell.measured and cell.measured.test
        for line in filled.lines
        for cell in line.cells.values()
    )


def test_bold_print_ranks_lines_of_one_reading(both: list[Result]) -> None:
    bold = {
        (variant, line.heads[2].split(", ")[1])
        for variant in ("simcse", "mcse")
        for line in lines(table(both), variant)
        if line.kind == "measured" and line.cells[0].bold
    }
    assert bold == {("mcse", "paper"), ("simcse", "official")}


def test_rows_are_counted_by_their_own_reading(both: list[Result]) -> None:
    alone = table(runs("simcse", SIMCSE) + runs("mcse", MCSE))
    assert table(both).coverage == alone.coverage
    code = table(runs("mcse@official", MCSE_CODE))
    assert code.coverage.measured == 0
    assert [line.heads[2] for line in lines(code, "mcse")][1:3] == [
        "measured, paper, no run yet",
        "measured, official, 3 seeds",
    ]


def test_a_reading_that_was_not_run_in_the_row_is_not_shown() -> None:
    filled = table(runs("mcse", MCSE) + runs("mcse@official", MCSE_CODE, setting="wiki+flickr"))
    assert [line.label.reading for line in row(filled, "mcse").lines] == ["paper"]
    assert [line.heads[2] for line in lines(filled, "mcse")][:2] == [
        "printed, 5 seeds",
        "measured, 3 seeds",
    ]
    filled = table(runs("mcse[images=shuffled]@official", MCSE_CODE))
    assert [line.label.reading for line in row(filled, "mcse[images=shuffled]").lines] == [
        "paper",
        "official",
    ]
    assert [line.label.reading for line in row(filled, "mcse").lines] == ["paper"]


def test_a_row_that_names_its_reading_keeps_it() -> None:
    results = runs("simcse", SIMCSE, setting="wiki") + runs(
        "simcse@official", SIMCSE_CODE, setting="wiki"
    )
    filled = table(results, name="nonling:T1")
    named = [named_row for named_row in filled.rows if named_row.row.variant == "simcse@official"]
    assert any(named_row.is_measured for named_row in named)
    assert [line.label.variant for named_row in named for line in named_row.lines] == [
        "simcse@official"
    ] * len(named)


def test_an_incomplete_reading_comes_with_its_command(both: list[Result]) -> None:
    own, code = row(table([*both, *runs("mcse", [73.0] * 5)]), "mcse").lines
    assert (own.due, code.due) == (False, True)
    assert "harness run --table mcse:T2 --readings paper,official" in table(both).commands


def test_a_stand_in_table_has_both_readings_or_one() -> None:
    def toy(reading: str, base: float) -> list[Result]:
        variants = {"simcse": base, "mcse": base + 40, "mcse[images=shuffled]": base + 1}
        return [
            result(f"{variant}{reading}", seed, sts(ToySTS=value + seed), setting="toy-pairs")
            for variant, value in variants.items()
            for seed in range(3)
        ]

    def shown(results: list[Result]) -> list[tuple[str, str]]:
        grid = make_paper_grid(table_samples.stand_ins(results)["mcse:T2"])
        return [(line.heads[2], str(line.cells[0])) for line in grid.sections[0].lines]

    assert shown(toy("", 20) + toy("@official", 30)) == [
        ("measured, paper, 3 seeds", "21.0 ± 1.0"),
        ("measured, official, 3 seeds", "31.0 ± 1.0"),
        ("measured, paper, 3 seeds", "61.0 ± 1.0*"),
        ("measured, official, 3 seeds", "71.0 ± 1.0*"),
        ("measured, paper, 3 seeds", "22.0 ± 1.0"),
        ("measured, official, 3 seeds", "32.0 ± 1.0"),
    ]
    assert [what for what, _ in shown(toy("@official", 30))] == [
        "measured, paper, no run yet",
        "measured, official, 3 seeds",
    ] * 3


BATCHES, SPLIT = "batches of 128, gold from 4", "whole split, gold above 4"
FIVE, ONE = "up to five captions an image", "one caption an image"


def geometry(variant: str, split: float = 0.2, batches: float = 1.2) -> list[Result]:
    """Two runs with an alignment by the whole split and one by batches, the second run 0.01 above
    the first.
    """
    scores = {
        "alignment": split,
        "uniformity": -split,
        "alignment_batch128": batches,
        "uniformity_batch128": -batches,
    }
    return [
        result(
            variant,
            seed,
            {"geometry": {"STS-B-dev": {k: v + seed / 100 for k, v in scores.items()}}},
            **PLACE,
        )
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
    return {line.origin.definition: line for line in table_samples.row(filled, variant).lines}


def said(filled: FilledTable, variant: str) -> dict[str, Line]:
    return {line.heads[2]: line for line in table_samples.lines(make_paper_grid(filled), variant)}


@pytest.mark.parametrize(
    ("name", "variant", "own", "other"),
    [
        *(
            (name, variant, BATCHES, SPLIT)
            for name in ("kdmcse:T2", "dalr:T6")
            for variant in ("mcse", "kdmcse")
        ),
        ("dalr:T6", "dalr", SPLIT, BATCHES),
    ],
)
def test_alignment_stands_beside_print_by_the_program_that_made_the_row(
    name: str, variant: str, own: str, other: str
) -> None:
    filled = table_samples.table(geometry(variant), name)
    by_definition = lines_of(filled, variant)
    assert list(by_definition) == [own, other]
    for label, line in by_definition.items():
        cell = line.cells["alignment"]
        assert cell.measured.summary.mean == pytest.approx(0.205 + (label == BATCHES))
        assert (cell.published is not None) is (label == own)
    texts = said(filled, variant)
    assert {
        f"measured, {own}, 2 seeds",
        f"measured, {other}, 2 seeds",
        f"difference, {own}",
    } <= set(texts)
    assert f"difference, {other}" not in texts
    assert filled.coverage.measured == 1
    assert not by_definition[other].due


TEST, DEV = "test accuracy", "dev accuracy"


@pytest.mark.parametrize(
    ("name", "column"), [("dalr:T2", "TREC"), ("dalr:T3", "TR Avg"), ("dalr:T9", "TR Avg")]
)
def test_dalr_s_transfer_scores_stand_beside_dev_accuracy_which_its_program_prints(
    name: str, column: str
) -> None:
    transfer = {task: {"acc": 86.0, "devacc": 80.0} for task in ("TREC", AVERAGE)}
    scores = {"transfer": transfer, "sts": {AVERAGE: {"spearman": 79.0}}}
    filled = table_samples.table([result("dalr", seed, scores, **PLACE) for seed in (0, 1)], name)
    by_definition = lines_of(filled, "dalr")
    measured = {label: line.cells[column].measured for label, line in by_definition.items()}
    assert {label: cell.summary.mean for label, cell in measured.items() if cell} == {
        TEST: 86.0,
        DEV: 80.0,
    }
    assert {f"difference, {TEST}", f"difference, {DEV}"} <= set(said(filled, "dalr")), (
        "print may be either"
    )
    others = [cell.measured for at, cell in by_definition[DEV].cells.items() if at == "STS Avg"]
    assert others in ([], [None]), "the other column is in the first line alone"


@pytest.mark.parametrize(
    ("name", "variant"), [("mcse:T6", "mcse"), ("dalr:T4", "kdmcse[batch_size=128,epochs=4]")]
)
def test_recall_with_one_caption_an_image_stands_beside_that_with_five(
    name: str, variant: str
) -> None:
    filled = table_samples.table(retrieval(variant), name)
    by_definition = lines_of(filled, variant)
    assert {
        label: line.cells["image to text, R@1"].measured.summary.mean
        for label, line in by_definition.items()
    } == {  # type: ignore[union-attr]
        FIVE: 30.5,
        ONE: 20.5,
    }
    texts = said(filled, variant)
    assert {f"difference, {FIVE}", f"difference, {ONE}"} <= set(texts), (
        "the paper does not say which of them it prints"
    )
    csv = [text.split(",") for text in tidy(list_paper_fields(filled)).splitlines()]
    part = csv[0].index("part")
    assert {line[part] for line in csv[1:]} == {"", "one"}
    for without in (retrieval(variant, parts=False), []):
        assert list(lines_of(table_samples.table(without, name), variant)) == [FIVE], (
            "a definition without numbers"
        )
