"""The training of one run: train it, resume it, or load its student at the best checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn

from harness.checksums import DamagedError, put_aside, unsealed, write_note
from harness.corpora.base import Media
from harness.encoders.patches import AudioPatches, ImagePatches
from harness.encoders.projections import read_projections
from harness.encoders.sentence_modules import SentenceModules, open_model
from harness.encoders.student import Student
from harness.errors import UserError, first_line
from harness.evaluation.sts import dev_scorer
from harness.inputs import Stream
from harness.method import Dimensions, Method, Patches
from harness.planning.events import Event, Listener
from harness.planning.ingredients import Experiment, Ingredients
from harness.planning.pairs import FeatureContext
from harness.regular import read_regular
from harness.runs.environment import peak_memory_mb
from harness.runs.training_data import RunFeatures, training_data
from harness.seeds import derive_seed, generator
from harness.spec import fresh_size
from harness.store import Store
from harness.store.attempts import RECORD_FILE
from harness.training.best import BEST, check_best, load_best
from harness.training.checkpoint import checkpoints
from harness.training.record import TrainingProgress, TrainingRecord
from harness.training.streams import TrainingData, rows_read
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
    student = Student.load(source.path(), run.pooling, own_head=False).to(device)
    student.check_length(run.training.max_length)
    data = training_data(run_features(experiment, bench), student.tokenizer)
    method = build_method(experiment, student, data)
    setting, rule = str(run.spec.setting), method.mixing(method.hyperparameters)
    rows = rows_read(data, run.training, seed=run.spec.seed, setting=setting, rule=rule)
    folder = bench.folder(experiment)
    record = _ended(folder, student, method)
    if record is not None:
        return Trained(student, method.shared_space(), record, data.warnings, rows)

    def report(made: TrainingProgress) -> None:
        took = peak_memory_mb(bench.device)
        bench.listen(Event("progress", experiment.key, device=bench.device, progress=made, memory_mb=took))

    trainer = Trainer(
        student,
        method,
        data,
        run.training,
        seed=run.spec.seed,
        setting=setting,
        dev=dev_scorer(read.dev.source, read.dev.root),
        folder=folder,
        report=report,
        chunk=bench.chunk,
    )
    record = trainer.run()
    write_note(folder / RECORD_FILE, asdict(record))
    for path in checkpoints(folder):
        path.unlink()
    return Trained(student, method.shared_space(), record, data.warnings, rows)


def _ended(folder: Path, student: Student, method: Method) -> TrainingRecord | None:
    """The record of a training that has ended, with its best model loaded; None where it is to be trained.

    What is damaged is put aside.
    """
    note = folder / RECORD_FILE
    try:
        record = _record(note)
    except DamagedError as error:
        put_aside(note, error, "the run is trained again")
        return None
    if record is not None:
        try:
            load_best(folder, student, method)
        except DamagedError as error:
            put_aside(folder / BEST, error, "the run is trained again")
            note.unlink()
            return None
    return record


def _record(note: Path) -> TrainingRecord | None:
    """The record of a training that has ended; None where there is none. Raises DamagedError."""
    try:
        content = read_regular(note)
        # of a run that ended under an earlier version: no digest; a part of such a file, or another, is no record
        return TrainingRecord(**json.loads(unsealed(content) or content))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise DamagedError(first_line(error)) from error


def _is_trained(folder: Path) -> bool:
    """Whether a training has ended, and what it left is as it was written."""
    try:
        check_best(folder)
        return _record(folder / RECORD_FILE) is not None
    except DamagedError:
        return False


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
    folder = bench.folder(teacher)
    while not _is_trained(folder):
        with bench.store.lock(fingerprint) as acquired:
            if acquired:
                train(teacher, bench)
        time.sleep(0 if acquired else PATIENCE_S)
    return folder / BEST


def build_method(experiment: Experiment, student: Student, data: TrainingData) -> Method:
    """The method with its heads and the student's patch embeddings, initialised from seed and names alone."""
    run = experiment.resolved
    widths = {role: int(values.shape[-1]) for role, values in data.features.items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(axis="heads", seed=run.spec.seed, method=run.spec.variant.name))
        try:
            method = run.method(run.hyperparameters, Dimensions(student.width, widths))
        except ValueError as error:
            raise UserError(f"{run.spec.variant}: {error}") from error
    for stream, steps in run.own_steps.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(axis="patches", seed=run.spec.seed, stream=stream))
            _attach(student, stream, steps.patches, data.media[stream], experiment.ingredients)
    method = method.to(student.device)
    student.read_through(method.test_head())
    return method


def _attach(student: Student, stream: Stream, patches: Patches, media: Media, read: Ingredients) -> None:
    """Give the student the patch embedding of a stream. Raises UserError if none of its width exists."""
    ((name, sample),) = media.batch(np.array([0]), generator(axis="sample")).items()
    if name != "pixels":
        frames, bins = sample.shape[1:]
        student.attach(name, AudioPatches(student.width, frames, bins, patches.size, positions=patches.positions))
        return
    if not patches.pretrained:
        raise UserError(
            "no patch embedding is named for this encoder; give the option patches=NAME, or patches=fresh-SIZE for "
            "one that is trained from scratch"
        )
    size = fresh_size(patches.pretrained)
    if size is not None:
        student.attach(name, ImagePatches.fresh(student.width, sample.shape[-1], size))
    else:
        student.attach(name, ImagePatches.load(read.patches[stream].source.path(), student.width))
