"""The embedder of a run: vectors computed once for all suites, dropout views, and spaces shared with images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from harness.encoders.student import Student
from harness.runs.run import CachedEmbedding, dropout_views
from harness.toy import student_folder

TEXTS = ["the red circle", "the blue ring", "the red circle"]


@pytest.fixture(scope="module")
def student() -> Student:
    return Student.load(student_folder())


def test_each_sentence_is_embedded_once(student: Student) -> None:
    asked: list[int] = []

    def counting(sentences: Sequence[str]) -> np.ndarray:
        asked.append(len(sentences))
        return student.embed(sentences)

    embed = CachedEmbedding(counting)
    np.testing.assert_array_equal(embed(TEXTS), embed(TEXTS))
    np.testing.assert_array_equal(embed(TEXTS)[0], embed(TEXTS)[2])
    embed([*TEXTS, "another"])
    assert asked == [2, 1]


def test_views_depend_on_their_seed_alone_and_leave_the_callers_random_state(student: Student) -> None:
    state = torch.random.get_rng_state()
    first = dropout_views(student, TEXTS[:2], 3, seed=5)
    assert first.shape == (2, 3, student.width)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(3)
    np.testing.assert_array_equal(first, dropout_views(student, TEXTS[:2], 3, seed=5))
    assert not np.allclose(first, dropout_views(student, TEXTS[:2], 3, seed=6))
    assert not np.allclose(first[0, 0], first[0, 1]), "dropout is active"
