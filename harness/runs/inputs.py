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

from harness.corpora.base import Media, Pairs, number_images
from harness.corpora.tokens import TokenFile, Tokens, Utf8, get_tokens
from harness.encoders.heads import read_projections
from harness.encoders.sentence_modules import SentenceModules, open_model
from harness.encoders.student import Student
from harness.encoders.trial import TrialFindings
from harness.errors import UserError
from harness.evaluation.sts import make_dev_scorer
from harness.evaluation.suites import EmbedFunction
from harness.grid import Resolved
from harness.planning.experiments import Experiment
from harness.planning.inventory import Inventory, UsedCorpus
from harness.planning.plan import PlannedRun
from harness.planning.teachers import EmbedTexts, Folders, ModelTeacher, load_pairs
from harness.runs.execution import Seat
from harness.seeds import make_generator
from harness.setting import find_kept_rows
from harness.spec import MEDIA, FeatureKind, Stream
from harness.store import Store
from harness.store.folder import refuse_linked
from harness.training.folder import TrainingFolder
from harness.training.phrases import TokenPhrases
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
    suites = [inventory.suites[name] for name in run.todo]
    tests = {}
    for name, teacher in run.experiment.list_test_teachers(suites):
        task = inventory.find_retrieval_task(name)
        pairs = load_pairs(task, teacher.of)
        tests[name, teacher.of] = teacher.load_features(task, pairs, seat.device, folders)
    return replace(inputs, tests=tests)


def load_training_inputs(experiment: Experiment, device: str, folders: Folders) -> Inputs:
    """The same without features of tests."""
    experiment.check_code()
    if experiment.dev is None:
        return _load_untrained(experiment, device, folders)

    run = experiment.resolved
    student = Student.load(
        experiment.encoder.current().path(),
        run.pooling,
        own_head=False,
        max_length=run.training.max_length,
        rates=run.dropout,
    ).to(torch.device(device))
    data = load_training_data(experiment, student.tokenizer, device, folders)
    dev = make_dev_scorer(experiment.dev.current(), experiment.dev.root)
    models = _load_models(experiment, torch.device(device), folders)
    return Inputs(student, data, dev, models=models)


def _load_untrained(experiment: Experiment, device: str, folders: Folders) -> Inputs:
    """The model of a run that does not train: an encoder, or a teacher in its place."""
    run = experiment.resolved
    source = experiment.encoder.current()
    model = open_model(source.path(), run.pooling, trusted=source.trusted).to(torch.device(device))
    if run.features:
        teacher = experiment.features["caption"].teacher
        return Inputs(TeacherVectors(model, teacher.make_embedder(device, folders)))
    if not experiment.features:
        return Inputs(model)

    caption_head, image_head = read_projections(source.path() / source.beside)
    return Inputs(model, heads=(caption_head.to(device), image_head.to(device)))


def _load_models(
    experiment: Experiment, device: torch.device, folders: Folders
) -> dict[str, Student]:
    """The frozen models that a method has beside its student, by role. Raises UserError."""
    models = {}
    for role, use in experiment.features.items():
        if use.feature.of == "model" and isinstance(use.teacher, ModelTeacher):
            read = use.teacher.model
            folder = read.current().folder(folders)
            what = f"folder of the model {use.teacher.name}"
            model = Student.load(folder, read.source.pooling, what=what)
            models[role] = model.eval().requires_grad_(False).to(device)

    return models


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
    corpora_by_stream: dict[Stream, list[UsedCorpus]] = {}
    for corpus in experiment.corpora:
        corpora_by_stream.setdefault(corpus.stream, []).append(corpus)

    media = {}
    tokens = {}
    texts = {}
    for stream, corpora in corpora_by_stream.items():
        if stream in MEDIA:
            media[stream] = _load_media(run, corpora)
        else:
            tokens[stream] = _load_tokens(run, corpora, tokenizer)
        if run.method.uses_texts():
            texts[stream] = _load_tokens(run, corpora, Utf8())

    reads_pairs = run.features or run.neighbours
    pairs = [load_pairs(corpus) for corpus in corpora_by_stream.get("pairs", []) if reads_pairs]
    features = {}
    for role, use in experiment.features.items():
        if use.feature.of != "model":
            features[role] = use.load(pairs, run.spec.seed, device, folders)

    warnings = list(experiment.remarks)
    loaded: list[Media | Pairs] = [*media.values(), *pairs]
    for content in loaded:
        warnings += content.warnings
    subsets = _draw_subsets(run, tokens)
    image_of = number_images(pairs) if pairs and run.neighbours else None
    phrases = _find_phrases(experiment, pairs, tokenizer)
    if phrases is not None and phrases.cut:
        warnings.append(
            f"{phrases.cut:,} phrases reach beyond the first {run.training.max_length} tokens of "
            "their captions, and are not read"
        )
    return TrainingData(tokens, features, media, subsets, texts, tuple(warnings), image_of, phrases)


def _find_phrases(
    experiment: Experiment, pairs: Sequence[Pairs], tokenizer: PreTrainedTokenizerBase
) -> TokenPhrases | None:
    """The phrases of a run's captions, if its method asks for features of regions."""
    roles = frozenset(
        role for role, use in experiment.features.items() if use.feature.of == "region"
    )
    if not roles:
        return None
    corpora = [corpus for corpus in experiment.corpora if corpus.stream == "pairs"]
    loaded = [
        (content, corpus.loaded_phrases) for content, corpus in zip(pairs, corpora, strict=True)
    ]
    return TokenPhrases.find(loaded, tokenizer, experiment.resolved.training.max_length, roles)


def _load_tokens(
    run: Resolved, corpora: Sequence[UsedCorpus], tokenizer: PreTrainedTokenizerBase | Utf8
) -> Tokens:
    files = [load_token_file(corpus, tokenizer, run.training.max_length) for corpus in corpora]
    return Tokens(files, tokenizer.pad_token_id, corpora[0].read.source.per_row)


def load_token_file(
    corpus: UsedCorpus, tokenizer: PreTrainedTokenizerBase | Utf8, max_length: int
) -> TokenFile:
    """The tokens of a corpus, memory-mapped from the cache; a corpus that is not cached is
    tokenised first.
    """
    expected = partial(corpus.read.source.expected, corpus.read.root)
    return get_tokens(
        corpus.read.fingerprint, corpus.texts, tokenizer, max_length, corpus.name, expected
    )


def _load_media(run: Resolved, corpora: Sequence[UsedCorpus]) -> Media:
    if len(corpora) > 1:
        names = ", ".join(corpus.name for corpus in corpora)
        raise UserError(
            f"the setting {run.spec.setting} has two corpora of the same kind, {names}; keep one"
        )

    read = corpora[0].read
    media = read.current().load(read.root)
    assert isinstance(media, Media)
    return media


def _draw_subsets(run: Resolved, tokens: Mapping[Stream, Tokens]) -> dict[Stream, Subset]:
    """The rows of each stream that the setting's options keep, drawn by the run's seed; larger
    draws contain smaller.

    Raises UserError for a stream that has fewer rows.
    """
    subsets: dict[Stream, Subset] = {}
    for stream, rows in tokens.items():
        part = find_kept_rows(run.options, stream)
        if part is None:
            continue
        if part.rows > len(rows):
            raise UserError(
                f"the setting {run.spec.setting} has only {len(rows)} {stream}; ask for fewer"
            )
        order = make_generator(axis="part", seed=run.spec.seed, stream=stream).permutation(
            len(rows)
        )
        subsets[stream] = Subset(order[: part.rows], part.steps_of_all)

    return subsets
