"""The page of reference results, table, report and compare say the same of results/reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting.results import Results
from harness.reporting.seeds.forest import forests
from harness.reporting.seeds.headline import headline
from harness.reporting.seeds.summary import SummaryTable, summary_tables
from harness.reporting.tables.grids import star
from harness.store import Store, frame_of, metrics_of

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "results" / "reference"


@pytest.fixture(scope="module")
def tables() -> list[SummaryTable]:
    results = Store(REFERENCE).indexed()
    found = summary_tables(frame_of(results, ()), metrics_of(results))
    return [table for table in found if table.suite == "sts"]


def test_every_command_reaches_the_same_verdict(tables: list[SummaryTable]) -> None:
    results, said, checked = Results(REFERENCE, Store(REFERENCE).indexed()), headline(tables, []), 0
    page = (ROOT / "docs" / "reference-results.md").read_text("utf-8")
    for forest in (forest for table in tables for forest in forests(table)):
        for gain in (gain for gain in forest.gains if gain.cell.corrected):
            label, mark, base = gain.row.label, star(gain.cell), forest.block.base
            word = {"*": "better", "†": "worse"}.get(mark.strip("()"))
            where = {"profile": label.profile, "setting": label.setting, "encoder": label.encoder}
            pairs = dict(pair.split("=") for pair in label.overrides.split(",") if pair)
            compared = results.compare(label.variant, base, "sts.Avg", set=pairs, **where).conclusion()
            assert (f" is {word} than " in compared) == bool(word), compared
            assert (f"than {base} alone" in compared) == mark.startswith("("), compared
            assert (gain.kind, gain.certain) == (word or "not significant", mark in ("*", "†"))
            place = f"{forest.place}, profile {label.profile}"
            starts = f"{label.name} {'beats' if word == 'better' else 'trails'} " if gain.certain else f"{label.name} "
            kinds = [one.kind for one in said if one.place == place and one.text.startswith(starts)]
            assert ((word or "even") if gain.certain or not word else "alone") in kinds
            if label.profile == "small" and not label.overrides:
                verdict = f"{word} than" if word else "not significantly different from"
                lines = [line for line in page.splitlines() if line.startswith(f"- `{label.setting}`: {verdict}")]
                assert any(f"`{label.variant}`" in line for line in lines)
            checked += 1
    assert checked > 30
