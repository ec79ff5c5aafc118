from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from harness.papers.published import PublishedKey

OURS = Path(__file__).parents[2] / "reports" / "published.csv"
SOURCE = Path(__file__).parents[3] / "shared" / "papers" / "results.csv"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_same_facts_as_the_papers_were_read() -> None:
    if not SOURCE.is_file():
        pytest.skip(f"NOT CHECKED: {SOURCE} is not there, published.csv is compared with nothing")
    ours, theirs = rows(OURS), rows(SOURCE)
    assert len(ours) == len(theirs) == 1248
    for line, (mine, other) in enumerate(zip(ours, theirs, strict=True), start=2):
        assert list(mine) == list(other)
        facts = {name: value for name, value in other.items() if name != "note"}
        assert {name: value for name, value in mine.items() if name != "note"} == facts, f"line {line}"
        assert bool(mine["note"]) == bool(other["note"]), f"line {line}: a note is lost or made up"


def test_every_line_is_well_formed() -> None:
    for line, row in enumerate(rows(OURS), start=2):
        assert row["paper"] in {"mcse", "kdmcse", "dalr", "nonling"}, line
        float(row["value"])
        assert not row["std"] or float(row["std"]) >= 0, line
        assert row["seeds"] in {"", "1", "5"}, line
        assert row["significant"] in {"", "1"}, line
        assert row["source"] in {"own", "simcse", "mcse", "kdmcse", "mteb"}, line


def test_only_grids_and_axes_repeat_a_key() -> None:
    keys = Counter(tuple(row[name] for name in PublishedKey._fields) for row in rows(OURS))
    repeated = {key[7] for key, count in keys.items() if count > 1}
    assert repeated == {"colour_bar_tick", "n_train_pairs", "margin_grid"}
