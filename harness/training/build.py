"""A method with its heads, and the patch embeddings of its streams: what a training begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from harness.corpora.base import Media
from harness.encoders.changes import describe_layout, find_changed_part
from harness.encoders.patches import AudioPatches, ImagePatches
from harness.encoders.student import Student
from harness.errors import UserError
from harness.method import Dimensions, Method, Patches, Vocabulary
from harness.seeds import derive_seed, make_generator
from harness.spec import Stream, find_fresh_size
from harness.training.checks import NOT_SAVED
from harness.training.streams import TrainingData


def build_method(
    kind: type[Method],
    hyperparameters: Any,
    student: Student,
    data: TrainingData,
    seed: int,
    pretrained: Mapping[Stream, Path],
    models: Mapping[str, Student] = MappingProxyType({}),
    limit: int = 0,
) -> Method:
    """Build a method with its heads, after adding the student's patch embeddings and low-rank
    matrices; all depend only on seed and names.

    `pretrained` has the files of patch embeddings by stream, `models` the frozen models beside the
    student by role, `limit` is the most tokens of a row. Raises ValueError for options that no head
    fits, and UserError for a patch embedding of another width than the student's.
    """
    widths = {role: int(values.shape[-1]) for role, values in data.features.items()}
    widths |= {role: model.width for role, model in models.items()}

    if hyperparameters.lora_rank:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(axis="lora", seed=seed))
            student.adapt(hyperparameters.lora_rank)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(axis="heads", seed=seed, method=kind.name))
        method = kind(hyperparameters, Dimensions(student.width, widths))

    for stream, steps in kind.own_steps(hyperparameters).items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(axis="patches", seed=seed, stream=stream))
            attach_patches(student, steps.patches, data.media[stream], pretrained.get(stream))

    if kind.prepare is not Method.prepare:
        layout = describe_layout(student.model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(axis="prepare", seed=seed, method=kind.name))
            method.prepare(student, Vocabulary.of(student.tokenizer, limit), models)

        part = find_changed_part(layout, student.model)
        if part is not None:
            raise UserError(f"{kind.name}: prepare changes the encoder: {part}; {NOT_SAVED}")
        student.look_again()

    method = method.to(student.device)
    if student.pooling.head:
        head = method.test_head()
        if head is None:
            raise UserError(
                f"the pooling '{student.pooling.name}' keeps the text head at test, and {kind.name} has none; give "
                "pooling=cls"
            )

        student.read_through(head)
    return method


def attach_patches(
    student: Student, patches: Patches, media: Media, pretrained: Path | None
) -> None:
    """Give the student the patch embedding of a stream, whose shape is that of its first row.

    Raises UserError where an image's patch embedding has neither a size nor a file.
    """
    ((name, sample),) = media.batch(np.array([0]), make_generator(axis="sample")).items()
    if name != "pixels":
        frames, bins = sample.shape[1:]
        audio = AudioPatches(student.width, frames, bins, patches.size, positions=patches.positions)
        student.attach(name, audio)
        return

    size = find_fresh_size(patches.pretrained) if patches.pretrained else None
    if size is not None:
        student.attach(name, ImagePatches.create(student.width, sample.shape[-1], size))
    elif pretrained is not None:
        student.attach(name, ImagePatches.load(pretrained, student.width))
    else:
        raise UserError(
            "no patch embedding is named for this encoder; give the option patches=NAME, or patches=fresh-SIZE for "
            "one that is trained from scratch"
        )
