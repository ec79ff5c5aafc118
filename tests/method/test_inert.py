"""A weight without a second term scales the whole loss, which Adam and clipping undo."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from harness.method.declared import get_declared_method
from harness.method.inert import compute_weight_factors, describe_inert_weights, find_inert_options
from harness.registry import get
from harness.spec import Stream


@pytest.mark.parametrize(
    ("method", "reading", "streams", "inert"),
    [
        ("kdmcse", "paper", {"pairs"}, ["lambda"]),
        ("kdmcse", "paper", {"sentences", "pairs"}, []),
        ("kdmcse", "official", {"pairs"}, []),
        ("mcse", "paper", {"pairs"}, []),
        ("visualcse", "paper", {"sentences", "images"}, ["image_weight"]),
        ("simcse", "paper", {"sentences"}, []),
    ],
)
def test_a_weight_is_inert_where_all_terms_of_every_step_have_it(
    method: str, reading: str, streams: Collection[Stream], inert: list[str]
) -> None:
    assert get_declared_method(method).inert_options(reading, ({},), streams) == inert


def test_a_weight_of_one_of_two_terms_matters() -> None:
    factors = compute_weight_factors(
        get("method", "mcse"), get("method", "mcse").configure("paper")
    )
    assert factors["pairs"] == {"lambda": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("factors", "own", "inert"),
    [
        ({"pairs": {"a": [2.0]}, "sentences": {"a": [2.0]}}, (), ["a"]),
        ({"pairs": {"a": [2.0]}, "sentences": {}}, (), []),
        ({"images": {"a": [2.0]}, "sentences": {}}, ("images",), ["a"]),
        ({"images": {"a": [1.0, 2.0]}, "sentences": {}}, ("images",), []),
    ],
)
def test_streams_with_one_optimizer_are_judged_together(
    factors: Mapping[Stream, Mapping[str, list[float]]], own: Collection[Stream], inert: list[str]
) -> None:
    assert find_inert_options(factors, list(factors), own) == inert


def test_the_check_of_a_method_says_so() -> None:
    (note,) = describe_inert_weights(get("method", "kdmcse"))
    assert note.startswith("@paper: lambda changes nothing on pairs alone")
    assert list(describe_inert_weights(get("method", "mcse"))) == []
