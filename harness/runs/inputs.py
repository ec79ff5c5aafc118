"""All that a run reads, loaded before it trains: its student, its data, and a teacher's features of
tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from harness.corpora.base import Media, Pairs
from harness.corpora.tokens import TokenFile, Tokens, Utf8, cached_tokens
from harness.encoders.heads import read_projections
from harness.encoders.student import SentenceModules, Student, open_model
from harness.encoders.trial import TrialFindings
from harness.errors import UserError
from harness.evaluation.sts import dev_scorer
from harness.evaluation.suites import EmbedFunction
from harness.grid import Resolved
from harness.planning.experiments import Experiment
from harness.planning.inventory import Inventory, UsedCorpus
from harness.planning.plan import PlannedRun
from harness.planning.teachers import EmbedTexts, Folders, ModelTeacher, load_pairs
from harness.runs.execution import Seat
from harness.seeds import generator
from harness.setting import kept_rows
from harness.spec import MEDIA, FeatureKind, Stream
from harness.store import Store
from harness.store.folder import refuse_linked
from harness.training.folder import TrainingFolder
from harness.training.streams import Subset, TrainingData

#: projections of captions and of image features into one space
Heads = tuple[nn.Module, nn.Module]
#: features of the images and captions of retrieval tasks, (n, f) each, by task
TestFeatures = Mapping[tuple[str, FeatureKind], np.ndarray]


#: sentences between two reports of how many are embedded
REPORTED = 1024


@dataclass(frozen=True)
class TeacherVectors:
    """A text teacher in the place of an encoder: its vectors of sentences.

    `encoder` is the run's own one, whose device and trial it has.
    """

    encoder: Student | SentenceModules
    vectors: EmbedTexts

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    @property
    def found(self) -> TrialFindings:
        return self.encoder.found

    def embed(
        self,
        sentences: Sequence[str],
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> np.ndarray:
        """Embed n sentences: (n, f) float32."""
        report(0, len(sentences))
        parts = []
        for start in range(0, len(sentences), REPORTED):
            parts.append(self.vectors(sentences[start : start + REPORTED]))
            report(min(start + REPORTED, len(sentences)), len(sentences))
        return np.concatenate(parts)


@dataclass(frozen=True)
class Inputs:
    """What a run computes with, its student on its device.

    A run that trains has `data`, and `dev`, which scores its checkpoints; another one may have
    published `heads`. `models` are the frozen models beside the student, by role.
    """

    student: Student | SentenceModules | TeacherVectors
    data: TrainingData | None = None
    dev: Callable[[EmbedFunction], float] | None = None
    heads: Heads | None = None
    models: Mapping[str, Student] = field(default_factory=dict)
    tests: TestFeatures = field(default_factory=dict)


def load_inputs(run: PlannedRun, inventory: Inventory, seat: Seat, folders: Folders) -> Inputs:
    """Load what a run reads; what is not in the cache is computed on the seat's device.

    `folders` has the models of its teachers. Raises MissingData or UserError.
    """
    inputs = load_training_inputs(run.experiment, seat.device, folders)
    tests = {}
    for name, teacher in run.experiment.test_features(
        [inventory.suites[suite] for suite in run.todo]
    ):
        task = inventory.retrieval_task(name)
        tests[name, teacher.of] = teacher.features(
            task, load_pairs(task, teacher.of), seat.device, folders
        )
    return replace(inputs, tests=tests)


def load_training_inputs(experiment: Experiment, device: str, folders: Folders) -> Inputs:
    """The same without features of tests."""
    experiment.check_code()
    run = experiment.resolved
    source = experiment.encoder.current()
    on = torch.device(device)
    if experiment.dev is None:
        model = open_model(source.path(), run.pooling, trusted=source.trusted).to(on)
        if run.features:
            teacher = experiment.features["caption"].teacher
            return Inputs(TeacherVectors(model, teacher.embedder(device, folders)))
        heads = read_projections(source.path() / source.beside) if experiment.features else None
        return Inputs(model, heads=heads and (heads[0].to(on), heads[1].to(on)))
    length = run.training.max_length
    rates = run.dropout
    student = Student.load(
        source.path(), run.pooling, own_head=False, max_length=length, rates=rates
    ).to(on)
    data = load_training_data(experiment, student.tokenizer, device, folders)
    dev = dev_scorer(experiment.dev.current(), experiment.dev.root)
    return Inputs(student, data, dev, models=_load_models(experiment, on, folders))


def _load_models(
    experiment: Experiment, device: torch.device, folders: Folders
) -> dict[str, Student]:
    """The frozen models that a method has beside its student, by role. Raises UserError."""
    loaded = {}
    for role, asked in experiment.features.items():
        if asked.asked.of == "model" and isinstance(asked.teacher, ModelTeacher):
            read = asked.teacher.model
            name = asked.teacher.name
            folder = read.current().folder(folders)
            model = Student.load(folder, read.source.pooling, what=f"folder of the model {name}")
            loaded[role] = model.eval().requires_grad_(False).to(device)
    return loaded


def find_teacher_folders(experiment: Experiment, store: Store) -> Folders:
    """The model folders of the runs that are a run's teachers, trained or not, by fingerprint.

    Raises UserError for a link in the work folder of one.
    """
    folders = {}
    for teacher in experiment.teachers:
        if teacher.resolved.trains:
            work = store.work(teacher.fingerprint)
            refuse_linked(store, work)
            folders[teacher.fingerprint] = TrainingFolder(work).best
        else:
            folders[teacher.fingerprint] = teacher.encoder.source.path()
    return folders


def load_training_data(
    experiment: Experiment, tokenizer: PreTrainedTokenizerBase, device: str, folders: Folders
) -> TrainingData:
    """Load the corpora of a run and the features that its method asks for, aligned with the rows of
    the pairs.

    Raises MissingData or UserError.
    """
    run = experiment.resolved
    streams: dict[Stream, list[UsedCorpus]] = {}
    for corpus in experiment.corpora:
        streams.setdefault(corpus.stream, []).append(corpus)
    media = {
        stream: _load_media(run, listed) for stream, listed in streams.items() if stream in MEDIA
    }
    tokens = {
        stream: _load_tokens(run, listed, tokenizer)
        for stream, listed in streams.items()
        if stream not in MEDIA
    }
    pairs = [load_pairs(corpus) for corpus in streams.get("pairs", []) if run.features]
    read = {role: asked for role, asked in experiment.features.items() if asked.asked.of != "model"}
    features = {
        role: asked.load(pairs, run.spec.seed, device, folders) for role, asked in read.items()
    }
    loaded: list[Media | Pairs] = [*media.values(), *pairs]
    warnings = (*experiment.remarks, *(line for corpus in loaded for line in corpus.warnings))
    texts = {
        stream: _load_tokens(run, listed, Utf8())
        for stream, listed in streams.items()
        if run.method.uses_texts()
    }
    return TrainingData(tokens, features, media, _draw_subsets(run, tokens), texts, warnings)


def _load_tokens(
    run: Resolved, listed: Sequence[UsedCorpus], tokenizer: PreTrainedTokenizerBase | Utf8
) -> Tokens:
    files = [load_token_file(corpus, tokenizer, run.training.max_length) for corpus in listed]
    return Tokens(files, tokenizer.pad_token_id, listed[0].read.source.per_row)


def load_token_file(
    corpus: UsedCorpus, tokenizer: PreTrainedTokenizerBase | Utf8, max_length: int
) -> TokenFile:
    """The tokens of a corpus, memory-mapped from the cache; a corpus that is not cached is
    tokenised first.
    """
    expected = partial(corpus.read.source.expected, corpus.read.root)
    return cached_tokens(
        corpus.read.fingerprint, corpus.texts, tokenizer, max_length, corpus.name, expected
    )


def _load_media(run: Resolved, listed: Sequence[UsedCorpus]) -> Media:
    if len(listed) > 1:
        names = ", ".join(corpus.name for corpus in listed)
        raise UserError(
            f"the setting {run.spec.setting} has two corpora of the same kind, {names}; keep one"
        )
    read = listed[0].read
    loaded = read.current().load(read.root)
    assert isinstance(loaded, Media)
    return loaded


def _draw_subsets(run: Resolved, tokens: Mapping[Stream, Tokens]) -> dict[Stream, Subset]:
    """The rows of each stream that the setting's options keep, drawn by the run's seed; larger
    draws contain smaller.

    Raises UserError for a stream that has fewer rows.
    """
    subsets: dict[Stream, Subset] = {}
    for stream, rows in tokens.items():
        kept = kept_rows(run.options, stream)
        if kept is not None:
            if kept.rows > len(rows):
                raise UserError(
                    f"the setting {run.spec.setting} has only {len(rows)} {stream}; ask for fewer"
                )
            order = generator(axis="part", seed=run.spec.seed, stream=stream).permutation(len(rows))
            subsets[stream] = Subset(order[: kept.rows], kept.steps_of_all)
    return subsets
