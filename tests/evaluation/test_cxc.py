"""Crisscrossed Captions: the paper's sampling of its ratings."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from harness.evaluation.cxc import CXC_2017, CXC_2017_DEV, CxCSuite, sampled_correlations
from harness.evaluation.suites import Embedded

#: each of two captions is rated with two others: six captions
PAIRS = [("0", "10", 4.0), ("0", "50", 2.5), ("80", "30", 2.0), ("80", "90", 5.0)]


def test_the_score_is_the_mean_over_samples_of_half_of_the_captions() -> None:
    """Against the mean over all samples, each as likely as it is drawn."""
    cosines = np.cos(np.radians([10.0, 50.0, 50.0, 10.0]))
    gold = np.array([pair[2] for pair in PAIRS])
    of = {name: [i for i, pair in enumerate(PAIRS) if name in pair[:2]] for name in ("0", "10", "50", "80", "30", "90")}
    expected = []
    for names in product(of, repeat=3):
        if len(set(names)) == 3:
            for rows in product(*([i for i in of[name] for _ in range(2 // len(of[name]))] for name in names)):
                value = stats.spearmanr(cosines[list(rows)], gold[list(rows)]).statistic if len(set(rows)) > 1 else None
                expected += [] if value is None or np.isnan(value) else [value]
    found = sampled_correlations(PAIRS, cosines, gold, samples=4000)
    assert found.mean() == pytest.approx(np.mean(expected), abs=4 * np.std(expected) / np.sqrt(len(found)))


def test_scores_are_repeatable_and_undefined_ones_are_left_out() -> None:
    def planar(sentences: list[str]) -> np.ndarray:
        angles = np.radians([float(sentence) for sentence in sentences])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    vectors = Embedded(planar, {text for pair in PAIRS for text in pair[:2]})  # type: ignore[arg-type]
    suite = CxCSuite(["CxC"])
    first, second = (suite.score({"": PAIRS}, vectors).scores for _ in range(2))
    assert first == second
    assert set(first) == {"sampled", "sampled_std", "spearman", "pearson", "spearman_mean", "spearman_wmean", "n"}
    equal = suite.score({"": [(a, b, 1.0) for a, b, _ in PAIRS]}, vectors)
    assert set(equal.scores) == {"n"}
    assert equal.warnings


def test_the_pairs_of_2017_are_read_by_split(data_root: object) -> None:
    counts = [len(task.load(data_root)[""]) for task in (CXC_2017_DEV, CXC_2017)]  # type: ignore[arg-type]
    assert counts == [3309, 3222]
