"""The inputs and requests of a method: batches, teacher features, steps of a second modality, a mixing rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from harness.spec import FeatureKind

if TYPE_CHECKING:
    from torch import Tensor

#: Encodes a batch's inputs into first output vectors ([CLS]) before any head: (inputs, views) -> (B, views, d). The
#: views are the same sentence or recording under different dropout masks, or two augmentations of an image; all views
#: pass the encoder in one forward pass.
Encode: TypeAlias = "Callable[[Mapping[str, Tensor], int], Tensor]"
#: (rows of text, rows of pairs, text batches, paired batches) -> (cycle, place): step k of an epoch is paired where k
#: mod cycle equals place. There are never fewer text batches than paired ones.
MixingRule = Callable[[int, int, int, int], tuple[int, int]]
#: which captions of an image become rows: those of the setting, or all of them
CaptionRows = Literal["setting", "all"]
#: how a learning rate decreases
Schedule = Literal["linear", "cosine"]


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

    `inputs` holds `pixels`, (B, 2, 3, H, W), two augmentations of each image, or `spectrograms`, (B, frames, bins).
    """

    inputs: Mapping[str, Tensor]
    labels: Tensor


#: a batch with text
Batch = SentenceBatch | PairBatch | TripletBatch


@dataclass(frozen=True)
class Feature:
    """A frozen teacher's features of paired batches.

    `teacher` is a teacher of the profile, 'default' for the profile's image teacher, one of `harness.spec.CONTROLS` for
    a control, or `run:KEY` for the encoder of another run. `of` is what each feature describes.
    """

    teacher: str
    of: FeatureKind = "image"


@dataclass(frozen=True)
class Dimensions:
    """Input widths of a method's heads: the encoder's d, and f of the teacher features of each role."""

    encoder: int
    features: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Patches:
    """How images or spectrograms become a sequence of vectors for the encoder's layers.

    `pretrained` names an image patch embedding of the profile. Without it, a convolution over patches of `size` x
    `size` is trained from scratch, with position embeddings if `positions` is true.
    """

    pretrained: str = ""
    size: int = 0
    positions: bool = True


@dataclass(frozen=True)
class OwnSteps:
    """A stream with an optimizer of its own and one step for every text step (NonLing Algorithm 1)."""

    batch_size: int
    learning_rate: float
    patches: Patches
    weight_decay: float = 0.0
    schedule: Schedule = "linear"
    #: whether its step precedes the text step
    first: bool = False
    #: what is done to its items beyond the corpus's own two views: 'none', or a name that the corpus supports
    augment: str = "none"


def by_batches(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
    """One paired batch every (text batches // pair batches) steps, starting with the first step of an epoch.

    MCSE's public code (src/train_mix.py); its appendix A says "in proportion to their sizes". An epoch reads the pairs
    slightly more than once.
    """
    return text_batches // pair_batches, 0
