"""The settings of SentEval's classifier in the papers' evaluation scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: l2 weights, weakest first; ties: the first.
L2 = (1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class Mode:
    """Folds, batch size, tolerated failures to improve (tenacity), and passes between evaluations on dev rows."""

    folds: int
    optimizer: Literal["adam", "rmsprop"]
    batch: int
    tenacity: int
    passes: int


_FAST = Mode(folds=5, optimizer="rmsprop", batch=128, tenacity=3, passes=2)
#: called 'fasttest', 'dev' and 'test' in SimCSE's evaluation.py
MODES = {
    "fast": _FAST,
    "dev": _FAST,
    "full": Mode(folds=10, optimizer="adam", batch=64, tenacity=5, passes=4),
}
