"""The untrained baseline: an encoder as it comes, read by one of the usual poolings.

MCSE Table 1 and SimCSE report the mean of first and last layer of BERT and RoBERTa; a run of this
method trains nothing and is evaluated like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from harness.method import Batch, Encode, Hyperparameters, Method, hyper


@dataclass(frozen=True)
class UntrainedHyperparameters(Hyperparameters):
    """How to read the encoder."""

    pooling: str = hyper(
        "avg-first-last",
        source="MCSE section 4.2, footnote 4",
        unit="'first' is the embedding layer, as the papers' numbers have it",
        registered="pooling",
    )


class Untrained(Method):
    """No loss term and no head."""

    name = "none"
    paper = "no training; the off-the-shelf rows of Zhang et al., NAACL 2022, Table 1"
    streams = ()
    readings = {"paper": "the encoder as published"}
    Hyperparameters = UntrainedHyperparameters
    trains = False

    @classmethod
    def pooling(cls, hyperparameters: UntrainedHyperparameters) -> str:
        """The pooling asked for."""
        return hyperparameters.pooling

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """There is nothing to train."""
        return {}
