"""Hyperparameters of methods: layers, teachers, what is refused, and where @paper has each value
from.
"""

from __future__ import annotations

import pytest

from harness.errors import UserError
from harness.method import method_named
from harness.registry import list_registered

OWN = [
    name
    for name in list_registered("method")
    if method_named(name).__module__.startswith("harness_methods.")
]


def test_options_that_name_teachers_are_declared() -> None:
    declared = {
        name: method_named(name).Hyperparameters.teacher_options()
        for name in list_registered("method")
    }
    assert {name: options for name, options in declared.items() if options} == {
        "mcse": {"images", "text_teacher"},
        "kdmcse": {"images", "text"},
        "dalr": {"image", "text"},
        "none": {"teacher"},
    }


def test_later_layers_win_and_texts_become_numbers() -> None:
    mcse = method_named("mcse")
    values = mcse.configure("paper", {"lambda": 0.5, "projection_dim": 64}, {"lambda": "0.25"})
    assert (values.lambda_, values.projection_dim, values.named()["lambda"]) == (0.25, 64, 0.25)


@pytest.mark.parametrize(
    ("reading", "options", "message"),
    [
        ("fixed", {}, "has no reading '@fixed'; it has @paper, @official"),
        ("paper", {"lamda": 1}, "no option 'lamda'; did you mean lambda"),
        ("paper", {"lambda": "much"}, "must be of type float"),
        ("paper", {"projection_dim": "2.5"}, "must be of type int"),
        ("paper", {"view_reduction": "max"}, "must be one of sum, mean"),
        ("paper", {"without": "rank"}, "no loss term 'rank'; it has text, info"),
        ("paper", {"without": "info+text"}, "leaves mcse no loss term"),
        ("paper", {"lambda": "inf"}, "finite"),
    ],
)
def test_a_wrong_reading_or_option_is_refused(
    reading: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        method_named("mcse").configure(reading, options)


@pytest.mark.parametrize("name", OWN)
def test_every_origin_is_stated_and_where_it_is_the_public_code_the_readings_agree(
    name: str,
) -> None:
    """A value of @paper that is the public code's must be that of @official."""
    method = method_named(name)
    options = method.Hyperparameters.options()
    assert [option for option, item in options.items() if not item.metadata["origin"]] == []
    readings = [reading for reading in ("paper", "official") if reading in method.readings]
    paper, official = (method.configure(reading).named() for reading in (readings[0], readings[-1]))
    decided = [option for option, item in options.items() if item.metadata["origin"] == "code"]
    assert {option: paper[option] for option in decided} == {
        option: official[option] for option in decided
    }
