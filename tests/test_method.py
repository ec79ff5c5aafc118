"""The Method interface, and the battery that every registered method passes."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from harness.errors import UserError
from harness.method import Batch, Dimensions, MediaBatch, Method, PairBatch, SentenceBatch, TripletBatch
from harness.registry import get, names

METHODS = names("method")
#: methods with terms that only an option brings
OPTIONAL_TERMS = ("kdmcse",)


def built(name: str, reading: str = "paper", **options: object) -> Method:
    method = get("method", name)
    hyperparameters = method.configure(reading, options)
    roles = method.features(hyperparameters)
    return method(hyperparameters, Dimensions(8, dict.fromkeys(roles, 8)))


def batches(method: Method) -> list[Batch | MediaBatch]:
    """A batch of each stream that the method reads, of six rows."""
    tokens = {"attention_mask": torch.tensor([[1] * 5, [1, 1, 1, 0, 0]] * 3)}
    shapes = {"image": (6, 8), "caption": (6, 8), "tokens": (6, 7, 8)}
    features = {
        role: torch.randn(shapes[wanted.of]) for role, wanted in method.features(method.hyperparameters).items()
    }
    made: dict[str, Batch | MediaBatch] = {
        "sentences": SentenceBatch(tokens),
        "pairs": PairBatch(tokens, features),
        "triplets": TripletBatch(tokens),
        "images": MediaBatch({"pixels": torch.randn(6, 2, 3, 4, 4)}, torch.tensor([0, 0, 1, 2, 2, 2])),
        "audio": MediaBatch({"spectrograms": torch.randn(6, 9, 4)}, torch.tensor([0, 0, 1, 2, 2, 2])),
    }
    return [made[stream] for stream in method.streams]


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
    every: set[str] = set()
    for reading in method.readings:
        one = built(name, reading)
        seen: set[str] = set()
        for batch in batches(one) if method.trains else []:
            total, terms = one.loss(batch, encode)
            assert total is not None
            assert torch.isfinite(total)
            assert all(value.ndim == 0 for value in terms.values())
            weighted = sum(one.weights().get(key, 1.0) * value for key, value in terms.items())
            torch.testing.assert_close(total, weighted)
            seen |= set(terms)
        assert seen <= set(method.terms)
        assert set(one.weights()) <= set(method.terms)
        every |= seen
    if name not in OPTIONAL_TERMS:
        assert every == set(method.terms)


@pytest.mark.parametrize(
    ("name", "reading", "term"),
    [
        (name, reading, term)
        for name in METHODS
        for reading in get("method", name).readings
        for term in get("method", name).terms
    ],
)
def test_every_term_can_be_left_out(name: str, reading: str, term: str) -> None:
    """Without a term the others are what they were, and a batch that has no other teaches nothing."""
    if len(get("method", name).terms) == 1:
        with pytest.raises(UserError, match="no loss term"):
            built(name, reading, without=term)
        return
    torch.manual_seed(0)
    whole, less = built(name, reading), built(name, reading, without=term)
    less.load_state_dict(whole.state_dict())
    for batch in batches(whole):
        torch.manual_seed(1)
        _, terms = whole.loss(batch, encode)
        torch.manual_seed(1)
        total, rest = less.loss(batch, encode)
        assert set(rest) == set(terms) - {term}
        assert (total is None) == (not rest)
        for key, value in rest.items():
            torch.testing.assert_close(value, terms[key])


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
