"""Every value of this project's methods says where @paper has it from: the text, the public code, or a mended text."""

from __future__ import annotations

import pytest

from harness.inputs import OptionValue
from harness.method import method_named
from harness.registry import names

OWN = [name for name in names("method") if method_named(name).__module__.startswith("harness_methods.")]


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
