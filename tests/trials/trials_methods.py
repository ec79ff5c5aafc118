"""Trials of methods that change the encoder, each in a file of its author."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trial import Trial

from harness.method.conformance import check_all, methods_in

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
        (method,) = methods_in(str(folder / f"{name}.py"))
        problems = [line for checked in check_all(method) for line in checked.problems]
        assert bool(problems) == bool(words), problems
        assert [word for word in words if not any(word in line for line in problems)] == []

    return check


TRIALS = [
    Trial(
        "5/S1",
        write_method("wrapping", WRAPPED),
        check_problems("wrapping", "encoder.layer.0.attention.self.query"),
    ),
    Trial(
        "5/S3",
        write_method("sleeping", LEFT_IN_EVALUATION),
        check_problems("sleeping", "a step leaves the encoder in evaluation mode"),
    ),
    Trial("5/S4", write_method("hooked", HOOKED), check_problems("hooked")),
]
