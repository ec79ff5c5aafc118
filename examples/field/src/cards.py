"""CARDS (Wang et al., SIGIR 2022): the positive of a sentence has the first letters of some words in the other case.

A tokenizer that tells cases apart splits such words otherwise, so that the two views differ in their tokens. Its second
part, negatives retrieved from the whole corpus, is left out: a method sees one batch at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from harness.encoders.heads import TanhHead
from harness.losses.contrastive import info_nce
from harness.method import Batch, Dimensions, Encode, Hyperparameters, Method, hyper


@dataclass(frozen=True)
class CARDSHyperparameters(Hyperparameters):
    """Hyperparameters of CARDS."""

    temperature: float = hyper(0.05, above=0, source="SimCSE section 3, on which CARDS builds")
    switch: float = hyper(0.05, at_least=0, source="CARDS' public code, RoBERTa base", unit="chance of a word")


def switched(text: str, chance: float, random: np.random.Generator) -> str:
    """A text in which the first letter of each word changes its case with a chance."""
    words = text.split()
    for place in np.flatnonzero(random.random(len(words)) < chance).tolist():
        word = words[place]
        words[place] = word[0].swapcase() + word[1:]
    return " ".join(words)


class CARDS(Method):
    """InfoNCE from a sentence to its form with other cases, under another dropout mask."""

    name = "cards"
    title = "CARDS"
    paper = (
        "Wang et al., Improving Contrastive Learning of Sentence Embeddings with Case-Augmented Positives and "
        "Retrieved Negatives, SIGIR 2022"
    )
    terms = ("text",)
    readings = {"paper": "switch-case positives; the heads are those of SimCSE"}
    decisions = {
        "negatives": ("mended", "those of the batch; the paper adds one that is retrieved from the corpus"),
        "words": ("code", "drawn one by one (v2); an uncased tokenizer sees no change"),
    }
    Hyperparameters = CARDSHyperparameters

    def __init__(self, hyperparameters: CARDSHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    def change_texts(self, texts: list[str], random: np.random.Generator) -> dict[str, list[str]]:
        """The same sentences with other cases."""
        return {"switched": [switched(text, self.hyperparameters.switch, random) for text in texts]}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: from sentences to their switched forms."""
        rows = self.text_head(encode(batch.tokens, 1)[:, 0])
        positives = self.text_head(encode(batch.changed["switched"], 1)[:, 0])
        return {"text": info_nce(rows, positives, self.hyperparameters.temperature)}
