"""ConSERT (Yan et al., ACL 2021): the two views of a sentence differ where its tokens are embedded.

Without dropout, one view has features cut off and the other its places shuffled; tokens can be cut off, and the encoder
can have dropout in one view. Its adversarial view needs a supervised loss and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.losses.contrastive import supcon
from harness.method import Batch, Encode, Hyperparameters, Method, Packed, hyper

VIEWS = ("none", "shuffle", "token-cutoff", "feature-cutoff", "dropout")


@dataclass(frozen=True)
class ConSERTHyperparameters(Hyperparameters):
    """Hyperparameters of ConSERT; defaults are those of its unsupervised script."""

    pooling: str = hyper("mean", source="ConSERT's public code: the mean of all tokens", registered="pooling")
    dropout: float = hyper(0.0, source="ConSERT's script: --no_dropout", unit="rate within the encoder; -1: its own")
    attention_dropout: float = hyper(0.0, source="ConSERT's script: --no_dropout", unit="as dropout")
    temperature: float = hyper(0.1, above=0, source="ConSERT's script")
    first: str = hyper("feature-cutoff", source="ConSERT's script", choices=VIEWS, unit="change of the first view")
    second: str = hyper("shuffle", source="ConSERT's script", choices=VIEWS, unit="change of the second view")
    cutoff: float = hyper(0.2, at_least=0, source="ConSERT's script", unit="share of tokens, features or states")


def shuffled(rows: Packed) -> Tensor:
    """The places of each row in a random order: (N,)."""
    drawn = torch.rand(len(rows.columns), dtype=torch.float64, device=rows.columns.device)
    return rows.columns[(rows.row_numbers + drawn).argsort()]


def without_tokens(states: Tensor, rows: Packed, share: float) -> Tensor:
    """Set a share of each row's tokens to 0, rounded down."""
    lengths = rows.offsets.diff()[rows.row_numbers]
    is_kept = shuffled(rows) >= (lengths * share).long()
    return states * is_kept.unsqueeze(1)


def without_features(states: Tensor, rows: Packed, share: float) -> Tensor:
    """Set a share of the features to 0, rounded down, others in each row."""
    drawn = torch.rand(rows.rows, states.shape[1], device=states.device)
    is_kept = drawn.argsort(dim=1) >= int(states.shape[1] * share)
    return states * is_kept[rows.row_numbers]


class ConSERT(Method):
    """NT-Xent between two changed views, in both directions, without a head."""

    name = "consert"
    title = "ConSERT"
    paper = (
        "Yan et al., ConSERT: A Contrastive Framework for Self-Supervised Sentence Representation Transfer, "
        "ACL 2021"
    )
    terms = ("text",)
    readings = {"paper": "its unsupervised form with the values of the public script"}
    decisions = {
        "pooling": ("code", "the mean over the last layer; the paper averages the last two"),
        "cutoffs": ("code", "of the embedding layer's output, rounded down, drawn for each sentence"),
        "adversarial view": ("mended", "left out: its gradient is that of a supervised loss"),
    }
    Hyperparameters = ConSERTHyperparameters

    def view(self, change: str, tokens: Mapping[str, Tensor], encode: Encode) -> Tensor:
        """The sentence vectors of one view: (B, d)."""
        share = self.hyperparameters.cutoff
        if change == "shuffle":
            return encode(tokens, 1, places=shuffled)[:, 0]
        if change == "token-cutoff":
            return encode(tokens, 1, embedded=lambda states, rows: without_tokens(states, rows, share))[:, 0]
        if change == "feature-cutoff":
            return encode(tokens, 1, embedded=lambda states, rows: without_features(states, rows, share))[:, 0]
        return encode(tokens, 1, dropout=share if change == "dropout" else None)[:, 0]

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: from each view of a sentence to its other view, among all views of the batch."""
        values = self.hyperparameters
        first = self.view(values.first, batch.tokens, encode)
        second = self.view(values.second, batch.tokens, encode)
        return {"text": supcon(first, second, None, values.temperature)}
