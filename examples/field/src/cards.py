"""CARDS (Wang et al., SIGIR 2022): the positive of a sentence has the first letters of some words in the other case;
its negatives are those of the batch, and sentences near them that are retrieved from the whole corpus.

A tokenizer that tells cases apart splits such words otherwise, so that the two views differ in their tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness.encoders.heads import TanhHead
from harness.losses.contrastive import info_nce
from harness.method import Batch, Dimensions, Encode, Hyperparameters, Method, Neighbours, hyper


@dataclass(frozen=True)
class CARDSHyperparameters(Hyperparameters):
    """Hyperparameters of CARDS."""

    temperature: float = hyper(0.05, above=0, source="SimCSE section 3, on which CARDS builds")
    switch: float = hyper(0.05, at_least=0, source="CARDS' public code, RoBERTa base", unit="chance of a word")
    negatives: int = hyper(1, at_least=0, source="CARDS' public code, RoBERTa base", unit="retrieved for each sentence")
    among: int = hyper(64, at_least=1, source="CARDS' public code, RoBERTa base", unit="nearest sentences drawn from")
    every: int = hyper(0, at_least=0, source="CARDS' public code", unit="steps between searches, 0: one alone")


def switched(text: str, chance: float, random: np.random.Generator) -> str:
    """A text in which the first letter of each word changes its case with a chance."""
    words = text.split()
    for place in np.flatnonzero(random.random(len(words)) < chance).tolist():
        word = words[place]
        words[place] = word[0].swapcase() + word[1:]
    return " ".join(words)


class CARDS(Method):
    """InfoNCE from a sentence to its form with other cases, among those of the batch and retrieved sentences."""

    name = "cards"
    title = "CARDS"
    paper = (
        "Wang et al., Improving Contrastive Learning of Sentence Embeddings with Case-Augmented Positives and "
        "Retrieved Negatives, SIGIR 2022"
    )
    terms = ("text",)
    readings = {"paper": "switch-case positives and retrieved negatives; the heads are those of SimCSE"}
    decisions = {
        "negatives": ("code", "each is one of all sentences of the batch, is encoded anew and has a gradient"),
        "retrieval": ("mended", "by the encoder before training, pooled as at test; the code has RoBERTa's own pooler"),
        "words": ("code", "drawn one by one (v2); an uncased tokenizer sees no change"),
    }
    Hyperparameters = CARDSHyperparameters

    def __init__(self, hyperparameters: CARDSHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    @classmethod
    def neighbours(cls, hyperparameters: CARDSHyperparameters) -> dict[str, Neighbours]:
        """Sentences that are near those of the batch."""
        if not hyperparameters.negatives:
            return {}
        wanted = Neighbours(
            count=hyperparameters.negatives, among=hyperparameters.among, every=hyperparameters.every
        )
        return {"retrieved": wanted}

    def change_texts(self, texts: list[str], random: np.random.Generator) -> dict[str, list[str]]:
        """The same sentences with other cases."""
        return {"switched": [switched(text, self.hyperparameters.switch, random) for text in texts]}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: from sentences to their switched forms."""
        rows = self.text_head(encode(batch.tokens, 1)[:, 0])
        candidates = self.text_head(encode(batch.changed["switched"], 1)[:, 0])
        if self.hyperparameters.negatives:
            retrieved = self.text_head(encode(batch.changed["retrieved"], 1)[:, 0])
            candidates = torch.cat([candidates, retrieved])
        return {"text": info_nce(rows, candidates, self.hyperparameters.temperature)}
