"""The second modality of VisualCSE and AudioCSE (Jian et al., NeurIPS 2022, section 3.3).

Images or recordings, unrelated to the sentences, pass the layers of the text encoder as sequences of patches. Their
loss clusters them by class. It has its own optimizer, and a step for every text step (Algorithm 1). The other base
class is a text method, whose loss is unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import info_nce
from harness.losses.supcon import class_rank_cross_entropy, cross_view_supcon, supcon
from harness.method import Dimensions, Encode, MediaBatch, Method, OwnSteps, Stream

CONTRASTS = ("supcon", "simclr")
#: forms of supcon: the logarithm of a ratio (Eq. 4), class ranks (public code), Khosla et al. 2020
FORMS = ("ratio", "class-rank", "khosla")


@dataclass(frozen=True)
class SecondModality:
    """A second modality: its stream, its loss term and its training values."""

    stream: Stream
    term: str
    weight: float
    temperature: float
    contrast: str
    form: str
    steps: OwnSteps
    #: whether the modality's head is applied after the text head
    stacked: bool = False


class Unpaired(Method):
    """L = L_text + omega L_other (NonLing Eq. 1), in alternating steps (Algorithm 1)."""

    paper = "Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022"
    readings = {
        "paper": "Algorithm 1: text step, then media step; Eq. 4 to 6 with the positives in the denominator",
        "official": "the public code: media step first, cosine decay, and as target the rank of a class in the batch",
        "fixed": "as @paper, with the supervised contrastive loss cited for Eq. 4 (Khosla et al. 2020)",
    }
    text_head: nn.Module

    def __init__(self, hyperparameters: Any, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.media_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    @classmethod
    def second(cls, values: Any) -> SecondModality:
        """The second modality."""
        raise NotImplementedError

    @classmethod
    def own_steps(cls, hyperparameters: Any) -> dict[Stream, OwnSteps]:
        """The steps of the second modality."""
        second = cls.second(hyperparameters)
        return {second.stream: second.steps}

    def weights(self) -> dict[str, float]:
        """omega; of little effect with separate optimizers, since AdamW's steps do not depend on the loss's scale."""
        second = self.second(self.hyperparameters)
        return {second.term: second.weight}

    def media_terms(self, batch: MediaBatch, encode: Encode) -> dict[str, Tensor]:
        """The contrastive loss over two views of each item, clustered by class."""
        second = self.second(self.hyperparameters)
        vectors = encode(batch.inputs, 2)
        if second.stacked:
            vectors = self.text_head(vectors)
        first, other = by_view(self.media_head, vectors)
        return {second.term: contrast(first, other, batch.labels, second)}


def contrast(first: Tensor, other: Tensor, labels: Tensor, second: SecondModality) -> Tensor:
    """The contrastive loss over two views of B items, (B, d) each, and their classes, (B,)."""
    temperature = second.temperature
    if second.form == "khosla":
        return supcon(first, other, None if second.contrast == "simclr" else labels, temperature)
    if second.contrast == "simclr":
        return info_nce(first, other, temperature)
    if second.form == "class-rank":
        return class_rank_cross_entropy(first, other, labels, temperature)
    return cross_view_supcon(first, other, labels, temperature)
