"""Embedders, cosines and correlations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.encoders import rows as rows_module
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.sts import cosine, pearson, spearman
from harness.evaluation.suites import Embedded, NotFiniteError
from harness.toy import student_folder


def test_each_distinct_sentence_is_embedded_once_and_no_vector_that_is_not_finite_is_given_out() -> (
    None
):
    """One row a sentence."""
    calls: list[list[str]] = []

    def embed(sentences: Sequence[str]) -> np.ndarray:
        calls.append(list(sentences))
        return np.array(
            [[np.nan if text == "bb" else len(text), ord(text[0])] for text in sentences],
            dtype=np.float32,
        )

    vectors = Embedded(embed, iter(["bb", "a", "bb", "ccc", "a"]))
    assert calls == [["bb", "a", "ccc"]]
    assert len(vectors) == 3
    np.testing.assert_array_equal(vectors.rows(["a", "ccc", "a"]), [[1, 97], [3, 99], [1, 97]])
    with pytest.raises(NotFiniteError, match="1 of the 3"):
        vectors.rows(["bb", "a"])
    for shape in ((1, 4), (2,), (2, 3, 4)):
        with pytest.raises(UserError, match="2 sentences"):
            Embedded(lambda _, shape=shape: np.zeros(shape), ["a", "b"])


@pytest.mark.parametrize(
    ("limit", "numbers"), [("TOKENS_A_BATCH", 40), ("CPU_NUMBERS_A_BATCH", 40 * 64)]
)
def test_batches_are_as_large_as_their_tokens_allow_and_no_larger(
    limit: str, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state of the toy student has 64 numbers."""
    monkeypatch.setattr(rows_module, limit, numbers)
    student = Student.load(student_folder())
    sizes: list[list[int]] = []
    student.model.register_forward_pre_hook(
        lambda module, args, given: sizes.append(given["attention_mask"].sum(1).tolist()),
        with_kwargs=True,
    )
    student.packing = None
    texts = ["red " * count for count in (1, 30, 2, 7, 3, 7, 1, 60, 5, 9)]
    student.embed(texts)
    lengths = sorted((len(student.tokenizer(text)["input_ids"]) for text in texts), reverse=True)
    assert [length for batch in sizes for length in batch] == lengths
    for batch, after in zip(sizes, [*sizes[1:], [41]], strict=True):
        assert len(batch) == 1 or sum(batch) <= 40
        assert sum(batch) + after[0] > 40, "no batch could take another row"


#: Few distinct values, so that ties are the rule.
tied = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0, 4.75, 5.0])),
    min_size=2,
    max_size=40,
)
real = st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 5)), min_size=3, max_size=40)


@pytest.mark.parametrize(
    ("mine", "theirs", "strategy"),
    [
        (spearman, stats.spearmanr, tied),
        (spearman, stats.spearmanr, real),
        (pearson, stats.pearsonr, tied),
    ],
)
def test_correlations_are_scipys(
    mine: Callable, theirs: Callable, strategy: st.SearchStrategy
) -> None:
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
