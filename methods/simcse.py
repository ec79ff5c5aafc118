"""SimCSE, unsupervised (Gao et al., EMNLP 2021), as MCSE section 3.1 restates it.

A sentence passes the encoder twice; the two dropout masks make its positive pair, the other
sentences of the batch are the negatives. The [CLS] vector passes a one-layer tanh head in training
and is read before that head afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import info_nce
from harness.method import Batch, Dimensions, Encode, Hyperparameters, Method, Stream, hyper


@dataclass(frozen=True)
class SimCSEHyperparameters(Hyperparameters):
    """SimCSE's own values."""

    temperature: float = hyper(0.05, source="SimCSE section 3; MCSE appendix A")


class SimCSE(Method):
    """L_text (SimCSE Eq. 1; MCSE Eq. 1): InfoNCE between two dropout views, in one direction.

    On captions it learns from the sentence alone, so that in a mixed setting it sees the very
    batches that MCSE sees.
    """

    name = "simcse"
    paper = "Gao et al., SimCSE: Simple Contrastive Learning of Sentence Embeddings, EMNLP 2021"
    streams: ClassVar[tuple[Stream, ...]] = ("sentences",)
    terms: ClassVar[tuple[str, ...]] = ("text",)
    readings = {
        "paper": "Eq. 1; the profile 'paper' trains it as MCSE Table 3 does",
        "official": "the same loss; the profile 'paper' trains it as SimCSE's public script does (1 epoch, fp16)",
    }
    Hyperparameters = SimCSEHyperparameters

    def __init__(self, hyperparameters: SimCSEHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: InfoNCE over the two views of each sentence."""
        first, second = by_view(self.text_head, encode(batch.tokens, 2))
        return {"text": info_nce(first, second, self.hyperparameters.temperature)}
