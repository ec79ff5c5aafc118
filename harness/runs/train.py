"""The training of one run: its student trained, resumed, or loaded at the best checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.errors import UserError
from harness.method import Method, by_batches
from harness.planning.experiments import Experiment
from harness.runs.inputs import (
    Heads,
    Inputs,
    TeacherVectors,
    find_teacher_folders,
    load_training_inputs,
)
from harness.spec import MEDIA, Stream
from harness.store import BatchMixing, Store
from harness.store.folder import refuse_linked
from harness.store.schema import Budget
from harness.training.batching import Mixing
from harness.training.build import build_method
from harness.training.folder import TrainingFolder
from harness.training.record import TrainingRecord
from harness.training.streams import Batches, TrainingData
from harness.training.trainer import Trainer


@dataclass(frozen=True)
class Trained:
    """A model at its best checkpoint, and the record of its training.

    `heads` project captions and image features into one space, None if the method has none.
    `warnings` concern the encoder and the training data, `rows` are the rows of each text stream
    that the training has read; `budget`, `mixing` and the number of trained
    `parameters` are None without training.
    """

    student: Student | SentenceModules | TeacherVectors
    heads: Heads | None
    record: TrainingRecord
    warnings: tuple[str, ...] = ()
    rows: Mapping[Stream, np.ndarray] = field(default_factory=dict)
    budget: Budget | None = None
    mixing: BatchMixing | None = None
    parameters: int | None = None


def train(
    experiment: Experiment, inputs: Inputs, folder: Path, chunk: int | None = None
) -> Trained:
    """Train a run, resume its training, or load its finished model; its work folder has what an
    earlier process left.

    `chunk` rows of a batch are encoded at a time, all of them for None. Raises UserError or
    TrainingError.
    """
    encoder_remarks = list_encoder_remarks(experiment, inputs.student)
    # a model that is only evaluated
    if inputs.data is None:
        remarks = (*experiment.remarks, *encoder_remarks)
        return Trained(inputs.student, inputs.heads, TrainingRecord(), remarks)

    trainer = make_trainer(experiment, inputs, folder, chunk)
    batches = trainer.batches
    record = trainer.run()

    warnings = [*inputs.data.warnings, *encoder_remarks]
    if batches.mixing.leaves_out_text and experiment.unread_text_warning not in warnings:
        warnings.append(experiment.unread_text_warning)
    if trainer.student.why_unpacked:
        variant = experiment.resolved.spec.variant
        warnings.append(
            f"{variant}: the encoder computes on padding too: {trainer.student.why_unpacked}"
        )

    warnings += find_unreturned_terms(trainer.method, batches, record)
    return Trained(
        trainer.student,
        trainer.method.shared_space(),
        record,
        tuple(warnings),
        batches.list_rows_read(),
        _measure_budget(experiment, trainer, record),
        describe_mixing(batches.mixing),
        count_parameters(trainer),
    )


def _measure_budget(experiment: Experiment, trainer: Trainer, record: TrainingRecord) -> Budget:
    """What a training has read, by the batches of its streams, and computed."""
    batches = trainer.batches
    # captions whose images have no feature are text alone
    has_image_features = any(use.feature.of == "image" for use in experiment.features.values())
    text_rows = 0
    other_rows = 0
    for stream, order in batches.orders.items():
        rows = order.count(batches.counts[stream])
        if stream not in MEDIA:
            text_rows += rows
        if stream in MEDIA or (has_image_features and stream == "pairs"):
            other_rows += rows

    return Budget(
        steps=trainer.steps,
        text_rows=text_rows,
        other_rows=other_rows,
        flops=record.flops,
    )


def count_parameters(trainer: Trainer) -> int:
    """The numbers that the optimizers of a training may change: weights of encoder, heads and
    patches, or low-rank matrices in place of the encoder's weights.
    """
    parameters = {
        id(value): value for stepper in trainer.state.steppers for value in stepper.parameters
    }
    return sum(value.numel() for value in parameters.values())


def describe_mixing(mixing: Mixing) -> BatchMixing:
    """The record of which steps are paired; where text and pairs are not mixed, no rule is used."""
    is_mixed = bool(mixing.text and mixing.paired)
    common_rule = by_batches(0, 0, mixing.text, mixing.paired) if is_mixed else (1, 0)
    is_common = common_rule == (mixing.cycle, mixing.place)
    return BatchMixing(cycle=mixing.cycle, place=mixing.place, common=is_common)


def make_weights(
    experiment: Experiment, store: Store, device: str, chunk: int | None = None
) -> None:
    """Train a run that is a teacher, unless its weights exist. To be called under the run's lock."""
    folder = store.work(experiment.fingerprint)
    refuse_linked(store, folder)
    if not TrainingFolder(folder).has_ended:
        folders = find_teacher_folders(experiment, store)
        train(experiment, load_training_inputs(experiment, device, folders), folder, chunk)


def make_trainer(
    experiment: Experiment, inputs: Inputs, folder: Path, chunk: int | None = None
) -> Trainer:
    """The trainer of a run, with its heads initialised. Raises UserError."""
    run = experiment.resolved
    student = inputs.student
    assert isinstance(student, Student)
    assert inputs.data is not None
    assert inputs.dev is not None
    return Trainer(
        student,
        make_method(experiment, student, inputs.data, inputs.models),
        inputs.data,
        run.training,
        seed=run.spec.seed,
        setting=str(run.spec.setting),
        dev=inputs.dev,
        folder=folder,
        chunk=chunk,
        models=inputs.models,
    )


def make_method(
    experiment: Experiment,
    student: Student,
    data: TrainingData,
    models: Mapping[str, Student] = MappingProxyType({}),
) -> Method:
    """The method of a run with its heads and the student's patch embeddings. Raises UserError."""
    run = experiment.resolved
    patch_files = {stream: used.current().path() for stream, used in experiment.patches.items()}
    try:
        return build_method(
            run.method,
            run.hyperparameters,
            student,
            data,
            run.spec.seed,
            patch_files,
            models,
            limit=run.training.max_length,
        )
    except ValueError as error:
        raise UserError(f"{run.spec.variant}: {error}") from error


def list_encoder_remarks(
    experiment: Experiment, student: Student | SentenceModules | TeacherVectors
) -> list[str]:
    """What the trial of a run's encoder says of how it was read."""
    name = experiment.resolved.spec.encoder
    return [f"encoder {name}: {line}" for line in student.found.remarks]


def find_unreturned_terms(
    method: Method, batches: Batches, record: TrainingRecord
) -> Iterator[str]:
    """A warning for each term that a method declares and never returned, if its steps had batches
    of every stream.
    """
    beside_text = {*method.streams} - {"sentences", "triplets"}
    if not beside_text <= batches.orders.keys() or batches.steps < batches.mixing.cycle:
        return
    optional_terms = {*method.optional_terms} | method.left_out
    for name in sorted({*method.terms} - optional_terms - record.losses.keys()):
        yield f"no batch had the term '{name}', which {method.origin} declares and never returned"
