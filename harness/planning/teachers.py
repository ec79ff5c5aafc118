"""Teachers of every kind: what each needs, what identifies it, and how its features are computed.

A method names a teacher of its profile, `run:KEY` for the encoder of another run, 'default' for the
profile's image teacher, or a control in its place: 'shuffled' assigns the default teacher's
features to the captions in another order (MCSE Table 2), 'random' gives each caption those of a
random row, with replacement (an option of MCSE's public code), 'permuted' exchanges the images, so
that the captions of one image still share their features, and 'noise' replaces them by standard
normal noise. Of regions, 'shuffled' exchanges those of one image, and 'permuted' gives them the
features of those of another image. Features that lie in a file beside a corpus are read; all others
are computed once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.code import KnownBy, hash_code
from harness.corpora.base import Pairs, Phrases, number_images
from harness.corpora.regions import cut_out, shuffle_within_images, take_from_other_images
from harness.encoders.features import ComputeRows, Stacked, load_cached_features
from harness.encoders.locate import HubModel, MissingModel, ModelSource
from harness.encoders.media import DECODING
from harness.encoders.teachers import Teacher, check_vocabulary, get_teacher_features, open_teacher
from harness.errors import UnavailableError, UserError
from harness.evaluation.retrieval import RetrievalTask
from harness.evaluation.suites import HasImages
from harness.method import Feature
from harness.planning.ingredients import Ingredient
from harness.planning.inventory import UsedCorpus
from harness.seeds import make_generator
from harness.sources import (
    Checkable,
    Generated,
    Missing,
    Source,
    digest,
    hash_reading_code,
    list_versions,
    read_by,
)
from harness.spec import FeatureKind

if TYPE_CHECKING:
    from harness.encoders.teacher_kinds import Tower

#: Increased when the fit of `lit` teachers changes its result.
LIT_VERSION = 1
#: Kinds whose fingerprint is that of the model alone; every other kind's includes its name.
BY_MODEL_ALONE = ("open-clip", "timm")
#: Packages whose versions may change a teacher's features.
LIBRARIES = ("open_clip_torch", "pillow", "timm", "tokenizers", "transformers")
#: Rows between two reports, and the most that an interrupted computation loses.
CHUNK = 512
#: what has images or captions to compute features of
FeatureOwner = UsedCorpus | Ingredient[RetrievalTask]
#: n sentences -> (n, f) float32
EmbedTexts = Callable[[Sequence[str]], np.ndarray]
#: the model folders of the runs that are teachers, by fingerprint
Folders = Mapping[str, Path]


def load_pairs(owner: FeatureOwner, of: FeatureKind = "image") -> Pairs:
    """Load a pair corpus, or the images or the captions of a task. Raises MissingData or UserError."""
    loaded: object
    if isinstance(owner, UsedCorpus):
        name = f"corpus '{owner.name}'"
        loaded = owner.read.current().load(owner.read.root)
    else:
        name = f"task '{owner.source.name}'"
        data = owner.current().load(owner.root)
        loaded = data.images if of == "image" else Pairs(data.texts)
    if not isinstance(loaded, Pairs):
        raise UserError(f"the {name} has no image-caption pairs, but teacher features need them")
    return loaded


@dataclass(frozen=True)
class NamedTeacher:
    """A teacher by name, for one kind of feature: read from files beside the pairs, else computed
    by a subclass.

    Teachers of captions read `max_length` tokens, special ones included. `unable` says why a name
    that is not that of a model computes nothing, which UnavailableError says where it has to; its
    stored features can still be read.
    """

    name: str
    of: FeatureKind
    max_length: int
    unable: str = field(default="", kw_only=True)

    @property
    def models(self) -> list[Ingredient[Checkable]]:
        """The models that compute its features of test images and captions."""
        return []

    @property
    def fitted_on(self) -> list[tuple[NamedTeacher, UsedCorpus]]:
        """Teachers, with corpora, whose features it is fitted on before it computes any."""
        return []

    @property
    def fit_in_words(self) -> str:
        """What it was fitted on by the harness; empty for a teacher that others have trained."""
        return ""

    def make_embedder(self, device: str, folders: Folders) -> EmbedTexts:
        """A function from n sentences to the teacher's vectors of them, (n, f) float32."""
        raise UnavailableError(
            self.unable or f"the teacher {self.name} computes no vectors of text"
        )

    def _list_computed_needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        """What computed features of a corpus depend on besides the corpus itself; None stands for
        test images.
        """
        raise UnavailableError(self.unable)

    def _compute(
        self, owner: FeatureOwner, pairs: Pairs, device: str, folders: Folders
    ) -> ComputeRows:
        """A function that computes rows of features; models are loaded on its first call."""
        raise UnavailableError(self.unable)

    @property
    def _sees_images(self) -> bool:
        """Whether its features depend on images, or regions of them, alone."""
        return self.of in ("image", "region")

    def list_needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        """What its features of a corpus depend on besides the corpus itself; None for test images.
        Raises UserError.
        """
        if corpus is None:
            return self._list_computed_needs(None)

        is_stored = self.is_stored(corpus)
        if is_stored or self._sees_images:
            corpus.check_features(self.name, self.of)

        needs: list[Ingredient[Checkable]] = []
        if is_stored:
            needs.append(corpus.stored[self.of, self.name])
        else:
            needs += self._list_computed_needs(corpus)
        if self.of == "region" and corpus.phrases is not None:
            needs.append(corpus.phrases)
        return needs

    def make_key(self, owner: FeatureOwner) -> str:
        """Names everything that its features depend on, before any of it is loaded. Raises
        UserError.
        """
        is_stored = self.is_stored(owner)
        needs: list[Ingredient[Checkable]] = []
        if isinstance(owner, UsedCorpus):
            content = owner.images if self._sees_images else owner.read.fingerprint
            needs = self.list_needs(owner)
        else:
            content = owner.fingerprint
            if not is_stored:
                needs = self.list_needs(None)

        fingerprints = [need.fingerprint for need in needs]
        if is_stored:
            return digest("stored", self.of, self.name, content, fingerprints, hash_reading_code())

        computed = ("computed", self.of, content, fingerprints, list_versions(*LIBRARIES), DECODING)
        if self._sees_images:
            return digest(*computed)
        return digest(*computed, hash_reading_code(), self.max_length)

    def is_stored(self, owner: FeatureOwner) -> bool:
        """Whether its features are read from a file beside the corpus or the task."""
        if isinstance(owner, UsedCorpus):
            return (self.of, self.name) in owner.stored

        if self.of != "image":
            return False
        task = owner.source
        if isinstance(task, HasImages):
            return not task.computes(self.name, owner.root)
        return bool(self.unable)

    @property
    def runs(self) -> set[str]:
        """The fingerprints of the runs that must be trained before it computes features."""
        sources = (model.source for model in self.models)
        return {source.training for source in sources if isinstance(source, RunModel)}

    def find_source(self, corpus: UsedCorpus) -> str:
        """Where its features of a corpus come from: the path of a file, or 'computed'."""
        if not self.is_stored(corpus):
            return "computed"
        return corpus.stored[self.of, self.name].source.files[0]

    def load_features(
        self, owner: FeatureOwner, pairs: Pairs, device: str, folders: Folders
    ) -> np.ndarray:
        """One feature per image, caption, region or list of tokens of `pairs`, the loaded ones, (n,
        ...), mapped from disk.

        Models compute on the device; `folders` has at least those of the teacher's `runs`.
        """
        if isinstance(owner, UsedCorpus):
            is_stored = self.is_stored(owner)
        else:
            is_stored = self.of == "image" and self.name in pairs.features

        reads_pixels = self._sees_images and not is_stored
        if reads_pixels and isinstance(owner, UsedCorpus) and owner.pixels is not None:
            owner.pixels.current()

        key = self.make_key(owner)
        compute_rows = (
            self._read_stored(owner, pairs)
            if is_stored
            else self._compute(owner, pairs, device, folders)
        )
        return load_cached_features(
            key,
            self._count_features(owner, pairs),
            compute_rows,
            dtype="float16" if self.of == "tokens" else "float32",
            chunk=CHUNK,
            subject=f"{self.name}: features of {self.of.removesuffix('s')}s",
        )

    def _count_features(self, owner: FeatureOwner, pairs: Pairs) -> int:
        if self.of == "image":
            return pairs.image_count
        if self.of == "region":
            return len(_find_phrases(owner).images)
        return len(pairs)

    def stack_features(
        self, corpora: Sequence[UsedCorpus], loaded: Sequence[Pairs], device: str, folders: Folders
    ) -> Stacked:
        """One feature per caption, or per region, over several corpora in order."""
        features = [
            self.load_features(corpus, pairs, device, folders)
            for corpus, pairs in zip(corpora, loaded, strict=True)
        ]
        stacked = Stacked(features)
        if self.of == "image":
            return stacked.take(number_images(loaded))
        return stacked

    def _read_stored(self, owner: FeatureOwner, pairs: Pairs) -> ComputeRows:
        if isinstance(owner, UsedCorpus):
            owner.stored[self.of, self.name].current()

        @cache
        def read_all() -> np.ndarray:
            if self.of == "image":
                return pairs.features[self.name]
            if self.of == "region":
                return _find_phrases(owner).features[self.name]
            return pairs.caption_features[self.name]

        return lambda start, stop: read_all()[start:stop]


@dataclass(frozen=True)
class FrozenModel(Source):
    """A pretrained model and how it is read."""

    kind: str
    pooling: str
    precision: str
    model: ModelSource
    known_by: KnownBy = "syntax"

    def missing(self, root: Path | None) -> list[Missing]:
        missing = []
        for item in self.model.missing(root):
            # the kind of teacher decides which files of a model are needed
            if isinstance(item, MissingModel):
                item = replace(item, reader=self.kind)
            missing.append(item)
        return missing

    def fingerprint(self, root: Path | None) -> str:
        """Hash the model, its kind, the pooling if the kind depends on it, their code, and a
        precision below fp32.
        """
        fingerprint = self.model.fingerprint(root)
        if self.precision != "fp32":
            fingerprint = digest(self.precision, fingerprint)
        fingerprint = read_by(fingerprint, hash_code("teacher kind", self.kind, self.known_by))

        _, reads_pooling = get_teacher_features(self.kind)
        if reads_pooling:
            code = hash_code("pooling", self.pooling, self.known_by)
            return digest(self.kind, self.pooling, read_by(fingerprint, code))
        if self.kind in BY_MODEL_ALONE:
            return fingerprint
        return digest(self.kind, fingerprint)

    def folder(self, folders: Folders) -> Path:
        return self.model.path()


@dataclass(frozen=True)
class RunModel(Source):
    """The encoder of a run, finished or not: the run's key, missing data, fingerprint and pooling."""

    key: str
    absent: tuple[Missing, ...]
    training: str
    pooling: str
    kind: ClassVar[str] = "text"
    precision: ClassVar[str] = "fp32"

    def missing(self, root: Path | None) -> list[Missing]:
        return list(self.absent)

    def fingerprint(self, root: Path | None) -> str:
        return self.training

    def folder(self, folders: Folders) -> Path:
        """The model folder of the finished run. Raises UserError if its weights were removed."""
        folder = folders[self.training]
        if not folder.is_dir():
            raise UserError(
                f"{self.key} is a teacher, and its weights are not in {folder}; run the same command without "
                "--no-shared-folder, which trains it again"
            )
        return folder


@dataclass(frozen=True)
class ModelTeacher(NamedTeacher):
    """A pretrained model, or the encoder of a run; features of tokens are those of the run's
    `student`.
    """

    model: Ingredient[FrozenModel | RunModel]
    student: ModelSource

    @property
    def models(self) -> list[Ingredient[Checkable]]:
        return [self.model]

    def _list_computed_needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        if self._sees_images and corpus is not None and corpus.pixels is not None:
            return [self.model, corpus.pixels]
        return [self.model]

    def _compute(
        self, owner: FeatureOwner, pairs: Pairs, device: str, folders: Folders
    ) -> ComputeRows:
        open_once = cache(lambda: self._open(device, folders))
        precision = self.model.source.precision

        def compute_rows(start: int, stop: int) -> np.ndarray:
            from harness.encoders.precision import autocast, set_float32_products  # imports torch

            with set_float32_products(precision, device), autocast(precision, device):
                if self.of == "caption":
                    return open_once().captions(pairs.texts[start:stop])
                if self.of == "tokens":
                    return open_once().tokens(pairs.texts[start:stop], self.max_length)
                if pairs.images is None:
                    raise UserError(
                        "the corpus has no images; name a teacher whose features of it are stored"
                    )
                if self.of == "region":
                    regions = cut_out(pairs.images, _find_phrases(owner), start, stop)
                    return open_once().images(regions)
                return open_once().images(pairs.images[start:stop])

        return compute_rows

    def make_embedder(self, device: str, folders: Folders) -> EmbedTexts:
        teacher = self._open(device, folders)
        precision = self.model.source.precision

        def embed(sentences: Sequence[str]) -> np.ndarray:
            from harness.encoders.precision import autocast, set_float32_products  # imports torch

            with set_float32_products(precision, device), autocast(precision, device):
                return teacher.captions(sentences)

        return embed

    def _open(self, device: str, folders: Folders) -> Teacher:
        source = self.model.current()
        folder = source.folder(folders)
        if self.of == "tokens":
            check_vocabulary(self.student.path(), folder, self.name)
        return open_teacher(
            source.kind, folder, pooling=source.pooling, max_length=self.max_length, device=device
        )


@dataclass(frozen=True)
class LitTeacher(NamedTeacher, Generated):
    """Projections of two teachers' features into one space, fitted on a pair corpus
    (`encoders.teacher_kinds.fit`).
    """

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
    def fit_in_words(self) -> str:
        """`projections of squeezenet and NAME, fitted on flickr8k (6,000 captions)`."""
        fit = f"projections of {self.images.name} and {self.captions.name}, fitted on {self.corpus.name}"
        rows = self.corpus.found.rows
        if not rows:
            return fit
        return f"{fit} ({rows:,} captions)"

    def make_embedder(self, device: str, folders: Folders) -> EmbedTexts:
        _, project_captions = self._fit(device, folders)
        embed_captions = self.captions.make_embedder(device, folders)

        def embed(sentences: Sequence[str]) -> np.ndarray:
            return project_captions(np.asarray(embed_captions(sentences), dtype=np.float32))

        return embed

    @property
    def _sees_images(self) -> bool:
        return False

    def _list_computed_needs(self, corpus: UsedCorpus | None) -> list[Ingredient[Checkable]]:
        """The fit, and both teachers' needs on the corpus and on the one of the fit."""
        corpora = [self.corpus] if corpus is None else [corpus, self.corpus]
        needs: list[Ingredient[Checkable]] = [Ingredient(self, None)]
        for used in corpora:
            needs.append(used.plain)
            needs += self.images.list_needs(used)
            needs += self.captions.list_needs(used)
        return needs

    def _compute(
        self, owner: FeatureOwner, pairs: Pairs, device: str, folders: Folders
    ) -> ComputeRows:
        teacher = self.images if self.of == "image" else self.captions
        fit_once = cache(lambda: self._fit(device, folders))
        load_once = cache(lambda: teacher.load_features(owner, pairs, device, folders))

        def compute_rows(start: int, stop: int) -> np.ndarray:
            project_images, project_captions = fit_once()
            project = project_images if self.of == "image" else project_captions
            return project(np.asarray(load_once()[start:stop], dtype=np.float32))

        return compute_rows

    def _fit(self, device: str, folders: Folders) -> tuple[Tower, Tower]:
        from harness.encoders.teacher_kinds import fit  # imports torch

        corpora = [self.corpus]
        loaded = [load_pairs(self.corpus)]
        images = self.images.stack_features(corpora, loaded, device, folders)
        captions = self.captions.stack_features(corpora, loaded, device, folders)
        return fit(images, captions)


@dataclass(frozen=True)
class RoleFeatures:
    """The features of one role in a method, from a teacher or a control, over the run's pair
    corpora.

    Without corpora, they are features of test images only.
    """

    feature: Feature
    teacher: NamedTeacher
    corpora: tuple[UsedCorpus, ...]

    @cached_property
    def needs(self) -> tuple[Ingredient[Checkable], ...]:
        """What the features depend on besides the corpora themselves. Raises UserError."""
        needs: list[Ingredient[Checkable]] = []
        for corpus in self.corpora or (None,):
            needs += self.teacher.list_needs(corpus)
        return tuple(needs)

    @property
    def fingerprints(self) -> list[str]:
        return [need.fingerprint for need in self.needs]

    @property
    def source(self) -> str:
        """Where the features come from, each place once: the path of a file, or 'computed'; of a
        model, the hub's.
        """
        if self.feature.of == "model":
            models = (getattr(model.source, "model", None) for model in self.teacher.models)
            of_hub = [model for model in models if isinstance(model, HubModel)]
            return ", ".join(f"{model.hub}@{model.revision}" for model in of_hub)

        if self.corpora:
            sources = (self.teacher.find_source(corpus) for corpus in self.corpora)
            return ", ".join(dict.fromkeys(sources))
        return "test images" if self.feature.of == "image" else "computed"

    @property
    def identity(self) -> list[object]:
        """The part of a run's identity that describes the features."""
        identity: list[object] = [self.feature.teacher, self.fingerprints]
        if self.feature.of != "image":
            identity.append(self.feature.of)
        return identity

    def load(
        self, loaded: Sequence[Pairs], seed: int, device: str, folders: Folders
    ) -> Stacked | np.ndarray:
        """One feature per caption of the loaded corpora, (n, ...); controls are drawn with the
        run's seed.
        """
        features = self.teacher.stack_features(self.corpora, loaded, device, folders)
        rows = len(features)
        control = self.feature.teacher
        if self.feature.of == "region" and control in ("shuffled", "permuted"):
            images = _number_images_of_regions(self.corpora, loaded)
            exchange = shuffle_within_images if control == "shuffled" else take_from_other_images
            return features.take(exchange(images, seed))

        if control == "shuffled":
            order = make_generator(axis="shuffled images", seed=seed).permutation(rows)
            return features.take(order)

        if control == "random":
            drawn_rows = make_generator(axis="random images", seed=seed).integers(rows, size=rows)
            return features.take(drawn_rows)

        if control == "permuted":
            _, first_rows, image_of = np.unique(
                number_images(loaded), return_index=True, return_inverse=True
            )
            row_of_image = make_generator(axis="permuted images", seed=seed).permutation(first_rows)
            return features.take(row_of_image[image_of])

        if control == "noise":
            noise = make_generator(axis="noise images", seed=seed)
            return noise.standard_normal(features.shape, dtype=np.float32)
        return features


def _find_phrases(owner: FeatureOwner) -> Phrases:
    """The phrases of a corpus. Raises UnavailableError for a task, which has none."""
    if not isinstance(owner, UsedCorpus):
        raise UnavailableError(f"the task '{owner.source.name}' has no phrases with regions")
    return owner.loaded_phrases


def _number_images_of_regions(corpora: Sequence[UsedCorpus], loaded: Sequence[Pairs]) -> np.ndarray:
    """The image of each region of several corpora in order, (r,), numbered over all of them."""
    numbers = []
    first_number = 0
    for corpus, pairs in zip(corpora, loaded, strict=True):
        numbers.append(corpus.loaded_phrases.images + first_number)
        first_number += pairs.image_count
    return np.concatenate(numbers)
