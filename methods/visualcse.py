"""VisualCSE (Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022).

SimCSE on sentences alternates with a loss over labelled images, which belong to no sentence. An image is augmented
twice, embedded by the patch embedding of a pretrained ViT, and encoded by the layers of the text encoder; images of one
class are pulled together (section 3.3). `unpaired.py` has the part shared with AudioCSE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

from harness.method import OptionValue, OwnSteps, Patches, Schedule, hyper

from .simcse import SimCSE, SimCSEHyperparameters
from .simcse_sup import SupervisedSimCSE, SupervisedSimCSEHyperparameters
from .unpaired import CONTRASTS, FORMS, SecondModality, Unpaired

PAPER = "Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022"
OFFICIAL: Mapping[str, OptionValue] = {"supcon": "class-rank", "image_schedule": "cosine", "image_first": True}


@dataclass(frozen=True)
class ImageHyperparameters:
    """Hyperparameters of the images; rates and batch sizes differ by encoder (Table C.1), so profiles set them."""

    contrast: str = hyper("supcon", source="section 3.3; Table 4", choices=CONTRASTS)
    supcon: str = hyper("ratio", source="Eq. 4", unit="form of supcon", choices=FORMS)
    temperature_image: float = hyper(0.07, source="section 3.3, Eq. 4")
    image_weight: float = hyper(1.0, source="omega of Eq. 1; no value in the paper")
    image_batch_size: int = hyper(48, source="section 4.1, Table C.1", unit="images per step")
    image_learning_rate: float = hyper(1e-6, source="Table C.1 (BERT-base)")
    image_weight_decay: float = hyper(0.0, source="public scripts; not in the paper")
    image_schedule: Schedule = hyper("linear", source="not in the paper", choices=get_args(Schedule))
    image_first: bool = hyper(False, source="Algorithm 1", unit="whether the image step precedes the text step")
    patches: str = hyper(
        "", source="section 3.3, Figure 1", unit="pretrained ViT patch embedding with the encoder's width"
    )


@dataclass(frozen=True)
class VisualCSEHyperparameters(ImageHyperparameters, SimCSEHyperparameters):
    """Hyperparameters of SimCSE and of the images."""


@dataclass(frozen=True)
class VisualCSESupHyperparameters(ImageHyperparameters, SupervisedSimCSEHyperparameters):
    """Hyperparameters of supervised SimCSE and of the images."""

    stacked_heads: bool = hyper(False, source="public code, supervised: the image head is applied after the text head")


class VisualCSE(Unpaired, SimCSE):
    """L_text + omega L_image (NonLing Eq. 1 to 5)."""

    name = "visualcse"
    paper = PAPER
    streams = ("sentences", "images")
    terms = ("text", "visual")
    reading_values = {"official": OFFICIAL, "fixed": {"supcon": "khosla"}}
    Hyperparameters = VisualCSEHyperparameters

    @classmethod
    def second(cls, hyperparameters: ImageHyperparameters) -> SecondModality:
        """Labelled images."""
        values = hyperparameters
        steps = OwnSteps(
            batch_size=values.image_batch_size,
            learning_rate=values.image_learning_rate,
            patches=Patches(pretrained=values.patches),
            weight_decay=values.image_weight_decay,
            schedule=values.image_schedule,
            first=values.image_first,
        )
        return SecondModality(
            "images", "visual", values.image_weight, values.temperature_image, values.contrast, values.supcon, steps
        )


class VisualCSESup(Unpaired, SupervisedSimCSE):
    """VisualCSE with supervised SimCSE as the text loss (NonLing Eq. 3; Table 6)."""

    name = "visualcse-sup"
    notes = "visualcse"
    paper = PAPER
    streams = ("triplets", "images")
    terms = ("text", "visual")
    reading_values = {"official": {**OFFICIAL, "stacked_heads": True}, "fixed": {"supcon": "khosla"}}
    Hyperparameters = VisualCSESupHyperparameters

    @classmethod
    def second(cls, hyperparameters: VisualCSESupHyperparameters) -> SecondModality:
        """Labelled images, as in VisualCSE."""
        return replace(VisualCSE.second(hyperparameters), stacked=hyperparameters.stacked_heads)
