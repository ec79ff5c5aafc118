"""VisualCSE and AudioCSE (Jian et al., NeurIPS 2022; "NonLing" in this project).

SimCSE on sentences alternates with a loss over images or recordings that belong to no sentence. The
text encoder's layers encode them as sequences of patches, and the loss clusters them by class
(section 3.3). They have their own optimizer, and one step for every text step (Algorithm 1). The
text loss is unchanged.

VisualCSE augments a labelled image twice and embeds it by the patch embedding of a pretrained ViT.
In AudioCSE (section 3.4), a convolution cuts the filterbank of a recording into patches; the two
views differ only by dropout, and the recordings of one speaker are pulled together.

The paper gives no omega, no schedule of the second optimizer, no heads and no temperature for
audio, and no values of supervised models: every reading takes these from the public code. The
defaults are those of BERT-base, unsupervised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from torch import Tensor

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import class_rank_cross_entropy, cross_view_supcon, info_nce, supcon
from harness.method import (
    Dimensions,
    Encode,
    MediaBatch,
    Method,
    OwnSteps,
    Patches,
    Schedule,
    Stream,
    hyper,
)

from .simcse import SimCSE, SimCSEHyperparameters, SupervisedSimCSE, SupervisedSimCSEHyperparameters

CONTRASTS = ("supcon", "simclr")
#: forms of supcon: the logarithm of a ratio (Eq. 4), class ranks (public code), Khosla et al. 2020
FORMS = ("ratio", "class-rank", "khosla")
#: of recordings: none, or the public code's mix-up of waves and masks over frames and bins
AUGMENTATIONS = ("none", "mixup+masks")


class Unpaired(Method):
    """L = L_text + omega L_other (NonLing Eq. 1), in alternating steps (Algorithm 1)."""

    paper = "Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022"
    readings = {
        "paper": "Algorithm 1: text step, then media step; Eq. 4 to 6 with the positives in the denominator",
        "official": "the public code: media step first, as target the rank of a class in the batch, audio augmented",
        "fixed": "as @paper, with the supervised contrastive loss cited for Eq. 4 (Khosla et al. 2020)",
    }
    decisions = {
        "sums": ("mended", "means over the batch for Eq. 2 to 7"),
        "same class": (
            "mended",
            "Eq. 4 and 6 compare first with second views throughout (our choice, see the notes)",
        ),
        "heads": (
            "code",
            "one for text, one for the other modality; supervised, the second lies on the first",
        ),
        "views of images": (
            "code",
            "crop, flip, colour jitter and grey; the text lists no augmentations",
        ),
        "patches of recordings": (
            "code",
            "a convolution that starts at random, without SSAST's weights",
        ),
    }
    #: whether the modality's head is applied after the text head, as in the public code's
    #: supervised models
    stacked: ClassVar[bool] = False
    text_head: TanhHead

    def __init__(self, hyperparameters: Any, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.media_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    def contrast(self, batch: MediaBatch, encode: Encode, temperature: float) -> Tensor:
        """The contrastive loss over two views of each item, clustered by class."""
        vectors = encode(batch.inputs, 2)
        if self.stacked:
            vectors = self.text_head(vectors)
        first, second = by_view(self.media_head, vectors)

        uses_classes = self.hyperparameters.contrast == "supcon"
        form = self.hyperparameters.supcon
        if form == "khosla":
            labels = batch.labels if uses_classes else None
            return supcon(first, second, labels, temperature)
        if not uses_classes:
            return info_nce(first, second, temperature)
        if form == "class-rank":
            return class_rank_cross_entropy(first, second, batch.labels, temperature)
        return cross_view_supcon(first, second, batch.labels, temperature)


@dataclass(frozen=True)
class ContrastHyperparameters:
    """Which contrastive loss the second modality has."""

    contrast: str = hyper(
        "supcon", origin="text", source="sections 3.3 and 3.4; Tables 4 and G.1", choices=CONTRASTS
    )
    supcon: str = hyper(
        "ratio", origin="mended", source="Eq. 4 and 6", unit="form of supcon", choices=FORMS
    )


@dataclass(frozen=True)
class ImageHyperparameters(ContrastHyperparameters):
    """Hyperparameters of the images; rates and omega differ by encoder, so profiles set them."""

    temperature_image: float = hyper(0.07, above=0, origin="text", source="section 3.3, Eq. 4")
    image_weight: float = hyper(
        0.05, at_least=0, origin="code", source="omega of Eq. 1: VisualCSE/README.md (BERT)"
    )
    image_batch_size: int = hyper(
        48, at_least=2, origin="text", source="section 4.1, Table C.1", unit="images per step"
    )
    image_learning_rate: float = hyper(1e-6, above=0, origin="text", source="Table C.1 (BERT-base)")
    image_weight_decay: float = hyper(
        0.0, at_least=0, origin="code", source="VisualCSE/run_unsup_example.sh"
    )
    image_schedule: Schedule = hyper(
        "cosine", origin="code", source="VisualCSE/src/trainers.py", choices=get_args(Schedule)
    )
    image_first: bool = hyper(
        False,
        origin="text",
        source="Algorithm 1",
        unit="whether the image step precedes the text step",
    )
    patches: str = hyper(
        "",
        origin="code",
        source="VisualCSE/src/models.py: ViT-base or -large (profile)",
        unit="pretrained ViT patch embedding with the encoder's width",
    )


@dataclass(frozen=True)
class VisualCSEHyperparameters(ImageHyperparameters, SimCSEHyperparameters):
    """Hyperparameters of SimCSE and of the images."""


@dataclass(frozen=True)
class VisualCSESupHyperparameters(ImageHyperparameters, SupervisedSimCSEHyperparameters):
    """Hyperparameters of supervised SimCSE and of the images."""


class WithImages(Unpaired):
    """Labelled images as the second modality; omega has little effect, since AdamW's steps ignore
    the loss's scale.
    """

    reading_values = {
        "official": {"supcon": "class-rank", "image_first": True},
        "fixed": {"supcon": "khosla"},
    }

    @classmethod
    def own_steps(cls, hyperparameters: ImageHyperparameters) -> dict[Stream, OwnSteps]:
        steps = OwnSteps(
            batch_size=hyperparameters.image_batch_size,
            learning_rate=hyperparameters.image_learning_rate,
            patches=Patches(pretrained=hyperparameters.patches),
            weight_decay=hyperparameters.image_weight_decay,
            schedule=hyperparameters.image_schedule,
            first=hyperparameters.image_first,
        )
        return {"images": steps}

    def weights(self) -> dict[str, float]:
        return {**super().weights(), "visual": self.hyperparameters.image_weight}

    def media_terms(self, batch: MediaBatch, encode: Encode) -> dict[str, Tensor]:
        """visual: section 3.3."""
        return {"visual": self.contrast(batch, encode, self.hyperparameters.temperature_image)}


class VisualCSE(WithImages, SimCSE):
    """L_text + omega L_image (NonLing Eq. 1 to 5)."""

    name = "visualcse"
    title = "VisualCSE"
    streams = ("sentences", "images")
    terms = ("text", "mlm", "visual")
    Hyperparameters = VisualCSEHyperparameters


class VisualCSESup(WithImages, SupervisedSimCSE):
    """VisualCSE with supervised SimCSE as the text loss (NonLing Eq. 3; Table 6)."""

    name = "visualcse-sup"
    title = "supervised VisualCSE"
    notes = "visualcse"
    stacked = True
    streams = ("triplets", "images")
    terms = ("text", "visual")
    Hyperparameters = VisualCSESupHyperparameters


@dataclass(frozen=True)
class AudioHyperparameters(ContrastHyperparameters):
    """Hyperparameters of the recordings; the learning rate and omega differ by encoder, so profiles
    set them.
    """

    temperature_audio: float = hyper(0.07, above=0, origin="code", source="AudioCSE/README.md")
    audio_weight: float = hyper(
        0.01, at_least=0, origin="code", source="omega of Eq. 1: AudioCSE/README.md (BERT)"
    )
    audio_batch_size: int = hyper(
        48, at_least=2, origin="text", source="section 4.1, Table C.1", unit="recordings per step"
    )
    audio_learning_rate: float = hyper(2e-7, above=0, origin="text", source="Table C.1 (BERT-base)")
    audio_weight_decay: float = hyper(0.0, at_least=0, origin="code", source="AudioCSE/README.md")
    audio_schedule: Schedule = hyper(
        "cosine", origin="code", source="AudioCSE/src/trainers.py", choices=get_args(Schedule)
    )
    audio_first: bool = hyper(
        False,
        origin="text",
        source="Algorithm 1",
        unit="whether the audio step precedes the text step",
    )
    augment: str = hyper(
        "none",
        origin="text",
        source="section 3.4, appendix B",
        unit="augmentation shared by both views",
        choices=AUGMENTATIONS,
    )
    patch_size: int = hyper(
        24,
        at_least=1,
        origin="code",
        source="AudioCSE/src/models.py: gives the 211 tokens of appendix B",
        unit="frames, bins",
    )
    positions: bool = hyper(
        False,
        origin="code",
        source="AudioCSE/src/models.py",
        unit="position embeddings, as SSAST has",
    )


@dataclass(frozen=True)
class AudioCSEHyperparameters(AudioHyperparameters, SimCSEHyperparameters):
    """Hyperparameters of SimCSE and of the recordings."""


@dataclass(frozen=True)
class AudioCSESupHyperparameters(AudioHyperparameters, SupervisedSimCSEHyperparameters):
    """Hyperparameters of supervised SimCSE and of the recordings."""


class WithRecordings(Unpaired):
    """Recordings labelled by speaker as the second modality."""

    reading_values = {
        "official": {"supcon": "class-rank", "audio_first": True, "augment": "mixup+masks"},
        "fixed": {"supcon": "khosla"},
    }

    @classmethod
    def own_steps(cls, hyperparameters: AudioHyperparameters) -> dict[Stream, OwnSteps]:
        steps = OwnSteps(
            batch_size=hyperparameters.audio_batch_size,
            learning_rate=hyperparameters.audio_learning_rate,
            patches=Patches(size=hyperparameters.patch_size, positions=hyperparameters.positions),
            weight_decay=hyperparameters.audio_weight_decay,
            schedule=hyperparameters.audio_schedule,
            first=hyperparameters.audio_first,
            augment=hyperparameters.augment,
        )
        return {"audio": steps}

    def weights(self) -> dict[str, float]:
        return {**super().weights(), "audio": self.hyperparameters.audio_weight}

    def media_terms(self, batch: MediaBatch, encode: Encode) -> dict[str, Tensor]:
        """audio: section 3.4."""
        return {"audio": self.contrast(batch, encode, self.hyperparameters.temperature_audio)}


class AudioCSE(WithRecordings, SimCSE):
    """L_text + omega L_audio (NonLing Eq. 1, 2 and 6)."""

    name = "audiocse"
    title = "AudioCSE"
    streams = ("sentences", "audio")
    terms = ("text", "mlm", "audio")
    Hyperparameters = AudioCSEHyperparameters


class AudioCSESup(WithRecordings, SupervisedSimCSE):
    """AudioCSE with supervised SimCSE as the text loss (NonLing Eq. 3; Table 6)."""

    name = "audiocse-sup"
    title = "supervised AudioCSE"
    notes = "audiocse"
    stacked = True
    streams = ("triplets", "audio")
    terms = ("text", "audio")
    Hyperparameters = AudioCSESupHyperparameters
