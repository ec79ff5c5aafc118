"""The training of one run: train it, resume it, or load its student at the best checkpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn

from harness.encoders.projections import read_projections
from harness.encoders.sentence_modules import SentenceModules, open_model
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.sts import dev_scorer
from harness.inputs import Stream
from harness.method import Method
from harness.planning.events import Event, Listener
from harness.planning.ingredients import Experiment
from harness.planning.pairs import FeatureContext
from harness.runs.environment import peak_memory_mb
from harness.runs.training_data import RunFeatures, training_data, unread_text
from harness.store import Store
from harness.training.folder import TrainingFolder
from harness.training.model import build_method
from harness.training.record import TrainingProgress, TrainingRecord
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer

#: Seconds between two looks at a teacher that another process trains.
PATIENCE_S = 0.5


@dataclass(frozen=True)
class Bench:
    """Where runs are trained: the store of their working folders and the device. `listen` gets their events.

    `chunk` is the number of rows of a batch that are encoded at a time; None encodes batches whole.
    """

    store: Store
    device: str
    listen: Listener
    chunk: int | None = None

    def folder(self, experiment: Experiment) -> Path:
        """The folder of a run's checkpoint and best model."""
        return self.store.work(experiment.fingerprint)


@dataclass(frozen=True)
class Trained:
    """A model at its best checkpoint, and the record of its training.

    `heads` project captions and image features into one space, None where nothing does. `warnings` concern the data
    that it was trained on, `rows` are those that the training read of each text stream.
    """

    student: Student | SentenceModules
    heads: tuple[nn.Module, nn.Module] | None
    record: TrainingRecord
    warnings: tuple[str, ...] = ()
    rows: Mapping[Stream, np.ndarray] = field(default_factory=dict)


def train(experiment: Experiment, bench: Bench) -> Trained:
    """Train a run, resume its training, or load what it ended with. Raises UserError or TrainingError."""
    experiment.check_code()
    run, read = experiment.resolved, experiment.ingredients
    source, device = read.encoder.source, torch.device(bench.device)
    if read.dev is None:
        model = open_model(source.path(), run.pooling, trusted=source.trusted).to(device)
        heads = read_projections(source.path() / source.beside) if read.features else None
        return Trained(model, heads and (heads[0].to(device), heads[1].to(device)), TrainingRecord())
    trainer = trainer_of(experiment, bench)
    warnings = (*trainer.batches.data.warnings, *unread_text(run, trainer.batches.mixing))
    record = trainer.run()
    return Trained(trainer.student, trainer.method.shared_space(), record, warnings, trainer.batches.rows_read())


def trainer_of(experiment: Experiment, bench: Bench) -> Trainer:
    """The trainer of a run, with its data loaded and its heads drawn. Raises UserError."""
    run, read = experiment.resolved, experiment.ingredients
    student = Student.load(read.encoder.source.path(), run.pooling, own_head=False).to(torch.device(bench.device))
    student.check_length(run.training.max_length)
    data = training_data(run_features(experiment, bench), student.tokenizer)
    assert read.dev is not None

    def report(made: TrainingProgress) -> None:
        took = peak_memory_mb(bench.device)
        bench.listen(Event("progress", experiment.key, device=bench.device, progress=made, memory_mb=took))

    return Trainer(
        student,
        method_of(experiment, student, data),
        data,
        run.training,
        seed=run.spec.seed,
        setting=str(run.spec.setting),
        dev=dev_scorer(read.dev.source, read.dev.root),
        folder=bench.folder(experiment),
        report=report,
        chunk=bench.chunk,
    )


def method_of(experiment: Experiment, student: Student, data: TrainingData) -> Method:
    """The method of a run with its heads and the student's patch embeddings. Raises UserError."""
    run, patches = experiment.resolved, experiment.ingredients.patches
    files = {stream: used.source.path() for stream, used in patches.items()}
    try:
        return build_method(run.method, run.hyperparameters, student, data, run.spec.seed, files)
    except ValueError as error:
        raise UserError(f"{run.spec.variant}: {error}") from error


def run_features(experiment: Experiment, bench: Bench) -> RunFeatures:
    """The teacher features of a run, computed on the bench's device."""
    context = FeatureContext(
        student=experiment.ingredients.encoder.source.path(),
        max_length=experiment.resolved.training.max_length,
        device=bench.device,
        trained=lambda fingerprint: _teacher_folder(experiment, fingerprint, bench),
        listen=lambda made: bench.listen(Event("prepare", experiment.key, stage=made)),
    )
    return RunFeatures(experiment, context)


def _teacher_folder(experiment: Experiment, fingerprint: str, bench: Bench) -> Path:
    """The model folder of a teacher; trained now if that has not been done or its weights were removed.

    Waits while another process trains it.
    """
    teacher = next(one for one in experiment.teachers if one.fingerprint == fingerprint)
    if not teacher.resolved.trains:
        return teacher.ingredients.encoder.source.path()
    folder = TrainingFolder(bench.folder(teacher))
    while not folder.has_ended:
        with bench.store.lock(fingerprint) as acquired:
            if acquired:
                train(teacher, bench)
        time.sleep(0 if acquired else PATIENCE_S)
    return folder.best
