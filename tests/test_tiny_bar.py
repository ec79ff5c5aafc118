"""The science of the tiny profile: pictures help, shuffled pictures do not."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy.stats import ttest_ind

import harness


@pytest.mark.long  # `make smoke` trains the same methods at every run of CI
def test_grounded_methods_beat_simcse_by_twenty_points_and_the_control_does_not(
    tmp_path: Path,
) -> None:
    methods = ("simcse", "mcse", "mcse[images=shuffled]", "kdmcse", "dalr")
    short = {"steps": 400, "eval_every": 200}
    results = harness.run(
        "tiny", methods=methods, seeds=3, suites="sts", set=short, results=tmp_path
    )
    assert not results.failures
    scores: dict[str, list[float]] = {name: [] for name in methods}
    for run in results.runs:
        if (variant := str(run.spec.variant)) in scores:  # not the students that teach
            scores[variant].append(run.evaluations[0].scores["Avg"]["spearman"])
    assert stdev(scores["mcse"]) < 8
    assert mean(scores["mcse[images=shuffled]"]) - mean(scores["simcse"]) < 20
    pairs = [
        ("mcse", "simcse"),
        ("mcse", "mcse[images=shuffled]"),
        ("kdmcse", "simcse"),
        ("dalr", "simcse"),
    ]
    for better, worse in pairs:
        assert mean(scores[better]) - mean(scores[worse]) > 20, (better, worse)
        assert ttest_ind(scores[better], scores[worse]).pvalue < 0.05, (better, worse)
