"""The Method interface, and the conformance of every registered method."""

from __future__ import annotations

import pytest
import torch

from harness.errors import UserError
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


@pytest.mark.parametrize("name", ["simcse", "simcse-sup"])
def test_the_only_term_cannot_be_left_out(name: str) -> None:
    with pytest.raises(UserError, match="no loss term"):
        method_named(name).configure("paper", {"without": "text"})


def test_options_that_name_teachers_are_declared() -> None:
    found = {name: method_named(name).Hyperparameters.teacher_options() for name in names("method")}
    assert {name: options for name, options in found.items() if options} == {
        "mcse": {"images", "text_teacher"},
        "kdmcse": {"images", "text"},
        "dalr": {"image", "text"},
    }


def test_later_layers_win_and_texts_become_numbers() -> None:
    mcse = method_named("mcse")
    values = mcse.configure("paper", {"lambda": 0.5, "projection_dim": 64}, {"lambda": "0.25"})
    assert (values.lambda_, values.projection_dim, values.named()["lambda"]) == (0.25, 64, 0.25)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lamda": 1}, "no option 'lamda'; valid: .*lambda"),
        ({"lambda": "much"}, "must be of type float"),
        ({"projection_dim": "2.5"}, "must be of type int"),
        ({"view_reduction": "max"}, "must be one of sum, mean"),
        ({"without": "rank"}, "no loss term 'rank'; it has text, info"),
        ({"lambda": "inf"}, "finite"),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as refusal:
        method_named("mcse").configure("paper", options)
    assert "\n" not in str(refusal.value)


def test_an_unknown_reading_lists_those_there_are() -> None:
    with pytest.raises(UserError, match="has no reading '@fixed'; it has @paper, @official"):
        method_named("mcse").configure("fixed")
