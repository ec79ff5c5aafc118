"""The Method interface, and the battery that every registered method passes."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from harness.errors import UserError
from harness.method import Dimensions, Method, PairBatch, SentenceBatch
from harness.registry import get, names

METHODS = names("method")


def built(name: str, reading: str = "paper", **options: object) -> Method:
    method = get("method", name)
    hyperparameters = method.configure(reading, options)
    roles = method.features(hyperparameters)
    return method(hyperparameters, Dimensions(8, dict.fromkeys(roles, 5)))


def batches(method: Method) -> list[SentenceBatch | PairBatch]:
    roles = method.features(method.hyperparameters)
    return [SentenceBatch({}), PairBatch({}, {role: torch.randn(6, 5) for role in roles})]


def encode(tokens: object, views: int) -> torch.Tensor:
    return torch.randn(6, views, 8, requires_grad=True)


@pytest.mark.parametrize("name", METHODS)
def test_the_battery(name: str) -> None:
    """Every method: documented, every value sourced, every reading builds, terms finite and as declared."""
    method = get("method", name)
    assert issubclass(method, Method)
    assert method.name == name
    assert method.__doc__
    assert method.paper
    assert "paper" in method.readings
    assert set(method.reading_values) <= set(method.readings)
    for item in dataclasses.fields(method.Hyperparameters):
        assert item.metadata["source"], f"{item.name} has no source"
    for reading in method.readings:
        one = built(name, reading)
        seen: set[str] = set()
        for batch in batches(one) if method.trains else []:
            total, terms = one.loss(batch, encode)
            assert torch.isfinite(total)
            assert all(value.ndim == 0 for value in terms.values())
            weighted = sum(one.weights().get(key, 1.0) * value for key, value in terms.items())
            torch.testing.assert_close(total, weighted)
            seen |= set(terms)
        assert seen == set(method.terms)
        assert set(one.weights()) <= set(method.terms)


@pytest.mark.parametrize(("name", "term"), [(name, term) for name in METHODS for term in get("method", name).terms])
def test_every_term_can_be_left_out(name: str, term: str) -> None:
    method = built(name, without=term)
    if len(method.terms) == 1:
        with pytest.raises(UserError, match="no loss term"):
            method.loss(batches(method)[1], encode)
        return
    _, terms = method.loss(batches(method)[1], encode)
    assert set(terms) == set(method.terms) - {term}


def test_later_layers_win_and_texts_become_numbers() -> None:
    mcse = get("method", "mcse")
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
        get("method", "mcse").configure("paper", options)
    assert "\n" not in str(refusal.value)


def test_an_unknown_reading_lists_those_there_are() -> None:
    with pytest.raises(UserError, match="has no reading '@fixed'; it has @paper, @official"):
        get("method", "mcse").configure("fixed")
