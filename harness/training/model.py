"""The model that a training starts from: a method's heads and the student's patch embeddings, drawn from the seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.corpora.base import Media
from harness.encoders.patches import AudioPatches, ImagePatches
from harness.encoders.student import Student
from harness.errors import UserError
from harness.inputs import Stream
from harness.method import Dimensions, Method, Patches
from harness.seeds import derive_seed, generator
from harness.spec import fresh_size
from harness.training.streams import TrainingData


def build_method(
    kind: type[Method],
    hyperparameters: Any,
    student: Student,
    data: TrainingData,
    seed: int,
    pretrained: Mapping[Stream, Path],
) -> Method:
    """A method with its heads and the student's patch embeddings, which depend on the seed and on names alone.

    `pretrained` are the files of patch embeddings by stream. Raises ValueError for options that no head fits, and
    UserError where no patch embedding has the student's width.
    """
    widths = {role: int(values.shape[-1]) for role, values in data.features.items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(axis="heads", seed=seed, method=kind.name))
        method = kind(hyperparameters, Dimensions(student.width, widths))
    for stream, steps in kind.own_steps(hyperparameters).items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(axis="patches", seed=seed, stream=stream))
            _attach(student, steps.patches, data.media[stream], pretrained.get(stream))
    method = method.to(student.device)
    student.read_through(method.test_head())
    return method


def _attach(student: Student, patches: Patches, media: Media, pretrained: Path | None) -> None:
    ((name, sample),) = media.batch(np.array([0]), generator(axis="sample")).items()
    if name != "pixels":
        frames, bins = sample.shape[1:]
        student.attach(name, AudioPatches(student.width, frames, bins, patches.size, positions=patches.positions))
        return
    size = fresh_size(patches.pretrained) if patches.pretrained else None
    if size is not None:
        student.attach(name, ImagePatches.fresh(student.width, sample.shape[-1], size))
    elif pretrained is not None:
        student.attach(name, ImagePatches.load(pretrained, student.width))
    else:
        raise UserError(
            "no patch embedding is named for this encoder; give the option patches=NAME, or patches=fresh-SIZE for "
            "one that is trained from scratch"
        )
