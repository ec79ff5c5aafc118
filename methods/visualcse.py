"""VisualCSE (Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022).

SimCSE on sentences, and in turns with it a loss over labelled images that no sentence describes. An
image is augmented twice, cut by the patch embedding of a pretrained ViT, and read by the text encoder's
own layers; images of one class are drawn together (section 3.3). What is shared with AudioCSE is in
`unpaired.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from harness.method import OwnSteps, Patches, hyper

from .simcse import SimCSE, SimCSEHyperparameters
from .simcse_sup import SupervisedSimCSE, SupervisedSimCSEHyperparameters
from .unpaired import CONTRASTS, FORMS, SecondModality, Unpaired

PAPER = "Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022"
OFFICIAL = {"supcon": "class-rank", "image_schedule": "cosine", "image_first": True}


@dataclass(frozen=True)
class ImageHyperparameters:
    """The values of the images' side; rates and sizes differ by encoder (Table C.1), so a profile sets them."""

    contrast: str = hyper("supcon", source="section 3.3; Table 4", choices=CONTRASTS)
    supcon: str = hyper("ratio", source="Eq. 4", unit="what 'supcon' stands for", choices=FORMS)
    temperature_image: float = hyper(0.07, source="section 3.3, Eq. 4")
    image_weight: float = hyper(1.0, source="omega of Eq. 1, which has no value in the paper")
    image_batch_size: int = hyper(48, source="section 4.1, Table C.1", unit="images a step")
    image_learning_rate: float = hyper(1e-6, source="Table C.1 (BERT-base)")
    image_weight_decay: float = hyper(0.0, source="public scripts; the paper is silent")
    image_schedule: str = hyper("linear", source="the paper is silent", choices=("linear", "cosine"))
    image_first: bool = hyper(False, source="Algorithm 1", unit="whether the image step comes before the text step")
    patches: str = hyper(
        "", source="section 3.3, Figure 1", unit="pretrained ViT patch embedding of the encoder's width"
    )


@dataclass(frozen=True)
class VisualCSEHyperparameters(ImageHyperparameters, SimCSEHyperparameters):
    """SimCSE's values and those of the images."""


@dataclass(frozen=True)
class VisualCSESupHyperparameters(ImageHyperparameters, SupervisedSimCSEHyperparameters):
    """Supervised SimCSE's values and those of the images."""

    stacked_heads: bool = hyper(False, source="public code, supervised: the image head stands on the text head")


class VisualCSE(Unpaired, SimCSE):
    """L_text + omega L_image (NonLing Eq. 1 to 5)."""

    name = "visualcse"
    paper = PAPER
    streams = ("sentences", "images")
    terms = ("text", "visual")
    reading_values = {"official": OFFICIAL, "fixed": {"supcon": "khosla"}}
    Hyperparameters = VisualCSEHyperparameters

    @classmethod
    def second(cls, hyperparameters: Any) -> SecondModality:
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
    """The same beside supervised SimCSE (NonLing Eq. 3; Table 6)."""

    name = "visualcse-sup"
    paper = PAPER
    streams = ("triplets", "images")
    terms = ("text", "visual")
    reading_values = {"official": {**OFFICIAL, "stacked_heads": True}, "fixed": {"supcon": "khosla"}}
    Hyperparameters = VisualCSESupHyperparameters

    @classmethod
    def second(cls, hyperparameters: Any) -> SecondModality:
        """Labelled images, as VisualCSE has them."""
        return replace(VisualCSE.second(hyperparameters), stacked=hyperparameters.stacked_heads)
