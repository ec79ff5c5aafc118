"""Embedders, cosines and correlations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.evaluation.sts import cosine, pearson, spearman
from harness.evaluation.suites import Embedded, NotFiniteError


def test_each_distinct_sentence_is_embedded_once_in_one_call() -> None:
    calls: list[list[str]] = []

    def embed(sentences: Sequence[str]) -> np.ndarray:
        calls.append(list(sentences))
        return np.array([[len(sentence), ord(sentence[0])] for sentence in sentences], dtype=np.float32)

    vectors = Embedded(embed, iter(["bb", "a", "bb", "ccc", "a"]))
    assert calls == [["bb", "a", "ccc"]]
    assert len(vectors) == 3
    np.testing.assert_array_equal(vectors.rows(["a", "ccc", "a"]), [[1, 97], [3, 99], [1, 97]])


def test_vectors_that_are_not_finite_are_given_to_nobody() -> None:
    vectors = Embedded(lambda _: np.array([[np.nan, 1], [np.inf, 2], [3, 4]], dtype=np.float32), ["a", "b", "c"])
    np.testing.assert_array_equal(vectors.rows(["c"]), [[3, 4]])
    for sentence in ("a", "b"):
        with pytest.raises(NotFiniteError, match="2 of the 3"):
            vectors.rows([sentence, "c"])


@pytest.mark.parametrize("shape", [(1, 4), (2,), (2, 3, 4)])
def test_an_embedder_must_give_one_row_a_sentence(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="2 sentences"):
        Embedded(lambda _: np.zeros(shape), ["a", "b"])


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
    """That of a zero vector is 0."""
    x = np.array([[3.0, 4.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], dtype=np.float32)
    y = np.array([[6.0, 8.0], [0.0, 2.0], [-2.0, -2.0], [1.0, 1.0]], dtype=np.float32)
    np.testing.assert_allclose(cosine(x, y), [1.0, 0.0, -1.0, 0.0], atol=1e-15)


def test_cosine_of_equal_rows_is_exactly_one_so_that_they_tie() -> None:
    x = np.random.default_rng(0).normal(size=(500, 33)).astype(np.float32)
    assert set(cosine(x, x)) == {1.0}
