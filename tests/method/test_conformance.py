"""The conformance check: every registered method passes, a broken one fails in each point."""

from __future__ import annotations

import pytest
import torch

from harness.method import Batch, Encode, Method, MixingRule, method_named
from harness.method.conformance import check_method
from harness.registry import names


@pytest.mark.parametrize("name", names("method"))
def test_every_registered_method_keeps_its_declarations(name: str) -> None:
    method = method_named(name)
    assert method.name == name
    assert check_method(method) == []


class Broken(Method):
    """A method with one problem of each kind."""

    name = "broken"
    paper = ""
    terms = ("text", "info", "extra")
    optional_terms = ("other",)
    reading_values = {"official": {}}
    decisions = {"reduction": ("a guess", "means over the batch")}

    @classmethod
    def mixing(cls, hyperparameters: object) -> MixingRule:
        return lambda rows, pairs, batches, paired: (1, 1)

    def weights(self) -> dict[str, float]:
        return {"image": 2.0}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, torch.Tensor]:
        vectors = encode(batch.tokens, 1)
        terms = {"text": vectors, "new": vectors.sum() * 0, "info": vectors.sum() / 0}
        return terms if self.left_out == {""} else {**terms, "text": vectors + 1}


def test_the_conformance_check_finds_each_kind_of_problem() -> None:
    assert check_method(Broken) == [
        "paper is missing",
        "reading_values has @official, which is not in readings",
        "the decision on reduction has an unknown origin 'a guess'",
        "@paper: weights() has terms that are not declared",
        "@paper: the mixing rule returns place 1 of a cycle of 1",
        "@paper: the term 'text' is no finite scalar",
        "@paper: the term 'info' is no finite scalar",
        "@paper: without=info changes the values of other terms",
        "@paper: without=extra changes the values of other terms",
        "the optional term 'other' is not in terms",
        "the term 'extra' appears in no reading",
        "the term 'new' is not declared",
    ]
