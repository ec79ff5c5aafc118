"""report.csv: a row a seed, with hyperparameters and unrounded scores as columns."""

from __future__ import annotations

import csv
import io

from builders import over_seeds, result, sts

from harness.reporting.files.csv import write_runs


def test_each_seed_is_a_row_with_its_values_and_scores() -> None:
    values = {"method": {"temperature": 0.05, "lambda": 0.1}, "training": {"epochs": 3}}
    mcse = result("mcse[lambda=0.1]", 7, sts(STS12=61.23456789), hyperparameters=values, overrides={"epochs": 3})
    stream = io.StringIO()
    write_runs([*over_seeds("simcse", [20.0, 21.0]), mcse], stream)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert [(row["variant"], row["seed"]) for row in rows] == [
        ("simcse", "0"),
        ("simcse", "1"),
        ("mcse[lambda=0.1]", "7"),
    ]
    last = rows[2]
    assert (last["name"], last["overrides"]) == ("MCSE, λ = 0.1 (epochs = 3)", "epochs=3")
    assert (last["method.lambda"], last["training.epochs"], last["teacher.image"]) == ("0.1", "3", "toy-clip")
    assert last["sts.STS12.spearman"] == "61.23456789"
    assert (rows[0]["method.lambda"], rows[0]["sts.STS12.spearman"]) == ("", "")
    assert rows[1]["sts.ToySTS.spearman"] == "21.0"
