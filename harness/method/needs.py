"""What a method requests besides text: teacher features, patch embeddings and steps of a second modality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.inputs import FeatureKind

#: which captions of an image become rows: those of the setting, or all of them
CaptionRows = Literal["setting", "all"]
#: how a learning rate decreases
Schedule = Literal["linear", "cosine"]


@dataclass(frozen=True)
class Feature:
    """A frozen teacher's features of paired batches.

    `teacher` is a teacher of the profile, 'default' for the profile's image teacher, 'shuffled' or 'random'
    for a control, or `run:KEY` for the encoder of another run. `of` is what each feature describes.
    """

    teacher: str
    of: FeatureKind = "image"


@dataclass(frozen=True)
class Patches:
    """How images or spectrograms become a sequence of vectors for the encoder's layers.

    `pretrained` names an image patch embedding of the profile. Without it, a convolution over patches of
    `size` x `size` is trained from scratch, with position embeddings if `positions` is true.
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


@dataclass(frozen=True)
class Dimensions:
    """Input widths of a method's heads: the encoder's d, and f of the teacher features of each role."""

    encoder: int
    features: Mapping[str, int] = field(default_factory=dict)
