"""The second modality of VisualCSE and AudioCSE (Jian et al., NeurIPS 2022, section 3.3).

Images or recordings that belong to no sentence pass the encoder's own layers as sequences of patches.
Their loss clusters them by class, and has an optimizer and a step of its own beside every text step
(Algorithm 1). A text method, given as the other base class, keeps its loss untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import info_nce
from harness.losses.supcon import class_rank_cross_entropy, cross_view_supcon, supcon
from harness.method import Dimensions, Encode, MediaBatch, Method, OwnSteps, Stream

CONTRASTS = ("supcon", "simclr")
#: what 'supcon' means: one logarithm of a ratio (Eq. 4), the public code's class ranks, Khosla et al. 2020
FORMS = ("ratio", "class-rank", "khosla")
READINGS = {
    "paper": "Algorithm 1: text step, then the other; Eq. 4 to 6 with the positives in the denominator",
    "official": "the public code: the other step first, cosine decay, and a target that is a class's rank in the batch",
    "fixed": "as @paper with the supervised contrastive loss that Eq. 4 cites (Khosla et al. 2020)",
}


@dataclass(frozen=True)
class SecondModality:
    """What tells images from recordings: the stream, its loss term and the values it is trained with."""

    stream: Stream
    term: str
    weight: float
    temperature: float
    contrast: str
    form: str
    steps: OwnSteps
    #: whether the modality's head stands on the text head
    stacked: bool = False


class Unpaired(Method):
    """L = L_text + omega L_other (NonLing Eq. 1), taken in turns (Algorithm 1)."""

    readings = READINGS

    def __init__(self, hyperparameters: Any, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.media_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    @classmethod
    def second(cls, hyperparameters: Any) -> SecondModality:
        """The second modality with its values."""
        raise NotImplementedError

    @classmethod
    def own_steps(cls, hyperparameters: Any) -> dict[str, OwnSteps]:
        """The second modality's."""
        second = cls.second(hyperparameters)
        return {second.stream: second.steps}

    def weights(self) -> dict[str, float]:
        """omega; with optimizers apart it hardly matters, since AdamW's steps do not depend on a loss's scale."""
        second = self.second(self.hyperparameters)
        return {second.term: second.weight}

    def media_terms(self, batch: MediaBatch, encode: Encode) -> dict[str, Tensor]:
        """The second modality's term: two views of each item, clustered by class."""
        second = self.second(self.hyperparameters)
        vectors = encode(batch.inputs, 2)
        text_head = self.test_head() if second.stacked else None
        if text_head is not None:
            vectors = text_head(vectors)
        first, other = by_view(self.media_head, vectors)
        return {second.term: contrast(first, other, batch.labels, second)}


def contrast(first: Tensor, other: Tensor, labels: Tensor, second: SecondModality) -> Tensor:
    """The loss over two views of B items, (B, d) each, and their classes (B,), in the form asked for."""
    temperature = second.temperature
    if second.form == "khosla":
        return supcon(first, other, None if second.contrast == "simclr" else labels, temperature)
    if second.contrast == "simclr":
        return info_nce(first, other, temperature)
    if second.form == "class-rank":
        return class_rank_cross_entropy(first, other, labels, temperature)
    return cross_view_supcon(first, other, labels, temperature)
