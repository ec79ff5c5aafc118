"""ESimCSE (Wu et al., COLING 2022): the positive of a sentence has some of its sub-words twice, and negatives queue.

Two views of equal length teach that length is meaning; repeated sub-words change the length alone. A momentum encoder
without dropout fills the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from moco_simcse import MoCoHyperparameters, MoCoSimCSE
from torch import Tensor

from harness.method import Batch, Encode, Student, Vocabulary, hyper


@dataclass(frozen=True)
class ESimCSEHyperparameters(MoCoHyperparameters):
    """Hyperparameters of ESimCSE."""

    repeat: float = hyper(
        0.32, at_least=0, source="ESimCSE, word repetition", unit="most sub-words repeated, as a share"
    )


def repeated(row: list[int], special: frozenset[int], share: float, random: np.random.Generator) -> list[int]:
    """A row with k of its N sub-words twice, k uniform from 0 to max(2, share N), their places uniform."""
    places = [place for place, token in enumerate(row) if token not in special]
    most = min(len(places), max(2, int(share * len(places))))
    chosen = set(random.choice(places, random.integers(most + 1), replace=False).tolist()) if places else set()
    return [token for place, token in enumerate(row) for _ in range(2 if place in chosen else 1)]


class ESimCSE(MoCoSimCSE):
    """InfoNCE to the repeated sentences of the batch, with the queue as further negatives."""

    name = "esimcse"
    title = "ESimCSE"
    paper = "Wu et al., ESimCSE: Enhanced Sample Building Method for Contrastive Learning, COLING 2022"
    readings = {"paper": "word repetition and momentum contrast; the heads are those of SimCSE"}
    decisions = {
        "repetition": (
            "text",
            "drawn in each step; public code: once for a sentence, with fewer than 10 of its tokens",
        ),
        "momentum": ("text", "after the step, for encoder and head; public code: before it, with the student's head"),
        "queue": ("text", "lasts as long as the training; the public code empties it after each epoch"),
    }
    Hyperparameters = ESimCSEHyperparameters

    def prepare(self, student: Student, vocabulary: Vocabulary, models: Mapping[str, Student]) -> None:
        """Copy the encoder, and note which tokens are no sub-words."""
        super().prepare(student, vocabulary, models)
        self.special = vocabulary.special

    def change_rows(self, rows: list[list[int]], random: np.random.Generator) -> dict[str, list[list[int]]]:
        """The same sentences with repeated sub-words."""
        share = self.hyperparameters.repeat
        return {"repeated": [repeated(row, self.special, share, random) for row in rows]}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: from sentences to their repeated forms."""
        rows = self.text_head(encode(batch.tokens, 1)[:, 0])
        positives = self.text_head(encode(batch.changed["repeated"], 1)[:, 0])
        self.encoder.eval()  # without dropout, as at test
        self.fresh = self.slow(batch.tokens)
        return {"text": self.contrast(rows, positives)}
