"""`harness ...` commands as text, and the values of --set."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from harness.command_line import DEFAULT_PROFILE, DEFAULT_RESULTS, harness_command, parse_overrides
from harness.errors import UserError


def test_options_are_in_the_order_given_quoted_and_without_defaults_and_empty_values() -> None:
    command = harness_command(
        "run", methods=["simcse", "mcse"], data_root=Path("data"), seeds=5, jobs=0
    )
    assert command == "harness run --methods simcse,mcse --data-root data --seeds 5 --jobs 0"
    defaults = {"profile": DEFAULT_PROFILE, "results": Path(DEFAULT_RESULTS)}
    assert (
        harness_command("status", **defaults, methods=[], encoders="", seeds=None, set={})
        == "harness status"
    )
    command = harness_command("run", methods=["dalr[text=a b]"], results="it's here")
    assert shlex.split(command) == [
        "harness",
        "run",
        "--methods",
        "dalr[text=a b]",
        "--results",
        "it's here",
    ]


def test_overrides_are_read_back_from_a_command() -> None:
    given = {"learning_rate": 1e-4, "steps": 6, "fp16": True, "text": "toy-clip"}
    words = shlex.split(harness_command("run", set=given))
    assert words[2::2] == ["--set"] * 4
    overrides = parse_overrides(words[3::2])
    assert overrides == given
    assert [type(value) for value in overrides.values()] == [float, int, bool, str]


@pytest.mark.parametrize("pair", ["steps", "steps=", "=6", " = "])
def test_a_pair_without_key_or_value_is_refused(pair: str) -> None:
    with pytest.raises(
        UserError, match="is not key=value; write for example --set learning_rate=1e-4"
    ):
        parse_overrides([pair])
