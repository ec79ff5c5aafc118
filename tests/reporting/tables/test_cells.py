"""How measured numbers are judged beside printed ones, and the tables' shapes on other profiles."""

from __future__ import annotations

from functools import partial

import pytest
import scipy.stats
from builders import over_seeds, result
from table_samples import PAPERS, PLACE, lines, runs, stand_ins, table

from harness.metrics import Agreement
from harness.papers.published import Published
from harness.profiles import load_profile
from harness.reporting.seeds.cells import Cell, Label
from harness.reporting.tables.cells import (
    FilledLine,
    Judgement,
    LineOrigin,
    PaperCell,
    correct_verdicts,
    summarise_verdicts,
)
from harness.reporting.tables.filled import fill_paper_tables
from harness.reporting.tables.grids import ABSENT, CellText, Grid, get_code
from harness.reporting.tables.paper_grids import make_paper_grid
from harness.stats import Summary, holm, power_of_verdict, seeds_to_decide, summarise
from harness.store import Result

FEW = "too few seeds"


def cell(*values: float) -> Cell:
    return Cell.of(dict(enumerate(values)))


def printed(value: float, std: float | None = 0.5, seeds: int | None = 5) -> Published:
    return Published(value, std, seeds, star=False)


@pytest.mark.parametrize(
    ("number", "measured", "verdict"),
    [
        (printed(77.0, 0.3), cell(76.8, 77.0, 77.2), Judgement(Agreement.REPRODUCED)),
        (printed(77.0), cell(74.6, 75.0, 75.4), Judgement(Agreement.DIFFERS)),
        (printed(77.0), cell(77.0), Judgement(Agreement.TOO_FEW, "1 seed measured")),
        (printed(77.0, 0.1), cell(77.0, 77.1), Judgement(Agreement.TOO_FEW, "2 seeds measured")),
        (
            printed(77.0, seeds=None),
            cell(76.0, 77.0, 76.5),
            Judgement(Agreement.TOO_FEW, "printed number of seeds not stated"),
        ),
        (
            printed(77.0, None, 1),
            cell(76.0, 77.0, 76.5),
            Judgement(Agreement.TOO_FEW, "1 seed printed"),
        ),
        (
            printed(77.0, None),
            cell(76.0, 77.0, 76.5),
            Judgement(Agreement.TOO_FEW, "no deviation printed"),
        ),
        (
            printed(77.0, None, 1),
            cell(77.0),
            Judgement(Agreement.TOO_FEW, "1 seed measured, 1 seed printed"),
        ),
    ],
)
def test_a_verdict(number: Published, measured: Cell, verdict: Judgement) -> None:
    assert PaperCell(number, measured, margin=1.0).judgement == verdict


# Measured: mean 77.0, deviation 0.4 of 3 seeds; printed: deviation 0.5 of 5, which may be 0.55 as a
# population one: a sample variance of 0.55^2 x 5/4. Welch's test by hand.
MEASURED = (76.6, 77.0, 77.4)
PARTS = 0.4**2 / 3, 0.55**2 * (5 / 4) / 5
ERROR = sum(PARTS) ** 0.5
DF = sum(PARTS) ** 2 / (PARTS[0] ** 2 / 2 + PARTS[1] ** 2 / 4)


def verdict(difference: float, margin: float | None) -> Agreement:
    judgement = PaperCell(printed(77.0 + difference), cell(*MEASURED), margin=margin).judgement
    return judgement.verdict


@pytest.mark.parametrize("sign", [1, -1])
def test_a_verdict_ends_where_its_interval_does(sign: int) -> None:
    """Equivalent: |d| + t(0.95) se < margin. Different: |d| > t(0.975) se."""
    equal, differs = 1.5 - scipy.stats.t.ppf(0.95, DF) * ERROR, scipy.stats.t.ppf(0.975, DF) * ERROR
    assert 0 < equal < differs < 1.5
    assert verdict(sign * (equal - 1e-3), 1.5) is Agreement.REPRODUCED
    assert verdict(sign * (equal + 1e-3), 1.5) is Agreement.UNDECIDED
    assert verdict(sign * (differs - 1e-3), 1.5) is Agreement.UNDECIDED
    assert verdict(sign * (differs + 1e-3), 1.5) is Agreement.DIFFERS


def test_a_certain_difference_within_the_margin_is_reproduced_and_differs_without_a_margin() -> (
    None
):
    certain = PaperCell(printed(78.0), cell(*MEASURED), margin=3.0)
    assert certain.test.p < 0.05
    assert certain.judgement == Judgement(Agreement.REPRODUCED)
    assert verdict(1.0, None) is Agreement.DIFFERS
    assert verdict(0.0, None) is Agreement.UNDECIDED, (
        "equal means reproduce nothing without a margin"
    )


def test_what_five_seeds_leave_open_more_would_decide() -> None:
    """1.1 points apart, with a deviation of 1.0 and five seeds beside five printed ones that vary
    less.
    """
    spread = [
        1.0 / 0.4**0.5 * step for step in (-0.8, -0.4, 0.0, 0.4, 0.8)
    ]  # five values with a deviation of 1
    undecided = PaperCell(printed(77.0, 0.4), cell(*(75.9 + value for value in spread)), margin=1.0)
    assert undecided.test.p > 0.05
    assert undecided.judgement.verdict is Agreement.UNDECIDED
    n = undecided.judgement.seeds
    assert n is not None
    assert n > 5
    power = partial(
        power_of_verdict, 1.1, 1.0, margin=1.0, other=Summary(77.0, 0.45 * 1.25**0.5, 5)
    )
    assert power(n=n) >= 0.8 > power(n=n - 1)
    # five seeds decide this one in 80 % of repetitions, but these five did not: a sixth is the
    # least to ask for
    near = cell(*(77.33 + 0.2 * value for value in spread))
    assert PaperCell(printed(77.0, 0.23), near, margin=0.6).judgement == (
        Agreement.UNDECIDED,
        "",
        6,
    )
    assert (
        PaperCell(
            printed(77.0, 1.0), cell(*(76.3 + value for value in spread)), margin=0.5
        ).judgement.seeds
        is None
    )


def test_all_cells_of_a_table_are_one_family_beside_print() -> None:
    """Of ten equal differences with p of about 0.02, each differs alone and none does in a table of
    ten.
    """
    cells = {name: PaperCell(printed(77.0, 0.2), cell(75.5, 75.9, 76.3)) for name in "abcdefghij"}
    alone = {name: each.judgement.verdict for name, each in cells.items()}
    assert set(alone.values()) == {Agreement.DIFFERS}
    label = Label("paper", "mcse", "wiki+flickr", "bert-base-uncased", "")
    of_origin = [
        FilledLine(label, LineOrigin(reading), {}, dict(some), "", None, "", due=False)
        for reading, some in (("", cells), ("official", {"a": cells["a"]}))
    ]
    correct_verdicts(of_origin)
    ps = [each.test.p for each in cells.values()]
    table_cells = [*of_origin[0].cells.values()]
    assert [each.differs.p for each in table_cells] == pytest.approx(holm(ps))
    assert {each.judgement[:2] for each in table_cells} == {(Agreement.UNDECIDED, "differs alone")}
    assert of_origin[1].cells["a"].judgement.verdict is Agreement.DIFFERS, (
        "another reading is another family"
    )
    by_ten = partial(seeds_to_decide, -1.1, 0.4, None, other=Summary(77.0, 0.25 * 1.25**0.5, 5))
    assert table_cells[0].judgement.seeds == by_ten(alpha=0.005) > by_ten(alpha=0.05)


def test_only_numbers_in_points_have_a_margin() -> None:
    """Alignment, uniformity and minutes have none; everything else that the papers print is a score
    x 100.
    """
    columns = {
        (entry.paper.name, entry.name): entry.columns
        for entry in fill_paper_tables(load_profile("paper"), PAPERS, [])
    }
    without = {
        (column.suite, column.metric)
        for some in columns.values()
        for column in some
        if not column.points
    }
    assert without == {("geometry", "alignment"), ("geometry", "uniformity"), ("cost", "minutes")}
    scores = {column.metric for some in columns.values() for column in some if column.points}
    assert scores == {"spearman", "acc", "main_score", "i2t_R@1", "i2t_R@5", "t2i_R@1", "t2i_R@5"}
    assert table([], "dalr:T6").margin is None
    (mcse,) = lines(make_paper_grid(table([], "kdmcse:T2")), "mcse")
    assert not any(text.bold for text in mcse.cells), "neither alignment nor uniformity is bold"
    assert {entry.margin for line in table([]).lines for entry in line.cells.values()} == {1.0}


def test_a_row_says_what_its_cells_say() -> None:
    def of(*words: str) -> str:
        judgements = [Judgement(Agreement(word), "why" if word == FEW else "") for word in words]
        return summarise_verdicts(judgements, 1.0)

    assert of("reproduced", "reproduced") == "reproduced (±1 point)"
    assert (
        of("differs", "reproduced", "differs")
        == "reproduced (±1 point) in 1 of 3 cells, differs in 2"
    )
    assert of("differs", "differs") == "differs"
    assert of("reproduced", FEW) == "reproduced (±1 point) in 1 cell"
    assert of("reproduced", "differs", FEW) == "reproduced (±1 point) in 1 of 2 cells, differs in 1"
    assert of(FEW, FEW) == f"{FEW}: why"
    assert of() == ""
    assert PaperCell().judgement is None
    open_ones = [Judgement(Agreement.UNDECIDED, seeds=seeds) for seeds in (12, 30, None)]
    assert summarise_verdicts(open_ones[:1], 0.5) == "not distinguishable; 12 seeds would decide"
    assert (
        summarise_verdicts(open_ones[:2], 0.5) == "not distinguishable; up to 30 seeds would decide"
    )
    assert (
        summarise_verdicts(open_ones[2:], 0.5)
        == "not distinguishable; no number of seeds would decide"
    )
    assert summarise_verdicts(open_ones, 0.5).endswith("; up to 30 seeds would decide")
    assert summarise_verdicts([Judgement(Agreement.REPRODUCED)], 0.5) == "reproduced (±0.5 points)"


results = partial(runs, setting="flickr")


def measured(grid: Grid, variant: str) -> list[CellText]:
    return [
        line.cells[0]
        for section in grid.sections
        for line in section.lines
        if get_code(line.heads[0]) == variant
        and line.kind == "measured"
        and line.cells[0].value != ABSENT
    ]


def test_rows_against_one_reference_are_a_family_and_another_encoder_adds_none() -> None:
    """Two rows of MCSE T7 with p of about 0.048 and 0.042 against SimCSE: neither holds at 0.05 /
    2.
    """
    base, resnet, clip = [70.0, 71.0, 72.0], [72.3, 73.3, 74.3], [72.4, 73.4, 74.4]
    ps = [scipy.stats.ttest_ind(scores, base).pvalue for scores in (resnet, clip)]
    assert all(0.025 < p < 0.05 for p in ps)
    runs = results("simcse", base) + results("mcse", resnet)

    def cells(runs: list[Result]) -> list[Cell]:
        filled = table(runs, "mcse:T7")
        measured_cells = [
            row.own.cells["Avg"].measured for row in filled.rows if row.row.variant != "simcse"
        ]
        return [cell for cell in measured_cells if cell]

    (alone,) = cells(runs)
    assert alone.holds
    both = cells(runs + results("mcse[images=clip]", clip))
    assert sorted(cell.p or 0.0 for cell in both) == pytest.approx(
        [2 * min(ps), max(2 * min(ps), max(ps))]
    )
    assert all(cell.is_alone for cell in both)
    other = [
        scores for name in ("simcse", "mcse") for scores in results(name, clip, setting="coco")
    ]
    assert cells(runs + other)[0] == alone


def test_a_star_that_holds_and_bold_for_the_best_of_its_setting_and_encoder() -> None:
    runs = results("simcse", [70.0, 70.1, 70.2]) + results("mcse", [75.0, 75.1, 75.2])
    grid = make_paper_grid(table(runs + results("simcse", [60.0], setting="coco"), "mcse:T2"))
    assert [text.mark for text in measured(grid, "mcse")] == ["*"]
    assert any("(1 test)" in note for note in grid.legend)
    bold = {
        (section.title, get_code(line.heads[0]), line.heads[1], line.kind)
        for section in grid.sections
        for line in section.lines
        if line.cells[0].bold
    }
    print_bold = {where for where in bold if where[3] == "published"}
    assert {where[1] for where in print_bold} == {"mcse"}
    assert len(print_bold) == 4
    assert {where for where in bold if where[3] == "measured"} == {
        ("bert-base-uncased", "mcse", "flickr", "measured")
    }


def test_columns_of_several_suites_the_dev_score_and_the_cost() -> None:
    both = {"sts": {"Avg": {"spearman": 79.0}}, "transfer": {"Avg": {"acc": 86.0, "devacc": 80.0}}}
    runs = [result("dalr", 0, both, **PLACE)]
    (row,) = [row for row in table(runs, "dalr:T3").rows if row.own.seeds]
    assert {
        name: paper_cell.measured.summary.mean
        for name, paper_cell in row.own.cells.items()
        if paper_cell.measured
    } == {
        "STS Avg": 79.0,
        "TR Avg": 86.0,
    }
    (row,) = [row for row in table(runs, "dalr:T7").rows if row.own.seeds]
    cost = row.own.cells["total_time_min"].measured
    assert cost.summary.mean == pytest.approx(12.1 / 60)
    assert row.own.cells["epochs"].measured is None
    dev = results("mcse[lambda=0.1]", [70.0])
    (row,) = [row for row in table(dev, "mcse:T4").rows if row.own.seeds]
    assert row.own.cells["STS-B dev"].measured is not None
    assert row.own.cells["STS-B dev"].measured.summary == summarise([60.0]), (
        "one number a run, whatever its scores"
    )


def test_retrieval_reads_the_set_that_the_row_names_in_the_split_of_its_training_images() -> None:
    recalls = {"i2t_R@1": 10.0, "i2t_R@5": 20.0, "t2i_R@1": 30.0, "t2i_R@5": 40.0}
    scores = {
        "retrieval": {
            "Flickr30k-Entities": recalls,
            "COCO": {name: value / 2 for name, value in recalls.items()},
        }
    }
    runs = [
        result("mcse", 0, scores, **{**PLACE, "setting": setting})
        for setting in ("wiki+flickr", "wiki+coco")
    ]
    rows = {row.own.label.setting: row for row in table(runs, "mcse:T6").rows if row.own.seeds}
    means = {
        s: [
            paper_cell.measured.summary.mean
            for paper_cell in row.own.cells.values()
            if paper_cell.measured
        ]
        for s, row in rows.items()
    }
    assert means == {"wiki+flickr": [10.0, 20.0, 30.0, 40.0], "wiki+coco": [5.0, 10.0, 15.0, 20.0]}


def test_a_table_without_runs_has_one_command_and_print_alone() -> None:
    grid = make_paper_grid(table([], "dalr:T3"))
    assert grid.commands == ("harness run --table dalr:T3",)
    assert {line.kind for line in grid.sections[0].lines} == {"published"}
    assert grid.empty


ABLATIONS = ["info", "cma+cons", "cons", "cma", "ima+rank", "rank", "ima", "cma+cons+ima+rank"]


def test_the_shape_of_a_table_has_no_printed_number() -> None:
    runs = over_seeds("dalr", [70.0, 71.0])
    assert "dalr:T3" not in stand_ins(runs), "eight rows have no run"
    for names in ABLATIONS:
        runs += over_seeds(f"dalr[without={names}]", [60.0, 61.0])
    filled = stand_ins(runs)["dalr:T3"]
    assert all(
        paper_cell.published is None for row in filled.rows for paper_cell in row.own.cells.values()
    )
    grid = make_paper_grid(filled)
    assert grid.title == "DALR Table 3 on toy data"
    assert grid.columns == ("STS Avg",)
    assert [section.title for section in grid.sections] == ["toy-bert"]
    assert [line.kind for line in grid.sections[0].lines] == ["measured"] * 9
    assert [line.cells[0].bold for line in grid.sections[0].lines] == [True] + [False] * 8
    texts = [str(cell) for line in grid.sections[0].lines for cell in line.cells]
    assert texts == ["70.50 ± 0.71", *["60.50 ± 0.71"] * 8]
    assert any("STS Avg is ToySTS" in note for note in grid.notes)


def test_a_column_with_its_own_task_is_not_explained() -> None:
    where = {"profile": "grounding", "setting": "flickr8k", "encoder": "text-bert"}
    some = [
        runs(variant, [50.0, 51.0], **where)
        for variant in ("simcse", "mcse", "mcse[images=shuffled]")
    ]
    filled = stand_ins(
        [run for of_variant in some for run in of_variant], load_profile("grounding")
    )["mcse:T2"]
    assert not [note for note in make_paper_grid(filled).notes if "is Avg" in note]


def test_no_table_of_a_profile_without_stand_ins() -> None:
    small = load_profile("tiny").model_copy(update={"stands_for": None})
    runs = over_seeds("kdmcse", [60.0, 61.0]) + over_seeds("mcse", [60.0, 61.0])
    assert stand_ins(runs, small) == {}
    assert stand_ins([]) == {}
