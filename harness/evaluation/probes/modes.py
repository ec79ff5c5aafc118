"""The settings of SentEval's classifier that the papers' evaluation scripts know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: l2 weights, weakest first; of equally good ones the first is taken.
L2 = (1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class Mode:
    """Folds, rows a batch, failures to improve that are forgiven, and passes between two looks at the dev rows."""

    folds: int
    optimizer: Literal["adam", "rmsprop"]
    batch: int
    tenacity: int
    passes: int


_FAST = Mode(folds=5, optimizer="rmsprop", batch=128, tenacity=3, passes=2)
#: SimCSE's evaluation.py calls them 'fasttest', 'dev' and 'test'.
MODES = {
    "fast": _FAST,
    "dev": _FAST,
    "full": Mode(folds=10, optimizer="adam", batch=64, tenacity=5, passes=4),
}
