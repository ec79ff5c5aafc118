"""The untrained baseline: a pretrained encoder with one of the common poolings, or a text teacher in
its place.

MCSE Table 1 and SimCSE report the mean of the first and last layers of BERT and RoBERTa. A run of
this method is only evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from harness.method import Batch, Encode, Feature, Hyperparameters, Method, hyper


@dataclass(frozen=True)
class UntrainedHyperparameters(Hyperparameters):
    """Hyperparameters of the untrained baseline."""

    pooling: str = hyper(
        "avg-first-last",
        origin="text",
        source="MCSE section 4.2, footnote 4",
        unit="'first' is the embedding layer, as in the papers' numbers",
        registered="pooling",
    )
    teacher: str = hyper(
        "none",
        origin="control",
        source="what KDMCSE's and DALR's students learn from, alone",
        unit="text teacher whose vectors are evaluated in place of the encoder's, or 'none'",
        teacher=True,
        later=True,
    )
    # an encoder without training has no dropout to set
    dropout: ClassVar[float] = -1.0  # type: ignore[misc]
    attention_dropout: ClassVar[float] = -1.0  # type: ignore[misc]


class Untrained(Method):
    """A pretrained encoder without training."""

    name = "none"
    title = "untrained"
    paper = "no training; the off-the-shelf rows of Zhang et al., NAACL 2022, Table 1"
    streams = ()
    readings = {"paper": "the encoder as published"}
    Hyperparameters = UntrainedHyperparameters
    trains = False

    @classmethod
    def features(cls, hyperparameters: UntrainedHyperparameters) -> dict[str, Feature]:
        """The caption features of the teacher that is evaluated, if one is named."""
        if hyperparameters.teacher == "none":
            return {}
        return {"caption": Feature(hyperparameters.teacher, "caption")}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        return {}
