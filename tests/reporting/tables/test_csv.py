"""The report as CSV, unrounded: one row for each cell in tables.csv, one for each run in
report.csv.
"""

from __future__ import annotations

import csv
import io

import pytest
from builders import over_seeds, result, sts, tables, tidy
from table_samples import PAPERS, runs

from harness.profiles import load_profile
from harness.reporting.csvfiles import COLUMNS, list_summary_fields, write_runs
from harness.reporting.sections.papers import list_paper_fields
from harness.reporting.tables.filled import fill_paper_tables


def test_csv_has_one_row_for_each_cell_unrounded() -> None:
    results = runs("mcse", [76.123456789] * 3)
    results += over_seeds("mcse", [70.0, 71.0, 72.0]) + over_seeds("simcse", [20.0, 21.5, 23.0])
    filled = fill_paper_tables(load_profile("paper"), PAPERS, results)
    ours = [row for table in tables(results) for row in list_summary_fields(table)]
    text = tidy([*ours, *(row for table in filled for row in list_paper_fields(table))])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == COLUMNS
    assert "nan" not in text.lower()
    summary = [row for row in rows if row["table"] == "summary"]
    assert len(summary) == 8 + 2 * 2
    mcse = next(
        row
        for row in summary
        if (row["variant"], row["profile"], row["task"]) == ("mcse", "tiny", "Avg")
    )
    assert float(mcse["difference"]) == pytest.approx(49.5)
    assert (mcse["against"], mcse["verdict"], mcse["n"], mcse["seeds"]) == (
        "simcse",
        "better",
        "3",
        "0 1 2",
    )
    assert float(mcse["p"]) == float(mcse["p_corrected"]) < 0.05
    assert mcse["correction"] == "Holm's correction over 1 test (methods against SimCSE)"
    assert mcse["conclusion"].startswith("better, p")
    paper = [row for row in rows if row["table"] == "mcse T1"]
    assert len(paper) == 14 * 8
    wanted = {
        "variant": "mcse",
        "setting": "wiki+flickr",
        "encoder": "bert-base-uncased",
        "task": "Avg",
    }
    cell = next(row for row in paper if wanted.items() <= row.items())
    assert cell["mean"].startswith("76.12345678")
    assert [cell[f"published{part}"] for part in ("", "_std", "_seeds", "_star")] == [
        "77.3",
        "0.5",
        "5",
        "1",
    ]
    assert float(cell["minus_published"]) == pytest.approx(76.123456789 - 77.3)
    assert 0 < float(cell["p_published"]) < 1
    # 76.12 without spread beside 77.3 +- 0.5 of five seeds: 1.18 is more than print's own noise
    verdict = cell["margin"], cell["verdict_published"], cell["seeds_to_decide"]
    assert verdict == ("1.0", "differs", "")
    assert float(cell["p_equivalence"]) > 0.5
    geometry = next(row for row in rows if row["table"] == "kdmcse T2")
    assert (geometry["margin"], geometry["p_equivalence"]) == ("", "")
    assert cell["command"] == "harness run --table mcse:T1"


def test_each_seed_is_a_row_with_its_values_and_scores() -> None:
    values = {"method": {"temperature": 0.05, "lambda": 0.1}, "training": {"epochs": 3}}
    mcse = result(
        "mcse[lambda=0.1]",
        7,
        sts(STS12=61.23456789),
        hyperparameters=values,
        overrides={"epochs": 3},
    )
    stream = io.StringIO()
    write_runs([*over_seeds("simcse", [20.0, 21.0]), mcse], stream)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert [(row["variant"], row["seed"]) for row in rows] == [
        *zip(["simcse", "simcse", "mcse[lambda=0.1]"], "017", strict=True)
    ]
    last = rows[2]
    assert (last["name"], last["overrides"]) == ("MCSE, λ = 0.1 (epochs = 3)", "epochs=3")
    assert (last["method.lambda"], last["training.epochs"], last["teacher.image"]) == (
        "0.1",
        "3",
        "toy-clip",
    )
    assert last["sts.STS12.spearman"] == "61.23456789"
    assert (rows[0]["method.lambda"], rows[0]["sts.STS12.spearman"]) == ("", "")
    assert rows[1]["sts.ToySTS.spearman"] == "21.0"
