"""Teachers of every kind: what each needs, what identifies it, and how its features are computed.

A method names a teacher of its profile, `run:KEY` for the encoder of another run, 'default' for the profile's
image teacher, or a control in its place: 'shuffled' assigns the default teacher's features to the captions in another
order (MCSE Table 2), 'random' gives each caption those of a random row, with replacement (an option of MCSE's public
code), 'noise' replaces them by standard normal noise. Features that lie in a file beside a corpus are read; all others
are computed once and kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.code import code_of
from harness.corpora.base import Pairs
from harness.corpora.images import Pixels
from harness.encoders.features import ComputeRows, Stacked, cached_features
from harness.encoders.locate import MissingModel, ModelSource
from harness.encoders.media import DECODING
from harness.encoders.teachers import Teacher, check_vocabulary, declared_teacher, open_teacher
from harness.errors import UnavailableError, UserError
from harness.events import Event, Stage, tell
from harness.method import Feature
from harness.planning.inventory import Ingredient, UsedCorpus, read_by
from harness.seeds import generator
from harness.sources import Checkable, Generated, Missing, Source, digest, installed, reading_code
from harness.spec import FeatureKind

if TYPE_CHECKING:
    from harness.encoders.teacher_kinds import Projections

#: Increased when the fit of `lit` teachers changes its result.
LIT_VERSION = 1
#: Kinds whose fingerprint is that of the model alone; every other kind's includes its name.
BY_MODEL_ALONE = ("open-clip", "timm")
#: Packages whose versions may change a teacher's features.
LIBRARIES = ("open_clip_torch", "pillow", "timm", "tokenizers", "transformers")
#: Rows between two reports, and the most that an interrupted computation loses.
CHUNK = 512


@dataclass(frozen=True)
class KnownPairs:
    """Pairs with the fingerprints of their images and captions, and of their stored features by kind and teacher."""

    pairs: Pairs
    images: str
    captions: str
    stored: Mapping[tuple[FeatureKind, str], str]

    @classmethod
    def of_corpus(cls, corpus: UsedCorpus) -> KnownPairs:
        """Load a pair corpus. Raises MissingData or UserError."""
        read = corpus.read
        loaded = read.current().load(read.root)
        if not isinstance(loaded, Pairs):
            raise UserError(f"the corpus '{corpus.name}' has no image-caption pairs, but teacher features need them")
        stored = {kind: file.fingerprint for kind, file in corpus.stored.items() if file.current()}
        return cls(loaded, read.source.images_fingerprint(read.root), read.fingerprint, stored)

    @classmethod
    def of_content(cls, pairs: Pairs, content: str) -> KnownPairs:
        """Pairs that belong to no corpus, with one fingerprint for their whole content."""
        return cls(pairs, content, content, {("image", teacher): content for teacher in pairs.features})


@dataclass(frozen=True)
class FeatureContext:
    """How the features of one run are computed: for which student (a model folder) and on which device.

    `max_length` is the number of tokens that teachers of captions read, special ones included. `trained` returns the
    model folder of a run that is a teacher, by its fingerprint; the run is trained first if it has to be.
    """

    student: Path
    max_length: int
    device: str
    trained: Callable[[str], Path]


@dataclass(frozen=True)
class NamedTeacher(ABC):
    """A teacher by name, for one kind of feature: read from files beside the pairs, else computed."""

    name: str
    of: FeatureKind
    #: whether it is a model, and not only the name of features in files
    can_compute: ClassVar[bool] = True

    @property
    @abstractmethod
    def models(self) -> list[Ingredient[Checkable]]:
        """The models that compute its features of test images and captions."""

    @property
    def fitted_on(self) -> list[tuple[NamedTeacher, UsedCorpus]]:
        """Teachers, with corpora, whose features it is fitted on before it computes any."""
        return []

    @abstractmethod
    def _needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        """What computed features of a corpus depend on besides the corpus itself; None stands for test images."""

    @abstractmethod
    def _key(self, known: KnownPairs, context: FeatureContext) -> str:
        """Names everything that computed features of these pairs depend on; known without loading a model."""

    @abstractmethod
    def _compute(self, known: KnownPairs, context: FeatureContext) -> ComputeRows:
        """A function that computes rows of features; models are loaded on its first call."""

    @property
    def _sees_images(self) -> bool:
        """Whether its features depend on images alone."""
        return self.of == "image"

    def needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        """What its features of a corpus depend on besides the corpus itself; None for test images. Raises UserError."""
        stored = corpus is not None and self.is_stored(corpus)
        if corpus is not None and (stored or self._sees_images):
            corpus.check_features(self.name, self.of)
        if corpus is not None and stored:
            return [corpus.stored[self.of, self.name]]
        return self._needs(corpus)

    def identity(self, corpus: UsedCorpus, max_length: int) -> list[object]:
        """What its features of a corpus depend on, without loading any of it. Raises UserError."""
        content = corpus.images if self._sees_images else corpus.read.fingerprint
        return self._identity(content, self.needs(corpus), max_length)

    def test_identity(self, content: str, max_length: int) -> list[object]:
        """What its features of the images or captions of a task depend on; `content` is the task's fingerprint."""
        fitted = [corpus.read for _, corpus in self.fitted_on]
        return self._identity(content, [*self.models, *fitted], max_length)

    def _identity(self, content: str, needs: Sequence[Ingredient[Checkable]], max_length: int) -> list[object]:
        read = [need.fingerprint for need in needs]
        return [self.name, self.of, content, read, None if self._sees_images else max_length]

    def is_stored(self, pairs: UsedCorpus | KnownPairs) -> bool:
        """Whether its features of a corpus are read from a file beside it."""
        return (self.of, self.name) in pairs.stored

    @property
    def runs(self) -> set[str]:
        """The fingerprints of the runs that must be trained before it computes features."""
        sources = (model.source for model in self.models)
        return {source.training for source in sources if isinstance(source, RunModel)}

    def source(self, corpus: UsedCorpus) -> str:
        """Where its features of a corpus come from: the path of a file, or 'computed'."""
        return corpus.stored[self.of, self.name].source.files[0] if self.is_stored(corpus) else "computed"

    def key(self, known: KnownPairs, context: FeatureContext) -> str:
        """Names everything that its features of these pairs depend on."""
        if self.is_stored(known):
            content = known.images if self.of == "image" else known.captions
            return digest("stored", reading_code(), content, known.stored[self.of, self.name])
        return self._key(known, context)

    def features(self, known: KnownPairs, context: FeatureContext) -> np.ndarray:
        """One feature per image, caption or list of tokens, (n, ...), mapped from disk."""
        subject = f"{self.name}: features of {self.of.removesuffix('s')}s"
        return cached_features(
            self.key(known, context),
            known.pairs.image_count if self.of == "image" else len(known.pairs),
            self._from_file(known) if self.is_stored(known) else self._compute(known, context),
            dtype="float16" if self.of == "tokens" else "float32",
            chunk=CHUNK,
            report=lambda done, rows: tell(Event("prepare", stage=Stage("features", subject, done, rows))),
        )

    def stacked(self, listed: Sequence[KnownPairs], context: FeatureContext) -> Stacked:
        """One feature per caption, over several corpora in order."""
        parts = Stacked([self.features(known, context) for known in listed])
        if self.of != "image":
            return parts
        pairs = [known.pairs for known in listed]
        starts = np.cumsum([0, *(each.image_count for each in pairs)])
        numbers = [np.arange(len(each)) if each.image_of is None else each.image_of for each in pairs]
        return parts.in_order(np.concatenate([own + start for own, start in zip(numbers, starts, strict=False)]))

    def _from_file(self, known: KnownPairs) -> ComputeRows:
        pairs = known.pairs
        values = cache(lambda: (pairs.features if self.of == "image" else pairs.caption_features)[self.name])
        return lambda start, stop: values()[start:stop]


@dataclass(frozen=True)
class UnavailableTeacher(NamedTeacher):
    """A teacher that cannot compute: trying raises UnavailableError, `reason`. Stored features can still be read."""

    reason: str
    models: ClassVar[list[Ingredient[Checkable]]] = []
    can_compute = False

    def _needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        raise UnavailableError(self.reason)

    def _key(self, known: KnownPairs, context: FeatureContext) -> str:
        raise UnavailableError(self.reason)

    def _compute(self, known: KnownPairs, context: FeatureContext) -> ComputeRows:
        raise UnavailableError(self.reason)


@dataclass(frozen=True)
class FrozenModel(Source):
    """A pretrained model and how it is read."""

    kind: str
    pooling: str
    precision: str
    model: ModelSource

    def missing(self, root: Path | None) -> list[Missing]:
        absent = self.model.missing(root)
        return [replace(item, reader=self.kind) if isinstance(item, MissingModel) else item for item in absent]

    def fingerprint(self, root: Path | None) -> str:
        """Hash the model, its kind, the pooling if the kind depends on it, their code, and a precision below fp32."""
        fingerprint = self.model.fingerprint(root)
        if self.precision != "fp32":
            fingerprint = digest(self.precision, fingerprint)
        fingerprint = read_by(fingerprint, code_of("teacher kind", self.kind))
        if declared_teacher(self.kind).pooled:
            return digest(self.kind, self.pooling, read_by(fingerprint, code_of("pooling", self.pooling)))
        return fingerprint if self.kind in BY_MODEL_ALONE else digest(self.kind, fingerprint)

    def folder(self, context: FeatureContext) -> Path:
        return self.model.path()


@dataclass(frozen=True)
class RunModel(Source):
    """The encoder of a run, finished or not: the run's missing data, its fingerprint and its pooling."""

    absent: tuple[Missing, ...]
    training: str
    pooling: str
    kind: ClassVar[str] = "text"
    precision: ClassVar[str] = "fp32"

    def missing(self, root: Path | None) -> list[Missing]:
        return list(self.absent)

    def fingerprint(self, root: Path | None) -> str:
        return self.training

    def folder(self, context: FeatureContext) -> Path:
        """The model folder of the finished run."""
        return context.trained(self.training)


@dataclass(frozen=True)
class ModelTeacher(NamedTeacher):
    """A pretrained model, or the encoder of a run."""

    model: Ingredient[FrozenModel | RunModel]

    @property
    def models(self) -> list[Ingredient[Checkable]]:
        return [self.model]

    def _needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        pixels = corpus.pixels if corpus is not None and self.of == "image" else None
        return [self.model] if pixels is None else [self.model, pixels]

    def _key(self, known: KnownPairs, context: FeatureContext) -> str:
        """Images and model, or captions, model and length; and the versions of what reads them."""
        model = self.model.fingerprint, self.of, installed(*LIBRARIES)
        if self.of != "image":
            return digest(known.captions, *model, reading_code(), context.max_length)
        files = known.pairs.images
        content = known.images + (files.content() if isinstance(files, Pixels) else "")
        return digest(content, *model, DECODING)

    def _compute(self, known: KnownPairs, context: FeatureContext) -> ComputeRows:
        teacher = cache(lambda: self._opened(context))
        pairs = known.pairs

        def computed(start: int, stop: int) -> np.ndarray:
            if self.of == "caption":
                return teacher().captions(pairs.texts[start:stop])
            if self.of == "tokens":
                return teacher().tokens(pairs.texts[start:stop], context.max_length)
            if pairs.images is None:
                raise UserError("the corpus has no images; name a teacher whose features of it are stored")
            return teacher().images(pairs.images[start:stop])

        def rows(start: int, stop: int) -> np.ndarray:
            from harness.encoders.precision import autocast, float32_products  # imports torch

            precision, device = self.model.source.precision, context.device
            with float32_products(precision, device), autocast(precision, device):
                return computed(start, stop)

        return rows

    def _opened(self, context: FeatureContext) -> Teacher:
        source, length = self.model.source, context.max_length
        folder = self.model.current().folder(context)
        if self.of == "tokens":
            check_vocabulary(context.student, folder, self.name)
        return open_teacher(source.kind, folder, pooling=source.pooling, max_length=length, device=context.device)


@dataclass(frozen=True)
class LitTeacher(NamedTeacher, Generated):
    """Projections of two teachers' features into one space, fitted on a pair corpus (`encoders.teacher_kinds.fit`)."""

    images: NamedTeacher
    captions: NamedTeacher
    corpus: UsedCorpus

    def fingerprint(self, root: Path | None) -> str:
        """A hash of the version of the fit; the inputs of the fit are hashed separately."""
        return digest("lit", LIT_VERSION)

    @property
    def models(self) -> list[Ingredient[Checkable]]:
        return [*self.images.models, *self.captions.models]

    @property
    def fitted_on(self) -> list[tuple[NamedTeacher, UsedCorpus]]:
        """Both teachers' features of the corpus of the fit."""
        return [(self.images, self.corpus), (self.captions, self.corpus)]

    @property
    def _sees_images(self) -> bool:
        return False

    def _needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        """The fit, and both teachers' needs on the corpus and on the one of the fit."""
        needs: list[Ingredient[Checkable]] = [Ingredient(self, None)]
        for used in filter(None, (corpus, self.corpus)):
            needs += [used.plain, *self.images.needs(used), *self.captions.needs(used)]
        return needs

    def _key(self, known: KnownPairs, context: FeatureContext) -> str:
        """The features that are projected, and all that the projections are fitted on."""
        fitted = [need.fingerprint for need in self._needs(self.corpus)]
        inner = self._side.key(known, context)
        return digest("lit", inner, self.corpus.read.fingerprint, fitted, context.max_length)

    def _compute(self, known: KnownPairs, context: FeatureContext) -> ComputeRows:
        fitted = cache(lambda: self._fitted(context))
        features = cache(lambda: self._side.features(known, context))

        def rows(start: int, stop: int) -> np.ndarray:
            tower = fitted().images if self.of == "image" else fitted().captions
            return tower(np.asarray(features()[start:stop], dtype=np.float32))

        return rows

    @property
    def _side(self) -> NamedTeacher:
        return self.images if self.of == "image" else self.captions

    def _fitted(self, context: FeatureContext) -> Projections:
        from harness.encoders.teacher_kinds import fit  # imports torch

        known = KnownPairs.of_corpus(self.corpus)
        return fit(self.images.stacked([known], context), self.captions.stacked([known], context))


@dataclass(frozen=True)
class RoleFeatures:
    """The features of one role in a method, from a teacher or a control, over the run's pair corpora.

    Without corpora, they are features of test images only.
    """

    asked: Feature
    teacher: NamedTeacher
    corpora: tuple[UsedCorpus, ...]

    @cached_property
    def needs(self) -> tuple[Ingredient[Checkable], ...]:
        """What the features depend on besides the corpora themselves. Raises UserError."""
        return tuple(need for corpus in self.corpora or (None,) for need in self.teacher.needs(corpus))

    @property
    def source(self) -> str:
        """Where the features come from, each place once: the path of a file, or 'computed'."""
        return ", ".join(dict.fromkeys(self.teacher.source(corpus) for corpus in self.corpora)) or "test images"

    @property
    def identity(self) -> list[object]:
        """The part of a run's identity that describes the features."""
        parts: list[object] = [self.asked.teacher, [need.fingerprint for need in self.needs]]
        return parts if self.asked.of == "image" else [*parts, self.asked.of]

    def load(self, listed: Sequence[KnownPairs], seed: int, context: FeatureContext) -> Stacked | np.ndarray:
        """One feature per caption of the run's pair corpora, (n, ...); controls are drawn with the run's seed."""
        features = self.teacher.stacked(listed, context)
        rows = len(features)
        if self.asked.teacher == "shuffled":
            return features.in_order(generator(axis="shuffled images", seed=seed).permutation(rows))
        if self.asked.teacher == "random":
            return features.in_order(generator(axis="random images", seed=seed).integers(rows, size=rows))
        if self.asked.teacher == "noise":
            return generator(axis="noise images", seed=seed).standard_normal(features.shape, dtype=np.float32)
        return features
