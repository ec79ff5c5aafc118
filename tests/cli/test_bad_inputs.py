"""Inputs that a user may type by mistake: one line that says what to change, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_words import Typed

NAMES = ("methods", "settings", "encoders", "suites", "table", "figure", "paper", "readings")

REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    # an unset shell variable must not stand for the whole default grid
    *(((f"--{name}=",), f"--{name} is an empty text") for name in NAMES),
    *(((f"--{name}=,",), f"--{name} names nothing") for name in NAMES),
    (("--seeds=",), "--seeds is an empty text"),
    (("--results=",), "--results is an empty text"),
    (("--data-root=",), "--data-root is an empty text"),
    (("--set", "steps=5", "--set", "steps=6"), "--set gives steps twice"),
    (("--methods", "mcse[lambda=1,lambda=2]"), "sets 'lambda' twice"),
    (("--set", "steps=true"), "'steps' = True is refused"),
    (("--methods", "mcse[lambda=true]"), "'lambda' must be of type float"),
    (("--set", "batch_size=1"), "'batch_size' = 1 is refused"),
    (("--set", "temperature=0"), "'temperature' must be above 0"),
    (("--methods", "mcse[temperature=-0.05]"), "'temperature' must be above 0"),
    (("--methods", "mcse[lambda=-1]"), "'lambda' must be 0 or more"),
    (("--methods", "visualcse[image_batch_size=1]"), "'image_batch_size' must be 2 or more"),
    (("--set", "steps=5", "--set", "warmup_steps=5"), "warmup_steps = 5 leave none of 5 steps at the full rate"),
    (("--seeds", "999999999"), "more than 10,000 runs"),
    (("--seeds", "1" + "0" * 30), "are neither a number of seeds nor a list"),
)


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda value: " ".join(value)[:40])
def test_a_mistake_in_a_grid_is_one_line(typed: Typed, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    code, out, err = typed("run", "--profile", "tiny", "--dry-run", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
