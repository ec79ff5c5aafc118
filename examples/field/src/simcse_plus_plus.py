"""SimCSE++ (Xu et al., EMNLP 2023): negatives without dropout noise, and a contrast of dimensions.

The two views of a sentence have dropout; the negatives of a sentence are those that the encoder gives without it. The
second term contrasts the dimensions of the two views over the batch, so that these do not repeat each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import cosine_matrix, cross_entropy_diagonal, in_float32
from harness.method import Batch, Dimensions, Encode, Hyperparameters, Method, hyper


@dataclass(frozen=True)
class SimCSEPlusPlusHyperparameters(Hyperparameters):
    """Hyperparameters of SimCSE++; defaults are those of its public code."""

    temperature: float = hyper(0.05, above=0, source="SimCSE++'s script")
    positive_ratio: float = hyper(0.9, above=0, source="SimCSE++'s public code", unit="factor of the positive's logit")
    dimension_temperature: float = hyper(5.0, above=0, source="SimCSE++'s public code", unit="of dimensions")
    dimension_weight: float = hyper(0.1, at_least=0, source="SimCSE++'s public code", unit="weight of dimensions")


@in_float32
def off_dropout_nce(first: Tensor, second: Tensor, off: Tensor, temperature: float, ratio: float) -> Tensor:
    """-log of exp(r s(z, z') / t) over its sum with exp(s(z_off, z_off of others) / t), (N, d) each: the mean."""
    positives = ratio * functional.cosine_similarity(first, second) / temperature
    itself = torch.eye(len(off), dtype=torch.bool, device=off.device)
    negatives = (cosine_matrix(off, off) / temperature).masked_fill(itself, -torch.inf)
    logits = torch.cat([positives.unsqueeze(1), negatives], dim=1)
    return (logits.logsumexp(dim=1) - positives).mean()


@in_float32
def dimension_nce(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """InfoNCE over dimensions: that of a view must find its own among the other's, (N, d) twice.

    Dimensions are standardised over the batch, and alike by the mean of their products.
    """
    views = [functional.batch_norm(view, None, None, training=True) for view in (first, second)]
    return cross_entropy_diagonal(views[0].T @ views[1] / len(first) / temperature)


class SimCSEPlusPlus(Method):
    """Off-dropout negatives and dimension-wise contrastive learning."""

    name = "simcse-plus-plus"
    title = "SimCSE++"
    paper = (
        "Xu et al., SimCSE++: Improving Contrastive Learning for Sentence Embeddings from Two Perspectives, "
        "EMNLP 2023"
    )
    terms = ("text", "dimensions")
    readings = {"paper": "both parts with the formulas and values of the public code"}
    decisions = {
        "negatives": ("code", "one pass more, without dropout and with a gradient; its own sentence is no negative"),
        "dimensions": ("code", "standardised over the batch without learned values; of the two views with dropout"),
    }
    Hyperparameters = SimCSEPlusPlusHyperparameters

    def __init__(self, hyperparameters: SimCSEPlusPlusHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    def weights(self) -> dict[str, float]:
        """The weight of the contrast of dimensions."""
        return {"dimensions": self.hyperparameters.dimension_weight}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: between sentences; dimensions: between the dimensions of their vectors."""
        values = self.hyperparameters
        first, second = by_view(self.text_head, encode(batch.tokens, 2))
        off = self.text_head(encode(batch.tokens, 1, dropout=0)[:, 0])
        return {
            "text": off_dropout_nce(first, second, off, values.temperature, values.positive_ratio),
            "dimensions": dimension_nce(first, second, values.dimension_temperature),
        }
