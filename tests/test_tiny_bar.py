"""The science of the tiny profile: pictures help, shuffled pictures do not."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy.stats import ttest_ind

import harness


def averages(folder: Path, steps: int, seeds: int, *methods: str) -> dict[str, list[float]]:
    """The mean over tasks of each seed, by variant."""
    shorter = {"steps": steps, "eval_every": steps // 2}
    results = harness.run("tiny", methods=methods, seeds=seeds, suites="sts", set=shorter, results=folder)
    assert not results.failures
    found: dict[str, list[float]] = {}
    for run in results.runs:
        found.setdefault(run.spec.variant, []).append(run.evaluations[0].scores["Avg"]["spearman"])
    return {name: scores for name, scores in found.items() if name in methods}


@pytest.mark.long  # `make smoke` trains the same methods at every run of CI
def test_grounded_methods_beat_simcse_by_twenty_points_and_the_control_does_not(tmp_path: Path) -> None:
    others = ("kdmcse", "dalr")
    scores = averages(tmp_path, 400, 3, "simcse", "mcse", "mcse[images=shuffled]", *others)
    simcse, mcse, shuffled = scores["simcse"], scores["mcse"], scores["mcse[images=shuffled]"]
    assert mean(mcse) - mean(simcse) > 20
    assert ttest_ind(mcse, simcse).pvalue < 0.05
    assert stdev(mcse) < 8
    assert mean(shuffled) - mean(simcse) < 20
    assert mean(mcse) - mean(shuffled) > 20
    assert ttest_ind(mcse, shuffled).pvalue < 0.05
    for name in others:
        assert mean(scores[name]) - mean(simcse) > 20, name
        assert ttest_ind(scores[name], simcse).pvalue < 0.05, name
