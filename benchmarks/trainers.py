"""Trainers of the harness on made inputs, without a development set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.corpora.tokens import TokenFile
from harness.encoders.student import Student
from harness.method import Method
from harness.profiles import Training
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer


def make_token_file(rows: Sequence[Sequence[int]]) -> TokenFile:
    """The token ids of rows of text, as the cache has them."""
    ids = np.concatenate([np.array(row, np.uint16) for row in rows])
    lengths = [len(row) for row in rows]
    return TokenFile(ids, np.cumsum([0, *lengths], dtype=np.int64))


def make_trainer(
    student: Student, method: Method, data: TrainingData, training: Training, folder: Path
) -> Trainer:
    """A trainer whose modules are in training, of seed 0; its dev score is always 0."""
    trainer = Trainer(
        student,
        method,
        data,
        training,
        seed=0,
        setting="benchmark",
        dev=lambda embed: 0.0,
        folder=folder,
    )
    trainer.student.train()
    trainer.method.train()
    return trainer
