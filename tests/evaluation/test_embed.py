from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from harness.evaluation.cosines import NotFiniteError
from harness.evaluation.embed import Embedded


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
