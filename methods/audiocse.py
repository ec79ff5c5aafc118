"""AudioCSE (Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022).

VisualCSE with speech in place of images (section 3.4): a filterbank of a recording is cut by a
convolution into patches and read by the text encoder's layers; its two views differ by dropout alone,
and recordings of one speaker are drawn together. What is shared with VisualCSE is in `unpaired.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from harness.method import OwnSteps, Patches, hyper

from .simcse import SimCSE, SimCSEHyperparameters
from .simcse_sup import SupervisedSimCSE, SupervisedSimCSEHyperparameters
from .unpaired import CONTRASTS, FORMS, SecondModality, Unpaired

PAPER = "Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022"
OFFICIAL = {"supcon": "class-rank", "audio_schedule": "cosine", "audio_first": True, "positions": False}


@dataclass(frozen=True)
class AudioHyperparameters:
    """The values of the recordings' side; the rate differs by encoder (Table C.1), so a profile sets it."""

    contrast: str = hyper("supcon", source="section 3.4; Table G.1", choices=CONTRASTS)
    supcon: str = hyper("ratio", source="Eq. 6", unit="what 'supcon' stands for", choices=FORMS)
    temperature_audio: float = hyper(0.07, source="public README; the paper gives none")
    audio_weight: float = hyper(1.0, source="omega of Eq. 1, which has no value in the paper")
    audio_batch_size: int = hyper(48, source="section 4.1, Table C.1", unit="recordings a step")
    audio_learning_rate: float = hyper(2e-7, source="Table C.1 (BERT-base)")
    audio_weight_decay: float = hyper(0.0, source="public scripts; the paper is silent")
    audio_schedule: str = hyper("linear", source="the paper is silent", choices=("linear", "cosine"))
    audio_first: bool = hyper(False, source="Algorithm 1", unit="whether the audio step comes before the text step")
    patch_size: int = hyper(
        24, source="public code: 1,024 x 128 inputs give 211 tokens", unit="frames and bins a patch"
    )
    positions: bool = hyper(True, source="SSAST has them, the public code does not", unit="a table of positions")


@dataclass(frozen=True)
class AudioCSEHyperparameters(AudioHyperparameters, SimCSEHyperparameters):
    """SimCSE's values and those of the recordings."""


@dataclass(frozen=True)
class AudioCSESupHyperparameters(AudioHyperparameters, SupervisedSimCSEHyperparameters):
    """Supervised SimCSE's values and those of the recordings."""

    stacked_heads: bool = hyper(False, source="public code, supervised: the audio head stands on the text head")


class AudioCSE(Unpaired, SimCSE):
    """L_text + omega L_audio (NonLing Eq. 1, 2 and 6)."""

    name = "audiocse"
    paper = PAPER
    streams = ("sentences", "audio")
    terms = ("text", "audio")
    reading_values = {"official": OFFICIAL, "fixed": {"supcon": "khosla"}}
    Hyperparameters = AudioCSEHyperparameters

    @classmethod
    def second(cls, hyperparameters: Any) -> SecondModality:
        """Recordings with their speakers."""
        values = hyperparameters
        steps = OwnSteps(
            batch_size=values.audio_batch_size,
            learning_rate=values.audio_learning_rate,
            patches=Patches(size=values.patch_size, positions=values.positions),
            weight_decay=values.audio_weight_decay,
            schedule=values.audio_schedule,
            first=values.audio_first,
        )
        return SecondModality(
            "audio", "audio", values.audio_weight, values.temperature_audio, values.contrast, values.supcon, steps
        )


class AudioCSESup(Unpaired, SupervisedSimCSE):
    """The same beside supervised SimCSE (NonLing Eq. 3; Table 6)."""

    name = "audiocse-sup"
    paper = PAPER
    streams = ("triplets", "audio")
    terms = ("text", "audio")
    reading_values = {"official": {**OFFICIAL, "stacked_heads": True}, "fixed": {"supcon": "khosla"}}
    Hyperparameters = AudioCSESupHyperparameters

    @classmethod
    def second(cls, hyperparameters: Any) -> SecondModality:
        """Recordings, as AudioCSE has them."""
        return replace(AudioCSE.second(hyperparameters), stacked=hyperparameters.stacked_heads)
