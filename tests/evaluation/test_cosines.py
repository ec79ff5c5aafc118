from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.evaluation.cosines import cosine, pearson, spearman

#: Few distinct values, so that ties are the rule.
tied = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0, 4.75, 5.0])), min_size=2, max_size=40)
real = st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 5)), min_size=3, max_size=40)


@pytest.mark.parametrize("strategy", [tied, real])
def test_spearman_is_scipys(strategy: st.SearchStrategy[list[tuple[float, float]]]) -> None:
    @given(strategy)
    def check(pairs: list[tuple[float, float]]) -> None:
        x, y = np.array(pairs, dtype=np.float64).T
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            assert spearman(x, y) is None
        else:
            assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)

    check()


@given(tied)
def test_pearson_is_scipys(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert pearson(x, y) is None
    else:
        assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)


def test_one_pair_has_no_correlation() -> None:
    assert pearson(np.array([0.3]), np.array([5.0])) is None


def test_a_tiny_spread_is_still_a_spread() -> None:
    assert pearson(np.array([0.0, 1e-200, 2e-200]), np.array([1.0, 2.0, 3.0])) == pytest.approx(1.0)


def test_cosine_by_hand() -> None:
    x = np.array([[3.0, 4.0], [1.0, 0.0], [1.0, 1.0]], dtype=np.float32)
    y = np.array([[6.0, 8.0], [0.0, 2.0], [-2.0, -2.0]], dtype=np.float32)
    np.testing.assert_allclose(cosine(x, y), [1.0, 0.0, -1.0], atol=1e-15)


def test_cosine_of_a_zero_vector_is_zero() -> None:
    np.testing.assert_array_equal(cosine(np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)), [0.0])


def test_cosine_of_equal_rows_is_exactly_one_so_that_they_tie() -> None:
    x = np.random.default_rng(0).normal(size=(500, 33)).astype(np.float32)
    assert set(cosine(x, x)) == {1.0}
