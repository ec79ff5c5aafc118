"""A sentence of a report's findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SentenceKind = Literal["untrained", "better", "worse", "mixed", "even", "untested", "control", "note"]


@dataclass(frozen=True)
class Sentence:
    """A sentence about a `place` (setting, encoder and profile, or a paper's table)."""

    place: str
    text: str
    kind: SentenceKind
