"""Embedders, cosines and correlations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.errors import UserError
from harness.evaluation.sts import cosine, pearson, spearman
from harness.evaluation.suites import Embedded, NotFiniteError


def test_each_distinct_sentence_is_embedded_once_and_no_vector_that_is_not_finite_is_given_out() -> None:
    """One row a sentence."""
    calls: list[list[str]] = []

    def embed(sentences: Sequence[str]) -> np.ndarray:
        calls.append(list(sentences))
        return np.array([[np.nan if text == "bb" else len(text), ord(text[0])] for text in sentences], dtype=np.float32)

    vectors = Embedded(embed, iter(["bb", "a", "bb", "ccc", "a"]))
    assert calls == [["bb", "a", "ccc"]]
    assert len(vectors) == 3
    np.testing.assert_array_equal(vectors.rows(["a", "ccc", "a"]), [[1, 97], [3, 99], [1, 97]])
    with pytest.raises(NotFiniteError, match="1 of the 3"):
        vectors.rows(["bb", "a"])
    for shape in ((1, 4), (2,), (2, 3, 4)):
        with pytest.raises(UserError, match="2 sentences"):
            Embedded(lambda _, shape=shape: np.zeros(shape), ["a", "b"])


#: Few distinct values, so that ties are the rule.
tied = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0, 4.75, 5.0])), min_size=2, max_size=40)
real = st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 5)), min_size=3, max_size=40)


@pytest.mark.parametrize(
    ("mine", "theirs", "strategy"),
    [(spearman, stats.spearmanr, tied), (spearman, stats.spearmanr, real), (pearson, stats.pearsonr, tied)],
)
def test_correlations_are_scipys(mine: Callable, theirs: Callable, strategy: st.SearchStrategy) -> None:
    @given(strategy)
    def check(pairs: list[tuple[float, float]]) -> None:
        x, y = np.array(pairs, dtype=np.float64).T
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            assert mine(x, y) is None
        else:
            assert mine(x, y) == pytest.approx(theirs(x, y).statistic, abs=1e-12)

    check()
    assert mine(np.array([0.3]), np.array([5.0])) is None
    assert mine(np.array([0.0, 1e-200, 2e-200]), np.array([1.0, 2.0, 3.0])) == pytest.approx(1.0), (
        "a tiny spread is one"
    )


def test_cosine_by_hand_and_of_equal_rows_exactly_one_so_that_they_tie() -> None:
    """That of a zero vector is 0."""
    x = np.array([[3.0, 4.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], dtype=np.float32)
    y = np.array([[6.0, 8.0], [0.0, 2.0], [-2.0, -2.0], [1.0, 1.0]], dtype=np.float32)
    np.testing.assert_allclose(cosine(x, y), [1.0, 0.0, -1.0, 0.0], atol=1e-15)
    many = np.random.default_rng(0).normal(size=(500, 33)).astype(np.float32)
    assert set(cosine(many, many)) == {1.0}
