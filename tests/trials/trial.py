"""A trial: small inputs that somebody had, and what is right of them.

A module `trials_*.py` in this folder holds a list `TRIALS`. A row that was wrong once is added with
its right value, which was computed or read without the harness, and is never removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.errors import UserError


@dataclass(frozen=True)
class Trial:
    """One row of the table of right values.

    `row` is the round of trials and the row of its list, such as '5/I2', with a word for one of
    several trials of a row. `make` writes the inputs into an empty folder, which is the working
    folder; `check` asserts what is right of them.
    """

    row: str
    make: Callable[[Path], object]
    check: Callable[[Path], object]


def check_refused(call: Callable[[], object], *words: str) -> str:
    """Assert that a call is refused in one line that has all of these words; return the line."""
    with pytest.raises(UserError) as refusal:
        call()

    line = str(refusal.value)
    assert [word for word in words if word not in line] == [], line
    return line
