"""SimCSE, unsupervised (Gao et al., EMNLP 2021), as MCSE section 3.1 restates it.

A sentence is encoded twice with different dropout masks; the two vectors are a positive pair, and the other sentences
of the batch are negatives. In training, [CLS] passes a one-layer tanh head, which is dropped at test time.
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
    """Hyperparameters of SimCSE."""

    temperature: float = hyper(0.05, source="SimCSE section 3; MCSE appendix A")


class SimCSE(Method):
    """L_text (SimCSE Eq. 1; MCSE Eq. 1): InfoNCE between two dropout views, in one direction.

    Captions are treated as sentences, so that in a mixed setting it sees the same batches as MCSE.
    """

    name = "simcse"
    paper = "Gao et al., SimCSE: Simple Contrastive Learning of Sentence Embeddings, EMNLP 2021"
    streams: ClassVar[tuple[Stream, ...]] = ("sentences",)
    terms: ClassVar[tuple[str, ...]] = ("text",)
    readings = {
        "paper": "Eq. 1; the profile 'paper' trains it with the values of MCSE Table 3",
        "official": "the same loss; the profile 'paper' trains it like SimCSE's public script (1 epoch, fp16)",
    }
    Hyperparameters = SimCSEHyperparameters

    def __init__(self, hyperparameters: SimCSEHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: InfoNCE between the two views of each sentence."""
        first, second = by_view(self.text_head, encode(batch.tokens, 2))
        return {"text": info_nce(first, second, self.hyperparameters.temperature)}
