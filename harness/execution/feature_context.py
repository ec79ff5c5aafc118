"""How the teacher features of one run are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.encoders.locate import ModelSource
from harness.execution.events import Preparation
from harness.execution.inventory import Ingredient


class TrainedModels(Protocol):
    """The finished runs that are teachers."""

    def folder(self, fingerprint: str) -> Path:
        """The model folder of a run, which is trained first if it has to be."""


@dataclass(frozen=True)
class FeatureContext:
    """For which student features are computed, where, and with which finished runs as teachers.

    `max_length` is the number of tokens that teachers of captions read, special ones included.
    """

    student: Ingredient[ModelSource]
    max_length: int
    device: str
    models: TrainedModels
    listen: Callable[[Preparation], None]
