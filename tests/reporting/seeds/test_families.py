"""The page of reference results, table, report and compare say the same of results/reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import scipy.stats
from builders import over_seeds

from harness.reporting.results import Results
from harness.reporting.sections.leaderboard import describe_gain
from harness.reporting.seeds.gains import make_forests
from harness.reporting.seeds.summary import SummaryTable, make_summary_tables
from harness.reporting.tables.filled import fill_tables
from harness.reporting.tables.grids import format_star
from harness.store import Store, metrics_of

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "results" / "reference"


@pytest.fixture(scope="module")
def tables() -> list[SummaryTable]:
    results = Store(REFERENCE).frames()
    summaries = make_summary_tables(results, metrics_of(results))
    return [table for table in summaries if table.suite == "sts"]


@pytest.mark.parametrize("every", [30, pytest.param(1, marks=pytest.mark.long)])
def test_every_command_reaches_the_same_verdict(tables: list[SummaryTable], every: int) -> None:
    results = Results(Store(REFERENCE), Store(REFERENCE).frames())
    tested = []
    for forest in (forest for table in tables for forest in make_forests(table)):
        tested += [(forest, gain) for gain in forest.gains if gain.cell.corrected]
    assert len(tested) > 100

    for forest, gain in tested[::every]:
        label, mark, base = gain.row.label, format_star(gain.cell), forest.block.base
        word = {"*": "better", "†": "worse"}.get(mark.strip("()"))
        where = {"profile": label.profile, "setting": label.setting, "encoder": label.encoder}
        pairs = dict(pair.split("=") for pair in label.overrides.split(",") if pair)
        comparison = results.compare(label.variant, base, "sts.Avg", set=pairs, **where)
        compared = comparison.conclusion()
        assert (f" is {word} than " in compared) == bool(word), compared
        is_alone = re.search(rf" is \w+ than {base}( \([^)]*\))? alone ", compared)
        assert bool(is_alone) == mark.startswith("("), compared
        assert (" are equal within " in compared) == (mark == "≈"), compared
        kind = word or ("equal" if mark == "≈" else "not significant")
        assert (gain.kind, gain.cell.holds) == (kind, mark in ("*", "†"))
        shown = describe_gain(forest, gain)[1]
        assert shown.partition(",")[0].partition(" alone")[0].partition(" within")[0] == kind
        is_alone_only = "better alone" in shown or "worse alone" in shown
        assert is_alone_only == mark.startswith("("), shown


@pytest.mark.parametrize(
    "names", [("dalr[without=rank]", "dalr[without=ima]"), ("dalr[without=ima]", "dalr")]
)
def test_a_pair_of_a_claim_is_compared_in_the_family_of_the_two_rows(
    names: tuple[str, str],
) -> None:
    values = {
        "": [70.0, 72.0, 74.0],
        "[without=rank]": [66.0, 68.0, 70.0],
        "[without=ima]": [65.5, 67.0, 69.5],
    }
    runs = [run for name, scores in values.items() for run in over_seeds(f"dalr{name}", scores)]
    comparison = Results(Store(Path()), runs).compare(*names)
    assert (comparison.corrected is None) == (names[1] != "dalr")
    if comparison.corrected:
        assert comparison.corrected.family.tests == 2
        assert "alone (" in comparison.conclusion()


def test_the_test_of_a_papers_own_table_is_the_papers_and_does_not_decide() -> None:
    """Here one row is in another setting than the row that the paper compares it with."""
    sides = {
        "visualcse/wiki+imagenet/bert-base-uncased": [74.0, 73.0, 72.0],
        "simcse@official/wiki/bert-base-uncased": [71.0, 70.9, 70.5],
    }
    runs = []
    for name, values in sides.items():
        variant, setting, encoder = name.split("/")
        where = {"profile": "paper", "setting": setting, "encoder": encoder}
        runs += over_seeds(variant, values, **where)
    lines = [line for table in fill_tables("paper", runs) for line in table.lines if line.against]
    (tested,) = (
        cell.measured
        for line in lines
        for cell in line.cells.values()
        if cell.measured and cell.measured.test
    )
    assert tested.test.name == "the pooled t-test"
    assert tested.test.p == pytest.approx(scipy.stats.ttest_ind(*sides.values()).pvalue)
    outcome = Results(Store(Path()), runs).compare(*sides).outcome
    assert outcome.test
    assert (outcome.test.name, outcome.family) == ("Welch's t-test", None)
    welch = scipy.stats.ttest_ind(*sides.values(), equal_var=False)
    assert outcome.p == pytest.approx(welch.pvalue)
