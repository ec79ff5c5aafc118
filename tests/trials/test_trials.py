"""The table of right values: every trial of every `trials_*.py` beside this file."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from trial import Trial

TRIALS: list[Trial] = []
for path in sorted(Path(__file__).parent.glob("trials_*.py")):
    TRIALS += import_module(path.stem).TRIALS


@pytest.mark.parametrize("trial", TRIALS, ids=[trial.row for trial in TRIALS])
def test_what_was_wrong_once_is_right(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)

    trial.make(tmp_path)
    trial.check(tmp_path)


def test_a_row_has_one_name() -> None:
    counts = Counter(trial.row for trial in TRIALS)
    assert [row for row, count in counts.items() if count > 1] == []
