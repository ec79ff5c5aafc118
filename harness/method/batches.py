"""The batches passed to a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

#: Encodes a batch's inputs into first output vectors ([CLS]) before any head: (inputs, views) -> (B, views, d).
#: The views are the same sentence or recording under different dropout masks, or two augmentations of an
#: image; all views pass the encoder in one forward pass.
Encode = Callable[[Mapping[str, Tensor], int], Tensor]


@dataclass(frozen=True)
class SentenceBatch:
    """B sentences: `tokens` holds input_ids and attention_mask, each (B, L)."""

    tokens: Mapping[str, Tensor]


@dataclass(frozen=True)
class PairBatch(SentenceBatch):
    """B captions with the teacher features that the method requested, by role.

    Features of images and captions are (B, f), features of tokens (B, L' >= L, f); none has a gradient.
    """

    features: Mapping[str, Tensor]


@dataclass(frozen=True)
class TripletBatch(SentenceBatch):
    """B triplets as 3B sentences in the order premise, entailed hypothesis, contradicted hypothesis."""


@dataclass(frozen=True)
class MediaBatch:
    """B images or recordings with their classes, (B,) int64; an unlabelled item has a class of its own.

    `inputs` holds `pixels`, (B, 2, 3, H, W), two augmentations of each image, or `spectrograms`,
    (B, frames, bins).
    """

    inputs: Mapping[str, Tensor]
    labels: Tensor


#: a batch with text
Batch = SentenceBatch | PairBatch | TripletBatch
