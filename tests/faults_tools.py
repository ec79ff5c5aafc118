"""What the fault suite shares: a small grid, and what must be equal whatever else went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
from harness.reporting.results import Results

#: runs of a second
SHORT: dict[str, Any] = {
    "profile": "tiny",
    "settings": "toy-text",
    "suites": "sts",
    "set": {"steps": 4, "eval_every": 2, "batch_size": 8},
}


def short_run(methods: str, results: Path, **how: Any) -> Results:
    """Runs of methods with one seed, or as `how` says."""
    return harness.run(methods=methods, results=results, **{**SHORT, "seeds": 1, **how})


def outcome(results: Results) -> dict[str, object]:
    """What must be equal bit for bit in two runs of one configuration: fingerprint, curves, scores; by key."""
    return {
        run.spec.key: (run.fingerprint, run.losses, run.dev, [one.scores for one in run.evaluations])
        for run in results.runs
    }
