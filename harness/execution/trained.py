"""A run's training: its data, its student and method, and the student at its best checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.corpora.base import CorpusSource, Media, Pairs
from harness.corpora.tokens import TokenFile, Tokens, cached_tokens
from harness.encoders.patches import AudioPatches, ImagePatches, fresh_size
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.dev import dev_scorer
from harness.execution.events import Event, Listener, Preparation
from harness.execution.identity import training_identity
from harness.execution.sources import Sources
from harness.execution.teaching import Teaching
from harness.grid import Resolved
from harness.method import Dimensions, Method, Patches
from harness.seeds import derive_seed, generator
from harness.setting import SPEAKS_OF, setting_options
from harness.sources import digest, write_text
from harness.store import Store
from harness.training.record import TrainingRecord
from harness.training.streams import Subset, TrainingData
from harness.training.trainer import Trainer, load_best

#: streams that are no text
MEDIA = ("images", "audio")
#: seconds between two looks at a teacher that another process trains
PATIENCE_S = 0.5


@dataclass(frozen=True)
class Bench:
    """Where trainings happen: the store's working folders and the device."""

    sources: Sources
    store: Store
    device: str
    listen: Listener


@dataclass(frozen=True)
class Trained:
    """A student at its best checkpoint, with the method that trained it (None: it came as it is) and the record.

    `warnings` are what a person should know of the data it was trained on.
    """

    student: Student
    method: Method | None
    record: TrainingRecord
    warnings: tuple[str, ...] = ()


def trained(run: Resolved, bench: Bench) -> Trained:
    """Train a run, go on with it, or read back what it came to."""
    student = Student.load(bench.sources.encoder(run.spec.encoder).path(), run.method.pooling(run.hyperparameters)).to(
        torch.device(bench.device)
    )
    if not run.method.trains:
        return Trained(student, None, TrainingRecord())
    data = training_data(run, bench, student.tokenizer)
    method = _built(run, student, data, bench)
    folder = training_folder(run, bench)
    note = folder / "trained.json"
    if note.is_file():
        load_best(folder, student, method)
        return Trained(student, method, TrainingRecord(**json.loads(note.read_text())), data.warnings)
    trainer = Trainer(
        student,
        method,
        data,
        run.training,
        seed=run.spec.seed,
        setting=str(run.spec.setting),
        dev=dev_scorer(bench.sources.dev(run.spec.setting), bench.sources.root),
        folder=folder,
        report=lambda progress: bench.listen(Event("progress", str(run.spec), progress=progress)),
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


def training_data(run: Resolved, bench: Bench, tokenizer: Any) -> TrainingData:
    """The rows of each stream, and the features that the method asked for, row by row of the pairs."""
    sources = bench.sources
    found: dict[str, dict[str, CorpusSource]] = {}
    for name in run.corpora(sources.profile):
        source = sources.corpus(name, run)
        found.setdefault(source.stream, {})[name] = source
    media = {stream: _media(run, listed, sources.root) for stream, listed in found.items() if stream in MEDIA}
    tokens = {stream: _tokens(run, listed, bench, tokenizer) for stream, listed in found.items() if stream not in MEDIA}
    wanted = run.features(sources.profile)
    pairs = {name: _pairs(source, sources.root) for name, source in found.get("pairs", {}).items() if wanted}
    teaching = teaching_of(run, bench, pairs)
    features = {role: teaching.features(feature) for role, feature in wanted.items()}
    told = [*(one.warnings for one in media.values()), *(one.warnings for one in pairs.values())]
    warnings = tuple(line for lines in told for line in lines)
    return TrainingData(tokens, features, media, _parts(run, tokens), warnings)


def _tokens(run: Resolved, listed: Mapping[str, CorpusSource], bench: Bench, tokenizer: Any) -> Tokens:
    """The tokens of a stream's corpora, in the setting's order."""
    sources, length = bench.sources, run.training.max_length

    def file(name: str, source: CorpusSource) -> TokenFile:
        texts = partial(source.texts, sources.root)
        tell = partial(_tell, bench, str(run.spec), name)
        return cached_tokens(sources.fingerprint(source), texts, tokenizer, length, tell)

    files = [file(name, source) for name, source in listed.items()]
    return Tokens(files, tokenizer.pad_token_id, next(iter(listed.values())).per_row)


def _tell(bench: Bench, key: str, corpus: str, done: int) -> None:
    bench.listen(Event("prepare", key, preparation=Preparation("tokens", corpus, done)))


def _media(run: Resolved, listed: Mapping[str, CorpusSource], root: Path | None) -> Media:
    if len(listed) > 1:
        raise UserError(f"the setting {run.spec.setting} has two corpora of one stream, {', '.join(listed)}; keep one")
    (source,) = listed.values()
    loaded = source.load(root)
    assert isinstance(loaded, Media)
    return loaded


def _pairs(source: CorpusSource, root: Path | None) -> Pairs:
    loaded = source.load(root)
    assert isinstance(loaded, Pairs)
    return loaded


def _parts(run: Resolved, tokens: Mapping[str, Tokens]) -> dict[str, Subset]:
    """The rows that the setting's options keep of each stream, drawn by the run's seed; smaller draws lie in larger.

    Raises UserError for a stream that has fewer.
    """
    options, parts = setting_options(run.spec.setting), {}
    for stream, all_of_them in tokens.items():
        count = options.kept(stream)
        if count is not None:
            if count > len(all_of_them):
                raise UserError(f"the setting {run.spec.setting} has {len(all_of_them)} {stream} only; ask for fewer")
            order = generator(axis="part", seed=run.spec.seed, stream=stream).permutation(len(all_of_them))
            parts[stream] = Subset(order[:count], steps_of_all=stream in SPEAKS_OF["shot"])
    return parts


def teaching_of(run: Resolved, bench: Bench, pairs: Mapping[str, Pairs]) -> Teaching:
    """The run's teachers, over pair corpora that are loaded already."""
    return Teaching(
        run,
        bench.sources,
        pairs,
        lambda teacher: teacher_folder(teacher, bench),
        bench.device,
        lambda what, done, rows: bench.listen(
            Event("prepare", str(run.spec), preparation=Preparation("features", what, done, rows))
        ),
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
