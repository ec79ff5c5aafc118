"""docs/reproduce.md: its licences, runs and hours are those of the plan and of the count."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from scripts import script

import harness
from harness.planning.missing import fetch_list, lacking

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reproduce.md").read_text()


def hours() -> ModuleType:
    return script(ROOT / "benchmarks" / "hours.py")


def test_the_licences_of_the_page_are_those_that_the_fetch_asks_for(tmp_path: Path) -> None:
    found = fetch_list(lacking(harness.plan(table="dalr:T1", results=tmp_path)), None, ask=False)
    (accepted,) = re.findall(r"harness fetch --table dalr:T1 --accept-licences (\S+)", PAGE)
    assert accepted.split(",") == [item.name for item in found.items if item.terms]
    assert [one.name for one in found.by_hand] == ["flickr-images"]
    assert f"{found.size / 1e9:.0f} GB to download" in PAGE


def test_the_table_has_the_runs_that_the_page_counts(tmp_path: Path) -> None:
    assert len(harness.plan(table="dalr:T1", results=tmp_path).runs) == 20
    assert "Table 1 of the DALR paper has 20 runs" in PAGE


def test_the_hours_are_those_of_the_count() -> None:
    """`python benchmarks/hours.py --write` makes them again."""
    made = hours()
    between = PAGE.partition(made.BEGIN)[2].partition(made.END)[0]
    assert between.strip() == made.tables().strip()
