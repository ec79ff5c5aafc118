"""A sentence of a report's findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SentenceKind = Literal["lead", "untrained", "better", "worse", "mixed", "alone", "even", "untested", "control", "note"]


@dataclass(frozen=True)
class Sentence:
    """A sentence about a `place` (setting, encoder and profile, or a paper's table).

    Of one kind, sentences with more `weight` are more important: the size of a test's statistic.
    """

    place: str
    text: str
    kind: SentenceKind
    weight: float = field(default=0.0, compare=False)
