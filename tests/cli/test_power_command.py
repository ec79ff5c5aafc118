"""The `power` command."""

from __future__ import annotations

import pytest
from cli_words import Typed


def test_power_shows_the_seeds_needed_and_the_power_of_few(typed: Typed) -> None:
    code, out, _ = typed("power", "--effect", "0.5", "--std", "1", "--seeds", "64")
    assert code == 0
    assert "needs 64 seeds of each variant" in out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if "%" in line and "power" not in line}
    assert {name: row[0] for name, row in rows.items() if name.isdigit()}["64"] == "80%"
    assert [name for name in rows if name.isdigit()] == ["3", "5", "10", "20", "64"]
    assert rows["64"][1] == "0.499"


@pytest.mark.parametrize(
    "words", [("--effect", "0", "--std", "1"), ("--effect", "1", "--std", "-1"), ("--effect", "nan", "--std", "1")]
)
def test_power_refuses_nonsense_in_one_line(typed: Typed, words: tuple[str, ...]) -> None:
    code, _, err = typed("power", *words)
    assert (code, err.count("\n")) == (2, 1)
