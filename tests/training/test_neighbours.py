"""Neighbours from the whole corpus: the search against loops, draws by seed and step, killed between
two searches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_trainer import TRAINING, assert_same, sentences
from torch import Tensor
from toy_trainers import stopped_and_resumed

from harness.corpora.tokens import Tokens, Utf8, get_tokens
from harness.encoders.student import Student
from harness.errors import UserError
from harness.losses.contrastive import info_nce_hard
from harness.method import Feature, Neighbours, SentenceBatch
from harness.registry import get
from harness.toy import student_folder
from harness.toy.corpora import ToySentences
from harness.training.build import build_method
from harness.training.neighbours import NONE, NearRows, find_by_index, find_exactly
from harness.training.streams import Subset, TrainingData
from harness.training.trainer import Trainer

SimCSE: Any = get("method", "simcse")
CPU = torch.device("cpu")


def drawn_vectors(rows: int, width: int = 8) -> np.ndarray:
    vectors = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_exact_search_is_that_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.training.neighbours.CELLS", 100)  # blocks of two queries
    vectors = drawn_vectors(40)
    texts = np.arange(40) // 2
    images = np.arange(40) // 5
    queries = np.array([3, 0, 39, 17, 18])
    found = find_exactly(vectors, queries, [texts, images], 36, CPU)
    for query, row in zip(queries.tolist(), found.tolist(), strict=True):
        others = [
            other
            for other in range(40)
            if texts[other] != texts[query] and images[other] != images[query]
        ]
        others.sort(key=lambda other: -float(vectors[other] @ vectors[query]))
        assert row == others + [NONE] * (36 - len(others))


def test_an_index_finds_most_of_the_nearest_rows_and_the_same_again() -> None:
    pytest.importorskip("faiss")
    vectors = drawn_vectors(3000)
    groups = [np.arange(3000) // 3]
    queries = np.arange(0, 3000, 7)
    found = find_by_index(vectors, queries, groups, 10, CPU)
    np.testing.assert_array_equal(find_by_index(vectors, queries, groups, 10, CPU), found)
    assert (found != NONE).all()
    assert (groups[0][found] != groups[0][queries][:, None]).all()
    exact = find_exactly(vectors, queries, groups, 10, CPU)
    shared = [len({*some} & {*others}) for some, others in zip(found, exact, strict=True)]
    assert np.mean(shared) > 7

    few = find_by_index(vectors[:50], np.array([4]), [np.arange(50) // 25], 30, CPU)
    assert sorted(few[0, :25]) == list(range(25, 50))
    assert (few[0, 25:] == NONE).all()


class Near(SimCSE):
    """SimCSE with the negatives that the present encoder finds, anew every three steps."""

    wanted = Neighbours(count=2, among=5, every=3)
    seen: list[Any] = []

    @classmethod
    def neighbours(cls, hyperparameters: Any) -> dict[str, Neighbours]:
        return {"negatives": cls.wanted}

    def loss_terms(self, batch: Any, encode: Any) -> dict[str, Tensor]:
        rows = encode(batch.tokens, 2)
        near = encode(batch.changed["negatives"], 1)[:, 0]
        near = near.view(2, len(rows), -1)
        self.seen.append(batch)
        return {"text": sum(info_nce_hard(rows[:, 0], rows[:, 1], each, 0.05) for each in near)}


class Frozen(Near):
    """The same by a frozen model, once."""

    wanted = Neighbours(by="guide", count=2, among=5)

    @classmethod
    def features(cls, hyperparameters: Any) -> dict[str, Feature]:
        return {"guide": Feature("toy-bert", "model")}


def make(folder: Path, kind: Any = Near, rows: np.ndarray | None = None) -> Trainer:
    values = kind.configure("paper", {})
    student = Student.load(student_folder(), values.pooling, own_head=False)
    source = ToySentences(size=40)
    texts = get_tokens(source.fingerprint(None), lambda: source.texts(None), Utf8(), 32)
    data = TrainingData(
        sentences(student),
        texts={"sentences": Tokens([texts], 0)},
        subsets={} if rows is None else {"sentences": Subset(rows, steps_of_all=False)},
    )
    models = {"guide": Student.load(student_folder(), "mean").eval()} if kind is Frozen else {}
    method = build_method(kind, values, student, data, 0, {}, models)

    def dev(embed: Any) -> float:
        return float(embed(["the plain red circle at the left by noon"]).sum())

    return Trainer(
        student,
        method,
        data,
        TRAINING,
        seed=0,
        setting="toy",
        dev=dev,
        folder=folder,
        models=models,
    )


@pytest.mark.parametrize("kind", [Near, Frozen])
def test_a_training_killed_between_two_searches_ends_the_same(
    tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = NearRows._search

    def noted(near: NearRows, stream: Any, step: int, end: int | None) -> Any:
        searched.append(step)
        return search(near, stream, step, end)

    monkeypatch.setattr(NearRows, "_search", noted)
    whole = make(tmp_path / "whole", kind)
    whole.run()
    steps = [0, 3] if kind is Near else [0]
    assert searched == steps

    searched.clear()
    assert_same(stopped_and_resumed(lambda: make(tmp_path / "parts", kind), 5), whole)
    assert searched == steps  # what was found before the kill is in the checkpoint


def test_neighbours_are_near_rows_of_the_rows_that_the_run_uses(tmp_path: Path) -> None:
    used = np.arange(4, 36)
    training = make(tmp_path, rows=used)
    texts = list(ToySentences(size=40).texts(None))
    vectors = training.student.embed(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ((_, batch),) = training.batches.take(1)
    assert isinstance(batch, SentenceBatch)
    stream, rows = training.batches.get_text_rows(1)
    drawn = training.batches.near["negatives"].draw(stream, rows, 1)
    assert drawn.shape == (2 * len(rows),)
    for row, near in zip(rows.tolist(), drawn.reshape(2, -1).T.tolist(), strict=True):
        others = [other for other in used.tolist() if texts[other] != texts[row]]
        others.sort(key=lambda other: -float(vectors[other] @ vectors[row]))
        assert {*near} <= {*others[:5]}
        assert len({*near}) == 2

    tokens = training.batches.data.tokens["sentences"].batch(drawn)
    assert torch.equal(batch.changed["negatives"]["input_ids"], tokens["input_ids"])
    near = training.batches.near["negatives"]
    assert near.draw(stream, rows, 1).tolist() == drawn.tolist()
    assert near.draw(stream, rows, 2).tolist() != drawn.tolist()


def test_too_few_neighbours_and_wrong_numbers_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"negatives: 2 of 2 rows of sentences have fewer than 2"):
        next(make(tmp_path, rows=np.array([0, 1])).batches.take(0))
    for wrong, says in {
        (1, 0, 0): "count=1 neighbours are drawn among 0",
        (3, 2, 0): "count=3 neighbours are drawn among 2",
        (1, 1, -1): "every -1 steps",
    }.items():
        with pytest.raises(UserError, match=says):
            Neighbours("student", *wrong)
    with pytest.raises(UserError, match="finds the same neighbours again"):
        Neighbours("guide", every=5)
