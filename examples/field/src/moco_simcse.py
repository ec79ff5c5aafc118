"""SimCSE with a momentum encoder and a queue, as MoCo (He et al., CVPR 2020) has them for images.

The second view of a sentence comes from a copy of the encoder that follows it slowly and gets no gradient. Its vectors
of earlier batches wait in a queue and are further negatives.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.encoders.heads import TanhHead
from harness.losses.contrastive import cosine_matrix, cross_entropy_diagonal
from harness.method import Batch, Dimensions, Encode, Hyperparameters, Method, Student, Vocabulary, hyper


@dataclass(frozen=True)
class MoCoHyperparameters(Hyperparameters):
    """Hyperparameters of the momentum encoder and its queue."""

    temperature: float = hyper(0.05, above=0, source="SimCSE section 3")
    momentum: float = hyper(0.995, at_least=0, source="ESimCSE, momentum contrast", unit="of the second encoder")
    queue: int = hyper(160, at_least=1, source="ESimCSE: 2.5 batches of 64", unit="rows of earlier batches")


def queued_info_nce(rows: Tensor, positives: Tensor, queue: Tensor, filled: Tensor, temperature: float) -> Tensor:
    """InfoNCE: row i must find positive i among N positives and the first `filled` rows of the queue.

    Shapes (N, d), (N, d), (Q, d), () -> scalar, the mean over rows.
    """
    near, far = cosine_matrix(rows, positives) / temperature, cosine_matrix(rows, queue) / temperature
    empty = torch.arange(len(queue), device=queue.device) >= filled
    return cross_entropy_diagonal(torch.cat([near, far.masked_fill(empty, -torch.inf)], dim=1))


class MoCoSimCSE(Method):
    """MoCo Eq. 1 over sentences: the positive is the momentum encoder's view, negatives are its batch and its queue."""

    name = "moco-simcse"
    title = "MoCo-SimCSE"
    paper = "He et al., Momentum Contrast for Unsupervised Visual Representation Learning, CVPR 2020, over sentences"
    terms = ("text",)
    readings = {"paper": "MoCo Eq. 1 and 2, with the heads and views of SimCSE"}
    decisions = {"negatives": ("mended", "the batch and the queue, as in ESimCSE; MoCo's public code: the queue alone")}
    Hyperparameters = MoCoHyperparameters
    aside = ("encoder", "head", "queue", "filled")

    def __init__(self, hyperparameters: MoCoHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)
        self.head = copy.deepcopy(self.text_head).requires_grad_(False)
        self.register_buffer("queue", torch.zeros(hyperparameters.queue, dimensions.encoder))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    def prepare(self, student: Student, vocabulary: Vocabulary, models: Mapping[str, Student]) -> None:
        """Copy the encoder."""
        self.encoder = student.second()

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: from the encoder's view to the momentum encoder's, beside the queue."""
        rows = self.text_head(encode(batch.tokens, 1)[:, 0])
        self.fresh = self.slow(batch.tokens)
        return {"text": self.contrast(rows, self.fresh)}

    @torch.no_grad()
    def slow(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """The momentum encoder's vectors of B rows, through its head: (B, d)."""
        vectors: Tensor = self.head(self.encoder(tokens, 1)[:, 0])
        return vectors

    def contrast(self, rows: Tensor, positives: Tensor) -> Tensor:
        return queued_info_nce(rows, positives, self.queue, self.filled, self.hyperparameters.temperature)

    def after_step(self, student: Student, step: int) -> None:
        """MoCo Eq. 2 for encoder and head; the batch joins the queue, whose oldest rows leave it."""
        momentum = self.hyperparameters.momentum
        self.encoder.follow(student, momentum)
        torch._foreach_lerp_([*self.head.parameters()], [*self.text_head.parameters()], 1 - momentum)
        self.queue.copy_(torch.cat([self.fresh.to(self.queue.dtype), self.queue])[: len(self.queue)])
        self.filled.add_(len(self.fresh)).clamp_(max=len(self.queue))
