"""The arrays that figures are drawn from, on made vectors and on the toy world."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.figure_data import FiguresSuite
from harness.metrics import ArrayName
from harness.runs.embedding import RunEmbedder
from harness.toy import student_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> RunEmbedder:
    student = Student.load(student_folder(), "cls")
    return RunEmbedder(student, student.embed, tmp_path_factory.mktemp("kept"))


def test_views_differ_and_are_those_of_their_seed(model: RunEmbedder) -> None:
    texts = ["a red circle", "a large blue square above a small green ring"]
    before = torch.get_rng_state()
    views = model.views(texts, 6, 3)
    assert torch.equal(torch.get_rng_state(), before)
    assert views.shape[:2] == (2, 6)
    assert len(np.unique(views.reshape(12, -1), axis=0)) == 12
    np.testing.assert_array_equal(views, model.views(texts, 6, 3))
    assert not np.allclose(views, model.views(texts, 6, 4))
    # dropout moves a vector about, not away
    far = np.linalg.norm(model(texts)[0] - model(texts)[1])
    assert np.linalg.norm(views.mean(axis=1) - model(texts), axis=1).max() < far


def test_the_suite_on_the_toy_world(model: RunEmbedder) -> None:
    suite = FiguresSuite(["ToySTS", "ToyRetrieval"], captions=60, clusters=4, views=5)
    done = suite.evaluate(model, None)
    arrays, scores = done.arrays, done.scores
    assert {name: values.shape for name, values in arrays.items()} == {
        ArrayName("ToySTS", "gold"): (scores["ToySTS"]["n"],),
        ArrayName("ToySTS", "cosine"): (scores["ToySTS"]["n"],),
        ArrayName("ToyRetrieval", "tsne"): (60, 2),
        ArrayName("ToyRetrieval", "clusters"): (60,),
        ArrayName("ToyRetrieval", "triples"): (5, 3),
        ArrayName("ToyRetrieval", "views"): (5, 3, 5, 2),
        ArrayName("ToyRetrieval", "queries"): (6,),
        ArrayName("ToyRetrieval", "neighbours"): (6, 3),
        ArrayName("ToyRetrieval", "neighbour_cosines"): (6, 3),
    }
    for query, texts in zip(
        arrays[ArrayName("ToyRetrieval", "queries")], arrays[ArrayName("ToyRetrieval", "neighbours")], strict=True
    ):
        assert len({query, *texts}) == 4
    assert (np.diff(arrays[ArrayName("ToyRetrieval", "neighbour_cosines")]) <= 0).all()
    assert scores["Avg"] == {}
    assert scores["ToyRetrieval"]["cosine_same"] > scores["ToyRetrieval"]["cosine_apart"]
    again = FiguresSuite(["ToySTS", "ToyRetrieval"], captions=60, clusters=4, views=5).evaluate(model, None)
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, again.arrays[name])
    other = FiguresSuite(["ToyRetrieval"], captions=60, clusters=4, views=5, seed=1).evaluate(model, None)
    assert (other.arrays[ArrayName("ToyRetrieval", "triples")] != arrays[ArrayName("ToyRetrieval", "triples")]).any()


def test_a_model_without_dropout_views_is_reported() -> None:
    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.array([[len(text), text.count("a"), 1.0] for text in texts], dtype=np.float32)

    done = FiguresSuite(["ToyRetrieval"], captions=20, clusters=2, views=5).evaluate(embed, None)
    assert ArrayName("ToyRetrieval", "views") not in done.arrays
    assert "repeated encodings left out" in done.warnings[0]


def test_spaces_of_a_model_are_kept_apart() -> None:
    class Shared:
        def texts(self, texts: Sequence[str]) -> np.ndarray:
            return np.eye(1000)[: len(texts)]

        def images(self, pairs: Sequence[str], name: str) -> np.ndarray:
            return np.eye(1000)[: len(pairs)]

    class Embed:
        shared, teacher = Shared(), None

        def __call__(self, texts: Sequence[str]) -> np.ndarray:
            return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    arrays = FiguresSuite(["ToyRetrieval"], captions=20, clusters=2, views=5).evaluate(Embed(), None).arrays
    assert (arrays[ArrayName("ToyRetrieval", "worst_rank", "own")] == 1).all()
    assert not any(name.space == "teacher" for name in arrays)


def test_numbers_are_part_of_the_protocol_and_checked() -> None:
    prints = {
        FiguresSuite(["ToySTS"], **more).fingerprint(None) for more in ({}, {"views": 5}, {"queries": 5}, {"seed": 1})
    }
    assert len(prints) == 4
    with pytest.raises(UserError, match="captions = 3, clusters = 4"):
        FiguresSuite(["ToySTS"], captions=3, clusters=4)
    with pytest.raises(UserError, match="queries = 0"):
        FiguresSuite(["ToySTS"], queries=0)
    with pytest.raises(UserError, match="has no task 'ToyST'"):
        FiguresSuite(["ToyST"])
