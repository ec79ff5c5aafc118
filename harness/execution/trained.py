"""A run's training: its data, its student and method, and the student at its best checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.corpora.base import Media, Pairs, Triplets
from harness.encoders.patches import AudioPatches, ImagePatches, fresh_size
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.dev import dev_scorer
from harness.execution.identity import training_identity
from harness.execution.sources import Sources
from harness.execution.teaching import Teaching
from harness.grid import Resolved
from harness.method import Dimensions, Method, Patches
from harness.seeds import derive_seed, generator
from harness.sources import digest, write_text
from harness.store import Store
from harness.training.streams import TrainingData
from harness.training.trainer import Progress, Record, Trainer, load_best

#: seconds between two looks at a teacher that another process trains
PATIENCE_S = 0.5
#: hears of a run's key, its progress, and in words of what else goes on
Report = Callable[[str, Progress | None, str], None]


@dataclass(frozen=True)
class Bench:
    """Where trainings happen: the store's working folders and the device."""

    sources: Sources
    store: Store
    device: str
    report: Report


@dataclass(frozen=True)
class Trained:
    """A student at its best checkpoint, with the method that trained it (None: it came as it is) and the record.

    `warnings` are what a person should know of the data it was trained on.
    """

    student: Student
    method: Method | None
    record: Record
    warnings: tuple[str, ...] = ()


def trained(run: Resolved, bench: Bench) -> Trained:
    """Train a run, go on with it, or read back what it came to."""
    student = Student.load(bench.sources.encoder(run.spec.encoder).path(), run.method.pooling(run.hyperparameters)).to(
        torch.device(bench.device)
    )
    if not run.method.trains:
        return Trained(student, None, Record())
    data = training_data(run, bench)
    method = _built(run, student, data, bench)
    folder = training_folder(run, bench)
    note = folder / "trained.json"
    if note.is_file():
        load_best(folder, student, method)
        return Trained(student, method, Record(**json.loads(note.read_text())), data.warnings)
    trainer = Trainer(
        student,
        method,
        data,
        run.training,
        seed=run.spec.seed,
        setting=str(run.spec.setting),
        dev=dev_scorer(bench.sources.dev, bench.sources.root),
        folder=folder,
        report=lambda progress: bench.report(str(run.spec), progress, ""),
    )
    record = trainer.run()
    write_text(note, json.dumps(asdict(record)))
    (folder / "checkpoint.pt").unlink(missing_ok=True)
    return Trained(student, method, record, data.warnings)


def training_folder(run: Resolved, bench: Bench) -> Path:
    """Where a run's checkpoint and best model lie."""
    return bench.store.work(digest(training_identity(run, bench.sources)))


def teacher_folder(run: Resolved, bench: Bench) -> tuple[Path, str]:
    """The model folder of a run that is a teacher, and its pooling; trained now where it is not yet."""
    pooling = run.method.pooling(run.hyperparameters)
    if not run.method.trains:
        return bench.sources.encoder(run.spec.encoder).path(), pooling
    folder = training_folder(run, bench)
    while not (folder / "trained.json").is_file():
        with bench.store.lock(digest(training_identity(run, bench.sources))) as mine:
            if mine:
                trained(run, bench)
        time.sleep(0 if mine else PATIENCE_S)
    return folder / "best", pooling


def training_data(run: Resolved, bench: Bench) -> TrainingData:
    """The rows of each stream, and the features that the method asked for, row by row of the pairs."""
    sources = bench.sources
    loaded = {name: sources.corpus(name, run).load(sources.root) for name in run.corpora(sources.profile)}
    texts: dict[str, list[Any]] = {}
    media: dict[str, Media] = {}
    for name, corpus in loaded.items():
        stream = sources.corpora[name].stream
        if isinstance(corpus, Media):
            if stream in media:
                raise UserError(f"the setting {run.spec.setting} has two corpora of {stream}; keep one")
            media[stream] = corpus
        elif isinstance(corpus, Triplets):
            texts.setdefault(stream, []).extend(zip(corpus.premises, corpus.entailed, corpus.contradicted, strict=True))
        else:
            texts.setdefault(stream, []).extend(corpus.texts)
    teaching = teaching_of(run, bench, {name: part for name, part in loaded.items() if isinstance(part, Pairs)})
    wanted = run.features(sources.profile)
    features = {role: teaching.features(feature) for role, feature in wanted.items()}
    told = tuple(line for corpus in loaded.values() if isinstance(corpus, Media | Pairs) for line in corpus.warnings)
    return TrainingData(texts, features, media, told)


def teaching_of(run: Resolved, bench: Bench, pairs: Mapping[str, Pairs]) -> Teaching:
    """The run's teachers, over pair corpora that are loaded already."""
    return Teaching(
        run,
        bench.sources,
        pairs,
        lambda teacher: teacher_folder(teacher, bench),
        bench.device,
        lambda what, done, rows: bench.report(str(run.spec), None, f"{what} {done}/{rows}"),
    )


def _built(run: Resolved, student: Student, data: TrainingData, bench: Bench) -> Method:
    """The method with its heads and the student's patch embeddings, initialised from seed and names alone."""
    widths = {role: int(values.shape[-1]) for role, values in data.features.items()}
    seed = run.spec.seed
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(axis="heads", seed=seed, method=run.spec.variant.name))
        try:
            method = run.method(run.hyperparameters, Dimensions(student.width, widths))
        except ValueError as error:
            raise UserError(f"{run.spec.variant}: {error}") from error
    for stream, steps in run.method.own_steps(run.hyperparameters).items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(axis="patches", seed=seed, stream=stream))
            _attach(student, steps.patches, data.media[stream], bench.sources)
    method = method.to(student.device)
    student.read_through(method.test_head())
    return method


def _attach(student: Student, patches: Patches, media: Media, sources: Sources) -> None:
    """Give the student the patch embedding of a stream. Raises UserError where none of its width exists."""
    ((name, sample),) = media.batch(np.array([0]), generator(axis="sample")).items()
    if name == "pixels":
        if not patches.pretrained:
            raise UserError(
                "no patch embedding is named for this encoder; give the option patches=NAME, or patches=fresh-SIZE for "
                "one that is trained from scratch"
            )
        size = fresh_size(patches.pretrained)
        if size is not None:
            student.attach(name, ImagePatches.fresh(student.width, sample.shape[-1], size))
            return
        student.attach(name, ImagePatches.load(sources.patches(patches.pretrained).path(), student.width))
    else:
        frames, bins = sample.shape[1:]
        student.attach(name, AudioPatches(student.width, frames, bins, patches.size, positions=patches.positions))
