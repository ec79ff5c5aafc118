"""The report as CSV: one row for each cell, unrounded."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from builders import frame, over_seeds, result, sts, tables

from harness.papers.published import read_papers, read_published
from harness.reporting.files.csv import COLUMNS, summary_rows, tidy
from harness.reporting.sections.papers import paper_rows
from harness.reporting.tables.filled import paper_tables


def test_csv_has_one_row_for_each_cell_unrounded() -> None:
    place: dict[str, Any] = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}
    scores = dict.fromkeys(["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"], 76.123456789)
    results = [result("mcse", seed, sts(**scores), **place) for seed in (0, 1, 2)]
    results += over_seeds("mcse", [70.0, 71.0, 72.0]) + over_seeds("simcse", [20.0, 21.5, 23.0])
    filled = paper_tables(read_papers(), read_published(), frame(results))
    ours = [row for table in tables(results) for row in summary_rows(table)]
    text = tidy([*ours, *(row for table in filled for row in paper_rows(table))])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == COLUMNS
    assert "nan" not in text.lower()
    summary = [row for row in rows if row["table"] == "summary"]
    assert len(summary) == 8 + 2 * 2
    mcse = next(row for row in summary if (row["variant"], row["profile"], row["task"]) == ("mcse", "tiny", "Avg"))
    assert float(mcse["difference"]) == pytest.approx(49.5)
    assert (mcse["against"], mcse["verdict"], mcse["n"], mcse["seeds"]) == ("simcse", "better", "3", "0 1 2")
    assert float(mcse["p"]) == float(mcse["p_holm"]) < 0.05
    paper = [row for row in rows if row["table"] == "mcse T1"]
    assert len(paper) == 14 * 8
    cell = next(
        row
        for row in paper
        if (row["variant"], row["setting"], row["encoder"], row["task"])
        == ("mcse", "wiki+flickr", "bert-base-uncased", "Avg")
    )
    assert cell["mean"].startswith("76.12345678")
    assert (cell["published"], cell["published_std"], cell["published_seeds"], cell["published_star"]) == (
        "77.3",
        "0.5",
        "5",
        "1",
    )
    assert float(cell["minus_published"]) == pytest.approx(76.123456789 - 77.3)
    assert 0 < float(cell["p_published"]) < 1
    # 76.12 without spread beside 77.3 +- 0.5 of five seeds: a difference of 1.18 is not within 1 point
    assert (cell["margin"], cell["verdict_published"], cell["seeds_to_decide"]) == ("1.0", "differs", "")
    assert float(cell["p_equivalence"]) > 0.5
    geometry = next(row for row in rows if row["table"] == "kdmcse T2")
    assert (geometry["margin"], geometry["p_equivalence"]) == ("", "")
    assert cell["command"].startswith("harness run --methods mcse")
