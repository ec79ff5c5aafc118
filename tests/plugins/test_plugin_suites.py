"""A suite of another package: its metrics say how they are read, in every table and sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_packages import Install

import harness
from harness.reporting.tables.grids import make_summary_grid

pytestmark = pytest.mark.usefixtures("small_toy_tests")

CODE = '''\
    """A suite that measures the length of sentence vectors, and a method that makes them short."""
    from dataclasses import dataclass

    import numpy as np
    import torch
    from harness.encoders.heads import TanhHead
    from harness.evaluation.suites import Suite, SuiteScores
    from harness.method import hyper
    from harness.metrics import AVERAGE, Metric, MetricWords
    from harness_methods.simcse import SimCSE, SimCSEHyperparameters


    class LengthSuite(Suite):
        """Mean norm of the vectors; short ones are wanted."""

        name = "length"
        title = "Lengths of vectors"
        version = 1
        metrics = (Metric("norm", larger_is_better=False, digits=1, unit="metres"),)
        words = {"norm": MetricWords("mean norm in metres")}

        def evaluate(self, embed, root):
            scores = {}
            for name, task in self._tasks.items():
                texts = [pair[0] for pairs in task.load(root).values() for pair in pairs]
                scores[name] = {"norm": float(np.linalg.norm(embed(texts), axis=1).mean())}
            return SuiteScores({**scores, AVERAGE: self.average(scores)})


    @dataclass(frozen=True)
    class ShortHyperparameters(SimCSEHyperparameters):
        pooling: str = hyper("pooler", source="this test", registered="pooling")


    class ShortSimCSE(SimCSE):
        """SimCSE read through a head that shortens its vectors tenfold."""

        name = "short"
        Hyperparameters = ShortHyperparameters

        def __init__(self, hyperparameters, dimensions):
            super().__init__(hyperparameters, dimensions)
            self.shortener = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)
            self.shortener[0].weight.data = torch.eye(dimensions.encoder) / 10

        def test_head(self):
            return self.shortener
'''


def test_a_smaller_value_is_better_where_the_suite_says_so(
    install: Install, profile: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    install(
        "lengths", CODE, {"suites": {"length": "LengthSuite"}, "methods": {"short": "ShortSimCSE"}}
    )
    mine = profile('[suites.length]\ntasks = ["ToySTS"]\n')
    done = harness.run(mine, methods="simcse,short", seeds=3, suites="length", set={"steps": 2})
    assert not done.failures
    means = done.frame.groupby("variant")["value"].mean()
    assert means["short"] < means["simcse"] / 5
    table = done.table("length")
    assert "*" in " ".join(
        table.loc[["short" in str(row) for row in table.to_numpy()]].astype(str).to_numpy().ravel()
    )
    said = done.compare("short", "simcse", metric="length.Avg").conclusion()
    assert said.startswith("short (steps=2) is better than simcse (steps=2)")
    [scores] = [table for table in done.tables if table.suite == "length"]
    assert make_summary_grid(scores).title.startswith("Lengths of vectors: mean norm in metres")
