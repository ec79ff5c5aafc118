"""Hyperparameters of methods: layers, teachers, what is refused, and where @paper has each value from."""

from __future__ import annotations

import pytest

from harness.errors import UserError
from harness.method import method_named
from harness.registry import names
from harness.spec import OptionValue

OWN = [name for name in names("method") if method_named(name).__module__.startswith("harness_methods.")]


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
        ({"lamda": 1}, "no option 'lamda'; did you mean lambda"),
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


@pytest.mark.parametrize("name", OWN)
def test_every_hyperparameter_states_its_origin(name: str) -> None:
    options = method_named(name).Hyperparameters.options()
    assert [option for option, item in options.items() if not item.metadata["origin"]] == []


@pytest.mark.parametrize(
    ("name", "option", "value", "origin"),
    [
        ("mcse", "view_reduction", "sum", "text"),
        ("kdmcse", "view_reduction", "mean", "code"),
        ("kdmcse", "mixing", "ceil", "mended"),
        ("dalr", "targets", "raw", "code"),
    ],
)
def test_the_policy_of_readings(name: str, option: str, value: OptionValue, origin: str) -> None:
    """Text where it is explicit, typos corrected; the public code where it is silent or ambiguous."""
    method = method_named(name)
    assert method.configure("paper").named()[option] == value
    assert method.Hyperparameters.options()[option].metadata["origin"] == origin


@pytest.mark.parametrize("name", OWN)
def test_where_the_public_code_decides_the_readings_agree(name: str) -> None:
    """A value of @paper that is the public code's must be that of @official."""
    method = method_named(name)
    if "official" not in method.readings:
        return
    paper, official = (method.configure(reading).named() for reading in ("paper", "official"))
    options = method.Hyperparameters.options()
    decided = [option for option, item in options.items() if item.metadata["origin"] == "code"]
    assert {option: paper[option] for option in decided} == {option: official[option] for option in decided}
