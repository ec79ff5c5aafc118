"""A paper's table filled with runs: what stands beside print, and what is asked for."""

from __future__ import annotations

import re
import shlex

import pytest
import scipy.stats
from table_samples import TASKS, lines, row, runs, table

from harness.metrics import Significance
from harness.reporting.tables.worded import paper_grid

MCSE = [76.0, 77.0, 77.5]
SIMCSE = [75.0, 75.2, 74.9]


def test_table_1_of_mcse_is_whole() -> None:
    filled = table([])
    assert [encoder for encoder, _ in filled.blocks] == ["bert-base-uncased", "roberta-base"]
    assert len(filled.rows) == 14
    assert [column.name for column in filled.table.columns] == [*TASKS, "Avg"]
    printed = [[cell.published for cell in one.cells.values()] for one in filled.lines]
    assert sum(number.star for numbers in printed for number in numbers) == 25
    assert row(filled, "mcse").own.cells["Avg"].published.summary is not None
    avg = row(filled, "mcse", "wiki+coco", "roberta-base").own.cells["Avg"].published
    assert (avg.value, avg.std, avg.seeds, avg.star) == (77.6, 0.8, 5, True)


def test_quoted_rows_are_shown_and_never_measured() -> None:
    filled = table(runs("simcse", SIMCSE, setting="wiki"))
    quoted = [one for one in filled.rows if one.row.published_only]
    assert [one.own.cells["Avg"].published.value for one in quoted] == [76.3, 76.6]
    assert all(one.own.command is None and one.own.cells["Avg"].measured is None for one in quoted)
    assert row(filled, "simcse", "wiki").own.cells["Avg"].measured is not None


def test_a_cell_stands_beside_its_printed_number() -> None:
    filled = table(runs("mcse", MCSE) + runs("simcse", SIMCSE))
    cell = row(filled, "mcse").own.cells["Avg"]
    assert cell.measured.summary.n == 3
    assert cell.difference == pytest.approx(sum(MCSE) / 3 - 77.3)
    against_print = scipy.stats.ttest_ind_from_stats(sum(MCSE) / 3, scipy.stats.tstd(MCSE), 3, 77.3, 0.5, 5)
    assert cell.test.p == pytest.approx(against_print.pvalue)
    assert cell.measured.test.p == pytest.approx(scipy.stats.ttest_ind(MCSE, SIMCSE).pvalue)
    assert cell.measured.verdict is Significance.BETTER
    assert row(filled, "simcse").own.cells["Avg"].measured.test is None  # type: ignore[union-attr]


def test_no_test_without_a_spread_on_both_sides() -> None:
    filled = table(runs("none[pooling=avg-first-last]", [56.0], setting="none") + runs("mcse", [77.0]))
    untrained = row(filled, "none[pooling=avg-first-last]", "none").own
    assert untrained.cells["Avg"].test is None
    assert untrained.cells["Avg"].difference == pytest.approx(-0.7)
    assert untrained.command is None
    assert row(filled, "mcse").own.cells["Avg"].test is None


@pytest.mark.parametrize(
    "place",
    [
        {"profile": "tiny"},
        {"profile_origin": "file"},
        {"overrides": {"epochs": 1}},
        {"encoder": "bert-large"},
    ],
)
def test_only_the_papers_own_configuration_may_stand_beside_it(place: dict[str, object]) -> None:
    assert table(runs("mcse", MCSE, **place)).coverage.measured == 0


def test_what_is_missing_comes_with_a_command_that_asks_for_it() -> None:
    filled = table(runs("mcse", MCSE))
    command = row(filled, "mcse").own.command
    assert command == (
        "harness run --methods mcse --settings wiki+flickr --encoders bert-base-uncased --seeds 5 --suites sts"
    )
    assert row(table(runs("mcse", [*MCSE, 77.0, 77.1])), "mcse").own.command is None
    untrained = row(filled, "none[pooling=avg-first-last]", "none").own.command
    assert untrained is not None
    words = shlex.split(untrained)
    assert words[words.index("--methods") + 1] == "none[pooling=avg-first-last]"
    assert "--settings" not in words


def test_the_grid_has_a_line_for_print_measure_and_difference() -> None:
    grid = paper_grid(table(runs("mcse", MCSE) + runs("simcse", SIMCSE)))
    found = lines(grid, "mcse")
    assert [line.kind for line in found] == ["published", "measured", "difference", "verdict"]
    said = ["printed, 5 seeds", "measured, 3 seeds", "difference"]
    assert [line.heads[2] for line in found[:3]] == said
    numbers = [cell.published for cell in row(table([]), "mcse").own.cells.values()]
    measured = sum(MCSE) / 3, scipy.stats.tstd(MCSE), 3
    off = [scipy.stats.ttest_ind_from_stats(*measured, n.value, n.std, 5).pvalue < 0.05 for n in numbers if n]
    assert 0 < sum(off) < 8, "and with deviations like these no cell can be equivalent within 1 point"
    assert [cell.value for cell in found[3].cells] == ["differs" if one else "not distinguishable" for one in off]
    seeds = [cell.extra for cell in found[3].cells if cell.extra]
    assert [bool(re.fullmatch(r"\d+ seeds", text)) for text in seeds] == [True] * (8 - sum(off))
    most = max(int(text.removesuffix(" seeds")) for text in seeds)
    assert found[3].heads[2] == (
        f"verdict: differs in {sum(off)} of 8 cells, not distinguishable in {8 - sum(off)}; "
        f"up to {most} seeds a side would decide"
    )
    assert [line.span for line in found] == [4, 0, 0, 0]
    assert str(found[0].cells[-1]) == "77.3 ± 0.5*"
    assert str(found[1].cells[-1]) == "76.8 ± 0.8*", "one test of its column: components weaken nothing"
    assert str(found[2].cells[-1]).startswith("-0.5 (p = 0.")
    assert len(grid.commands) == 13, "one a row, and one for the public weights"
    assert paper_grid(table([])).empty
