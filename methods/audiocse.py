"""AudioCSE (Jian et al., Non-Linguistic Supervision for Contrastive Learning of Sentence Embeddings, NeurIPS 2022).

VisualCSE with speech instead of images (section 3.4): a convolution cuts the filterbank of a recording into patches,
which the layers of the text encoder encode. The two views differ only by dropout, and recordings of one speaker are
pulled together. `unpaired.py` has the part shared with VisualCSE.
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
OFFICIAL: Mapping[str, OptionValue] = {
    "supcon": "class-rank",
    "audio_schedule": "cosine",
    "audio_first": True,
    "positions": False,
}


@dataclass(frozen=True)
class AudioHyperparameters:
    """Hyperparameters of the recordings; the learning rate differs by encoder (Table C.1), so profiles set it."""

    contrast: str = hyper("supcon", source="section 3.4; Table G.1", choices=CONTRASTS)
    supcon: str = hyper("ratio", source="Eq. 6", unit="form of supcon", choices=FORMS)
    temperature_audio: float = hyper(0.07, source="public README; the paper gives none")
    audio_weight: float = hyper(1.0, source="omega of Eq. 1; no value in the paper")
    audio_batch_size: int = hyper(48, source="section 4.1, Table C.1", unit="recordings per step")
    audio_learning_rate: float = hyper(2e-7, source="Table C.1 (BERT-base)")
    audio_weight_decay: float = hyper(0.0, source="public scripts; not in the paper")
    audio_schedule: Schedule = hyper("linear", source="not in the paper", choices=get_args(Schedule))
    audio_first: bool = hyper(False, source="Algorithm 1", unit="whether the audio step precedes the text step")
    patch_size: int = hyper(
        24, source="public code: 1,024 x 128 inputs give 211 tokens", unit="frames and bins of a patch"
    )
    positions: bool = hyper(True, source="as in SSAST; not in the public code", unit="position embeddings")


@dataclass(frozen=True)
class AudioCSEHyperparameters(AudioHyperparameters, SimCSEHyperparameters):
    """Hyperparameters of SimCSE and of the recordings."""


@dataclass(frozen=True)
class AudioCSESupHyperparameters(AudioHyperparameters, SupervisedSimCSEHyperparameters):
    """Hyperparameters of supervised SimCSE and of the recordings."""

    stacked_heads: bool = hyper(False, source="public code, supervised: the audio head is applied after the text head")


class AudioCSE(Unpaired, SimCSE):
    """L_text + omega L_audio (NonLing Eq. 1, 2 and 6)."""

    name = "audiocse"
    paper = PAPER
    streams = ("sentences", "audio")
    terms = ("text", "audio")
    reading_values = {"official": OFFICIAL, "fixed": {"supcon": "khosla"}}
    Hyperparameters = AudioCSEHyperparameters

    @classmethod
    def second(cls, hyperparameters: AudioHyperparameters) -> SecondModality:
        """Recordings labelled by speaker."""
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
    """AudioCSE with supervised SimCSE as the text loss (NonLing Eq. 3; Table 6)."""

    name = "audiocse-sup"
    notes = "audiocse"
    paper = PAPER
    streams = ("triplets", "audio")
    terms = ("text", "audio")
    reading_values = {"official": {**OFFICIAL, "stacked_heads": True}, "fixed": {"supcon": "khosla"}}
    Hyperparameters = AudioCSESupHyperparameters

    @classmethod
    def second(cls, hyperparameters: AudioCSESupHyperparameters) -> SecondModality:
        """Recordings, as in AudioCSE."""
        return replace(AudioCSE.second(hyperparameters), stacked=hyperparameters.stacked_heads)
