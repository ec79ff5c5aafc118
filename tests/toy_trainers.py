"""Trainers of every method on the toy world, built as a run builds them. Tests chdir first: some
train teachers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
import torch
from executor_jobs import experiment

from harness.encoders.student import Student
from harness.method import method_named
from harness.planning.experiments import Experiment
from harness.profiles import load_profile
from harness.registry import list_registered
from harness.runs.inputs import find_teacher_folders, load_training_data
from harness.runs.train import make_method, make_weights
from harness.stopping import Stopped
from harness.store import Store
from harness.training import trainer as trainer_module
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer

SHORT = {"steps": 4, "eval_every": 2, "batch_size": 8}
#: beside every reading of every method: options that lead to other code
OPTIONS = (
    "mcse[text_teacher=clip]",
    "kdmcse[with=cml+iml]",
    "kdmcse[filter_scores=inner]",
    "dalr[targets=projected,ranking=listnet]",
    "dalr[space=projected,teacher_mix=vectors]@official",
    "visualcse[contrast=simclr]",
    "visualcse[contrast=simclr]@fixed",
    "audiocse[positions=true]",
)


def variants() -> Iterator[str]:
    for name in list_registered("method"):
        method = method_named(name)
        yield from (f"{name}@{reading}" for reading in method.readings if method.trains)
    yield from OPTIONS


@cache
def loaded(variant: str, profile: str | None = None) -> tuple[Experiment, Student, TrainingData]:
    """The data of a run, with its teachers' features, as a run loads them on the CPU; of the small
    world unless a profile is named.
    """
    of_profile = load_profile(profile) if profile else None
    asked = experiment(f"{variant}/toy/toy-bert/seed-0", of_profile, **SHORT)
    student = Student.load(asked.encoder.source.path(), asked.resolved.pooling)
    store = Store(Path())
    for teacher in asked.teachers:
        make_weights(teacher, store, "cpu")
    return (
        asked,
        student,
        load_training_data(asked, student.tokenizer, "cpu", find_teacher_folders(asked, store)),
    )


def trainer(
    variant: str,
    precision: str,
    device: torch.device,
    folder: Path,
    chunk: int | None = None,
    profile: str | None = None,
) -> Trainer:
    """The trainer of a run, built as `train` builds it."""
    asked, _, data = loaded(variant, profile)
    student = Student.load(asked.encoder.source.path(), asked.resolved.pooling, own_head=False).to(
        device
    )
    method = make_method(asked, student, data)
    training = asked.resolved.training.model_copy(update={"precision": precision})
    return Trainer(
        student,
        method,
        data,
        training,
        seed=0,
        setting="toy",
        dev=lambda embed: 0.0,
        folder=folder,
        chunk=chunk,
    )


def stopped_and_resumed(make: Callable[[], Trainer], step: int) -> Trainer:
    """The second of two trainers in one folder: it went on where the first was asked to stop, after
    a step.
    """
    steps = count(1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trainer_module, "stop_requested", lambda: next(steps) == step)
        with pytest.raises(Stopped):
            make().run()
    again = make()
    again.run()
    assert again.first == step
    return again


def first_steps(training: Trainer) -> list[int]:
    """The first step of each kind of batch."""
    mixing = training.batches.mixing
    kinds = [mixing.step(step)[0] for step in range(mixing.cycle + 1)]
    return [kinds.index(kind) for kind in sorted(set(kinds))]
