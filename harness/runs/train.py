"""The training of one run: its data loaded, its student trained, resumed, or loaded at the best checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from harness.corpora.base import Media, Pairs
from harness.corpora.tokens import TokenFile, Tokens, Utf8, cached_tokens
from harness.encoders.features import Stacked
from harness.encoders.heads import read_projections
from harness.encoders.student import SentenceModules, Student, open_model
from harness.errors import UserError
from harness.evaluation.sts import dev_scorer
from harness.events import Event, Stage, TrainingProgress, listening, tell
from harness.grid import Resolved
from harness.method import Method
from harness.planning.experiments import Experiment
from harness.planning.inventory import UsedCorpus
from harness.planning.teachers import FeatureContext, KnownPairs, ModelTeacher
from harness.runs.environment import peak_memory_mb
from harness.seeds import generator
from harness.setting import kept_rows
from harness.sources import digest
from harness.spec import MEDIA, Stream
from harness.store import Store
from harness.training.batching import Mixing
from harness.training.folder import TrainingFolder
from harness.training.record import TrainingRecord
from harness.training.streams import Subset, TrainingData
from harness.training.trainer import Trainer, build_method

#: Seconds between two checks of a teacher that another process is training.
PATIENCE_S = 0.5


@dataclass(frozen=True)
class Bench:
    """Where runs are trained: the store of their working folders and the device.

    `chunk` is the number of rows of a batch that are encoded at a time; None encodes batches whole.
    """

    store: Store
    device: str
    chunk: int | None = None

    def folder(self, experiment: Experiment) -> Path:
        return self.store.work(experiment.fingerprint)


@dataclass(frozen=True)
class Trained:
    """A model at its best checkpoint, and the record of its training.

    `heads` project captions and image features into one space, None if the method has none. `warnings` concern the
    training data, `rows` are the rows of each text stream that the training has read.
    """

    student: Student | SentenceModules
    heads: tuple[nn.Module, nn.Module] | None
    record: TrainingRecord
    warnings: tuple[str, ...] = ()
    rows: Mapping[Stream, np.ndarray] = field(default_factory=dict)


def train(experiment: Experiment, bench: Bench) -> Trained:
    """Train a run, resume its training, or load its finished model. Raises UserError or TrainingError."""
    experiment.check_code()
    run, source = experiment.resolved, experiment.encoder.current()
    device = torch.device(bench.device)
    if experiment.dev is None:
        model = open_model(source.path(), run.pooling, trusted=source.trusted).to(device)
        heads = read_projections(source.path() / source.beside) if experiment.features else None
        return Trained(model, heads and (heads[0].to(device), heads[1].to(device)), TrainingRecord())
    trainer = trainer_of(experiment, bench)
    warnings = (*trainer.batches.data.warnings, *unread_text(run, trainer.batches.mixing))
    record = trainer.run()
    return Trained(trainer.student, trainer.method.shared_space(), record, warnings, trainer.batches.rows_read())


def trainer_of(experiment: Experiment, bench: Bench) -> Trainer:
    """The trainer of a run, with its data loaded and its heads initialised. Raises UserError."""
    run, dev = experiment.resolved, experiment.dev
    folder, longest = experiment.encoder.source.path(), run.training.max_length
    student = Student.load(folder, run.pooling, own_head=False, max_length=longest, rates=run.dropout)
    student = student.to(torch.device(bench.device))
    features = run_features(experiment, bench)
    data = training_data(features, student.tokenizer)
    assert dev is not None

    def report(made: TrainingProgress) -> None:
        took = peak_memory_mb(bench.device)
        tell(Event("progress", device=bench.device, progress=made, memory_mb=took))

    return Trainer(
        student,
        method_of(experiment, student, data, features.models(student.device)),
        data,
        run.training,
        seed=run.spec.seed,
        setting=str(run.spec.setting),
        dev=dev_scorer(dev.current(), dev.root),
        folder=bench.folder(experiment),
        report=report,
        chunk=bench.chunk,
    )


def method_of(
    experiment: Experiment,
    student: Student,
    data: TrainingData,
    models: Mapping[str, Student] = MappingProxyType({}),
) -> Method:
    """The method of a run with its heads and the student's patch embeddings. Raises UserError."""
    run, patches = experiment.resolved, experiment.patches
    files = {stream: used.current().path() for stream, used in patches.items()}
    try:
        made = run.method, run.hyperparameters, student, data, run.spec.seed, files, models
        return build_method(*made, limit=run.training.max_length)
    except ValueError as error:
        raise UserError(f"{run.spec.variant}: {error}") from error


def run_features(experiment: Experiment, bench: Bench) -> RunFeatures:
    """The teacher features of a run, computed on the bench's device."""
    context = FeatureContext(
        student=experiment.encoder.source.path(),
        max_length=experiment.resolved.training.max_length,
        device=bench.device,
        trained=lambda fingerprint: _teacher_folder(experiment, fingerprint, bench),
    )
    return RunFeatures(experiment, context)


def _teacher_folder(experiment: Experiment, fingerprint: str, bench: Bench) -> Path:
    """The model folder of a teacher; a teacher that is not trained yet, or whose weights are gone, is trained now.

    Waits while another process trains it.
    """
    teacher = next(teacher for teacher in experiment.teachers if teacher.fingerprint == fingerprint)
    if not teacher.resolved.trains:
        return teacher.encoder.source.path()
    folder = TrainingFolder(bench.folder(teacher))
    while not folder.has_ended:
        with bench.store.lock(fingerprint) as acquired:
            if acquired:
                with listening(teacher.key):
                    train(teacher, bench)
        time.sleep(0 if acquired else PATIENCE_S)
    return folder.best


@dataclass(frozen=True)
class RunFeatures:
    """The teacher features of one run: of its own pairs for training, and of other pairs for evaluation."""

    experiment: Experiment
    context: FeatureContext

    def load(self, pairs: Sequence[KnownPairs]) -> dict[str, Stacked | np.ndarray]:
        """The features of each role over the run's pair corpora, one row per caption, (n, ...)."""
        roles, seed = self.experiment.features, self.experiment.resolved.spec.seed
        read = {role: features for role, features in roles.items() if features.asked.of != "model"}
        return {role: features.load(pairs, seed, self.context) for role, features in read.items()}

    def models(self, device: torch.device) -> dict[str, Student]:
        """The frozen models that a method has beside its student, by role. Raises UserError."""
        loaded = {}
        for role, features in self.experiment.features.items():
            if features.asked.of == "model" and isinstance(features.teacher, ModelTeacher):
                read, name = features.teacher.model, features.teacher.name
                folder = read.current().folder(self.context)
                model = Student.load(folder, read.source.pooling, what=f"folder of the model {name}")
                loaded[role] = model.eval().requires_grad_(False).to(device)
        return loaded

    def of_images(self, pairs: Pairs, content: str) -> np.ndarray:
        """The role 'image' of other images, (n, f); `content` is their hash. Controls get the true features here."""
        teacher = self.experiment.test_teachers["image"]
        return teacher.features(KnownPairs.of_content(pairs, content), self.context)

    def of_captions(self, texts: Sequence[str], content: str) -> np.ndarray | None:
        """Features of n other captions, (n, f); None unless one teacher has both roles 'image' and 'caption'."""
        teacher = self.experiment.test_teachers.get("caption")
        if teacher is None:
            return None
        return teacher.features(KnownPairs.of_content(Pairs(texts), digest("captions", content)), self.context)


def training_data(features: RunFeatures, tokenizer: PreTrainedTokenizerBase) -> TrainingData:
    """Load the corpora of a run and the features that its method asks for, aligned with the rows of the pairs.

    Raises MissingData or UserError.
    """
    run = features.experiment.resolved
    streams: dict[Stream, list[UsedCorpus]] = {}
    for corpus in features.experiment.corpora:
        streams.setdefault(corpus.stream, []).append(corpus)
    media = {stream: _media(run, listed) for stream, listed in streams.items() if stream in MEDIA}
    tokens = {stream: _tokens(run, listed, tokenizer) for stream, listed in streams.items() if stream not in MEDIA}
    pairs = [KnownPairs.of_corpus(corpus) for corpus in streams.get("pairs", []) if run.features]
    loaded: list[Media | Pairs] = [*media.values(), *(known.pairs for known in pairs)]
    warnings = (*features.experiment.remarks, *(line for corpus in loaded for line in corpus.warnings))
    texts = {stream: _tokens(run, listed, Utf8()) for stream, listed in streams.items() if run.method.reads_texts}
    return TrainingData(tokens, features.load(pairs), media, _subsets(run, tokens), texts, warnings)


def unread_text(run: Resolved, mixing: Mixing) -> Iterator[str]:
    """A warning if the mixing of a run's steps never reads the setting's text."""
    if mixing.leaves_out_text:
        text = ", ".join(name for name, stream in run.streams.items() if stream in ("sentences", "triplets"))
        yield f"{run.spec.variant} uses pairs in every step of {run.spec.setting}: the text ({text}) is never read"


def _tokens(run: Resolved, listed: Sequence[UsedCorpus], tokenizer: PreTrainedTokenizerBase | Utf8) -> Tokens:
    files = [token_file(corpus, tokenizer, run.training.max_length) for corpus in listed]
    return Tokens(files, tokenizer.pad_token_id, listed[0].read.source.per_row)


def token_file(corpus: UsedCorpus, tokenizer: PreTrainedTokenizerBase | Utf8, max_length: int) -> TokenFile:
    """The tokens of a corpus, memory-mapped from the cache; a corpus that is not cached is tokenised first."""
    read = corpus.read
    expected = cache(lambda: read.source.expected(read.root))
    return cached_tokens(
        read.fingerprint,
        lambda: read.current().texts(read.root),
        tokenizer,
        max_length,
        lambda done: tell(Event("prepare", stage=Stage("tokens", corpus.name, done, expected()))),
    )


def _media(run: Resolved, listed: Sequence[UsedCorpus]) -> Media:
    if len(listed) > 1:
        names = ", ".join(corpus.name for corpus in listed)
        raise UserError(f"the setting {run.spec.setting} has two corpora of the same kind, {names}; keep one")
    read = listed[0].read
    loaded = read.current().load(read.root)
    assert isinstance(loaded, Media)
    return loaded


def _subsets(run: Resolved, tokens: Mapping[Stream, Tokens]) -> dict[Stream, Subset]:
    """The rows of each stream that the setting's options keep, drawn by the run's seed; larger draws contain smaller.

    Raises UserError for a stream that has fewer rows.
    """
    subsets: dict[Stream, Subset] = {}
    for stream, rows in tokens.items():
        kept = kept_rows(run.options, stream)
        if kept is not None:
            if kept.rows > len(rows):
                raise UserError(f"the setting {run.spec.setting} has only {len(rows)} {stream}; ask for fewer")
            order = generator(axis="part", seed=run.spec.seed, stream=stream).permutation(len(rows))
            subsets[stream] = Subset(order[: kept.rows], kept.steps_of_all)
    return subsets
