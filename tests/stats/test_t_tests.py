from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats

from harness.stats import Summary, summarise, t_test, t_test_from_summaries

A = [76.1, 77.9, 75.0, 78.2, 77.0]
B = [74.2, 75.1, 73.0, 76.4]


def test_summary_is_the_sample_form() -> None:
    assert dataclasses.astuple(summarise([1.0, 2.0, 3.0, 4.0])) == pytest.approx((2.5, math.sqrt(5 / 3), 4))
    assert summarise([3.0]) == Summary(3.0, None, 1)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [1.0, math.inf]])
def test_summary_refuses_what_has_no_mean(values: list[float]) -> None:
    with pytest.raises(ValueError, match="summary"):
        summarise(values)


@pytest.mark.parametrize("equal_variance", [True, False])
def test_agrees_with_scipy_from_values(equal_variance: bool) -> None:
    mine = t_test(A, B, equal_variance=equal_variance, level=0.9)
    theirs = scipy.stats.ttest_ind(A, B, equal_var=equal_variance)
    interval = theirs.confidence_interval(0.9)
    assert dataclasses.astuple(mine) == pytest.approx(
        (np.mean(A) - np.mean(B), theirs.statistic, theirs.df, theirs.pvalue, interval.low, interval.high, 0.9)
    )


def test_two_by_two_closed_form() -> None:
    # Means 1 and 4, variances 2 and 2: standard error sqrt(2), t = -3/sqrt(2), 2 degrees of freedom,
    # for which the distribution function is 1/2 + t / (2 sqrt(2 + t^2)).
    found = t_test([0.0, 2.0], [3.0, 5.0])
    t = 3 / math.sqrt(2)
    assert found.statistic == pytest.approx(-t)
    assert found.p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    quantile = 0.95 * math.sqrt(2 / (1 - 0.95**2))
    assert (found.low, found.high) == pytest.approx((-3 - quantile * math.sqrt(2), -3 + quantile * math.sqrt(2)))


# Means and spreads of five seeds each as printed, with the p values recomputed when the papers were read.
PRINTED = [
    ("KDMCSE T1 BERT wiki+flickr STS13", (81.8, 1.3), (83.1, 0.9), 0.10, 2),
    ("KDMCSE T1 BERT wiki+flickr STS15", (83.6, 0.9), (83.7, 0.8), 0.86, 2),
    ("KDMCSE T1 BERT wiki+flickr SICK-R", (72.6, 1.4), (73.0, 0.9), 0.61, 2),
    ("KDMCSE T1 RoBERTa wiki+flickr SICK-R", (70.3, 1.3), (71.2, 0.4), 0.18, 2),
    ("KDMCSE T1 BERT wiki+coco STS13", (79.7, 0.9), (80.5, 1.0), 0.22, 2),
    ("KDMCSE T1 BERT wiki+coco SICK-R", (72.1, 1.4), (73.7, 1.4), 0.11, 2),
    ("KDMCSE T1 RoBERTa wiki+coco Avg", (77.6, 0.8), (78.0, 0.7), 0.42, 2),
    ("KDMCSE T1 BERT wiki+coco Avg", (76.6, 0.5), (77.9, 1.2), 0.056, 3),
    ("MCSE T1 BERT wiki+flickr STS15", (83.6, 0.9), (81.9, 0.8), 0.013, 3),
    ("NonLing T3 BERT", (75.74, 0.90), (76.96, 0.38), 0.0235, 4),
]


@pytest.mark.parametrize(("where", "a", "b", "p", "places"), PRINTED, ids=[row[0] for row in PRINTED])
def test_published_figures_give_the_known_p(
    where: str, a: tuple[float, float], b: tuple[float, float], p: float, places: int
) -> None:
    found = t_test_from_summaries(Summary(*a, 5), Summary(*b, 5))
    assert found.p == pytest.approx(p, abs=0.6 * 10**-places), where


def test_too_few_seeds_give_no_test() -> None:
    assert t_test([1.0], [1.0, 2.0]) is None
    assert t_test([], [1.0, 2.0]) is None
    assert t_test_from_summaries(Summary(70.0, None, 1), Summary(71.0, 0.5, 5)) is None
    assert t_test_from_summaries(Summary(70.0, None, 5), Summary(71.0, 0.5, 5)) is None


@pytest.mark.parametrize("equal_variance", [True, False])
def test_no_spread_gives_the_limit_and_no_nan(equal_variance: bool) -> None:
    same = t_test([0.1 + 0.2, 0.3], [0.3, 0.3, 0.3], equal_variance=equal_variance)
    apart = t_test([70.0, 70.0], [71.0, 71.0], equal_variance=equal_variance)
    assert (same.statistic, same.p) == (0.0, 1.0)
    assert (apart.statistic, apart.p, apart.low, apart.high) == (-math.inf, 0.0, -1.0, -1.0)
    one_sided = t_test([70.0, 70.0], [71.0, 71.5], equal_variance=equal_variance)
    assert not any(math.isnan(value) for value in dataclasses.astuple(one_sided))


def test_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="level"):
        t_test(A, B, level=95)
    with pytest.raises(ValueError, match="negative"):
        t_test_from_summaries(Summary(1.0, -0.1, 5), Summary(1.0, 0.1, 5))
