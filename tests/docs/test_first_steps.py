"""The outputs on docs/first-steps.md are those of its commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from outputs import PAGE, REFERENCE, copy_runs, missing_runs, outputs

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text)]


def words(text: str) -> list[str]:
    """The text without numbers and without what only lays it out."""
    return _NUMBER.sub("#", text).replace("─", "").split()


def test_the_outputs_are_those_of_the_commands(tmp_path: Path) -> None:
    """`python tests/docs/outputs.py` writes them anew."""
    copy_runs(REFERENCE, tmp_path / "results")
    if missing_runs(tmp_path / "results"):
        pytest.skip(
            "results/reference has no runs of the present code; the outputs of the page are not compared"
        )
    compared = list(outputs(PAGE.read_text(), tmp_path))
    assert len(compared) == 5
    for block, printed in compared:
        assert words(block.text) == words(printed)
        assert numbers(block.text) == pytest.approx(numbers(printed), rel=1e-3, abs=0.011)
