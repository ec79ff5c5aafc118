"""Trials of methods that change the encoder, each in a file of its author."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import result
from executor_jobs import experiment
from trial import Trial, check_refused

from harness.method import by_batches
from harness.method.conformance import check_all
from harness.method.lookup import find_methods, find_variants
from harness.runs.inputs import load_training_inputs
from harness.runs.train import describe_mixing
from harness.store.batches import batches_of
from harness.training.batching import make_mixing
from harness.training.build import build_method
from harness.training.record import TrainingError
from harness.training.trainer import Trainer

METHOD = '''
"""SimCSE with another encoder."""
from dataclasses import dataclass
import torch
from harness.losses.contrastive import info_nce
from harness.method import Hyperparameters, Method, hyper


@dataclass(frozen=True)
class Values(Hyperparameters):
    """One value."""

    added: float = hyper(0.5, source="a trial")


class Mine(Method):
    """text of two views."""

    name = "NAME"
    paper = "a trial"
    terms = ("text",)
    Hyperparameters = Values

    def __init__(self, hyperparameters, dimensions):
        super().__init__(hyperparameters, dimensions)
        self.head = torch.nn.Linear(dimensions.encoder, dimensions.encoder)

CHANGE

    def loss_terms(self, batch, encode):
        vectors = self.head(encode(batch.tokens, 2))
        return {"text": info_nce(vectors[:, 0], vectors[:, 1], 0.05)}
'''
WRAPPED = """
    def prepare(self, student, vocabulary, models):
        attention = student.model.encoder.layer[0].attention.self
        attention.query = torch.nn.Sequential(attention.query)
        self.added = self.hyperparameters.added
"""
LEFT_IN_EVALUATION = """
    def after_step(self, student, step):
        self.added = self.hyperparameters.added
        student.eval()
"""
HOOKED = """
    def prepare(self, student, vocabulary, models):
        student.model.embeddings.register_forward_hook(
            lambda module, inputs, states: (
                states + self.hyperparameters.added if module.training else None
            )
        )
"""


def write_method(name: str, change: str) -> Callable[[Path], object]:
    code = METHOD.replace("NAME", name).replace("CHANGE", change)
    return lambda folder: (folder / f"{name}.py").write_text(code)


def check_problems(name: str, *words: str) -> Callable[[Path], None]:
    """A check that finds these words, or no problem without words."""

    def check(folder: Path) -> None:
        (method,) = find_methods(str(folder / f"{name}.py"))
        problems = [line for checked in check_all(method) for line in checked.problems]
        assert bool(problems) == bool(words), problems
        assert [word for word in words if not any(word in line for line in problems)] == []

    return check


LEFT_ON = """
    def prepare(self, student, vocabulary, models):
        self.added = self.hyperparameters.added
        student.model.encoder.layer[0].register_forward_hook(
            lambda module, inputs, states: (
                states / 2 if hasattr(states, "shape") else (states[0] / 2, *states[1:])
            )
        )
"""


def check_saved_score(folder: Path) -> None:
    """A model whose hook stays on at test has another dev score once it is read from its files."""
    (method,) = find_methods(str(folder / "staying.py"))
    asked = experiment("simcse/toy-text/toy-bert/seed-0", steps=4, eval_every=2, batch_size=8)
    inputs = load_training_inputs(asked, "cpu", {})
    heads = build_method(method, method.configure("paper"), inputs.student, inputs.data, 0, {})
    trainer = Trainer(
        inputs.student,
        heads,
        inputs.data,
        asked.resolved.training,
        seed=0,
        setting="toy-text",
        dev=inputs.dev,
        folder=folder / "work",
    )
    with pytest.raises(TrainingError, match=r"in its training, and .* loaded from its files"):
        trainer.run()


GROWING = """
        self.register_buffer("past", torch.zeros(0, dimensions.encoder))

    def after_step(self, student, step):
        self.added = self.hyperparameters.added
        self.past = torch.cat([self.past, torch.zeros(1, self.past.shape[1])])
"""


def check_values_of_a_variant(folder: Path) -> None:
    """A name with values in brackets is a method, not a package."""
    (method,) = find_variants("simcse[temperature=0.3]")
    assert method.configure("paper").temperature == 0.3
    line = check_refused(lambda: find_variants("simcse[temprature=0.3]"), "temperature")
    assert "ModuleNotFoundError" not in line


def check_shared_batches(folder: Path) -> None:
    """The batches of an author's method are those of `mcse` by its rule, whatever its file holds."""

    def batches(variant: str, code: dict[str, str]) -> str:
        values = {"method": {}, "training": {"batch_size": 64, "steps": 60}, "encoder": {}}
        identity = {"corpora": ["wiki", "flickr"], "code": code}
        mixing = describe_mixing(make_mixing(1000, 200, 64, by_batches))
        return batches_of(
            result(variant, 0, hyperparameters=values, identity=identity, mixing=mixing)
        )

    paired = batches("mcse", {})
    assert paired != ""
    for content in ("the hash of its file", "the hash after a comment was added"):
        assert batches("mine", {"method mine": content}) == paired


TRIALS = [
    Trial("4/W4", lambda folder: None, check_values_of_a_variant),
    Trial(
        "4/W5",
        write_method("growing", GROWING),
        check_problems("growing", "give it its full size in __init__"),
    ),
    Trial(
        "5/S1",
        write_method("wrapping", WRAPPED),
        check_problems("wrapping", "encoder.layer.0.attention.self.query"),
    ),
    Trial("5/S2", write_method("staying", LEFT_ON), check_saved_score),
    Trial(
        "5/S3",
        write_method("sleeping", LEFT_IN_EVALUATION),
        check_problems("sleeping", "a step leaves the encoder in evaluation mode"),
    ),
    Trial("5/S4", write_method("hooked", HOOKED), check_problems("hooked")),
    Trial("5/S5", lambda folder: None, check_shared_batches),
]
