"""The sources that a profile names: corpora, encoders, teachers, tasks and suites, resolved once a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.corpora.base import CorpusSource
from harness.corpora.noise import Noisy
from harness.encoders.locate import FolderModel, HubModel, ModelSource, cached_revision
from harness.encoders.teachers import teacher_class
from harness.errors import UserError
from harness.grid import Resolved
from harness.method import Feature
from harness.profiles import Profile
from harness.profiles.schema import ModelTable
from harness.registry import get, suggest
from harness.setting import Captions, setting_options
from harness.sources import Missing, Source, digest
from harness.spec import Variant
from harness.store import Protocol

#: Raised when the fit of `lit` teachers comes to other numbers.
LIT_VERSION = 1
#: what a `lit` teacher gives features of
LIT_GIVES = ("image", "caption")


@dataclass(frozen=True)
class TeacherModel(Source):
    """A frozen model and how it is read."""

    kind: str
    pooling: str
    model: ModelSource

    def missing(self, root: Path | None) -> list[Missing]:
        """What the model lacks."""
        return self.model.missing(root)

    def fingerprint(self, root: Path | None) -> str:
        """The model's; a text encoder's with its pooling."""
        fingerprint = self.model.fingerprint(root)
        return digest(self.kind, self.pooling, fingerprint) if teacher_class(self.kind).pooled else fingerprint


@dataclass(frozen=True)
class LitTeacher(Source):
    """Two projections fitted on a pair corpus over the features of two teachers (see harness/encoders/lit.py)."""

    images: str
    captions: str
    corpus: str

    @property
    def parts(self) -> tuple[Feature, Feature]:
        """The features that are projected."""
        return Feature(self.images, "image"), Feature(self.captions, "caption")

    def missing(self, root: Path | None) -> list[Missing]:
        """Nothing of its own."""
        return []

    def fingerprint(self, root: Path | None) -> str:
        """The version of the fit; what it is fitted on counts beside it."""
        return digest("lit", LIT_VERSION)


TeacherSource = TeacherModel | LitTeacher


class Sources:
    """Everything that a profile's runs read, with the fingerprint of each found out once."""

    def __init__(self, profile: Profile, root: Path | None, given: Mapping[str, ModelSource]) -> None:
        """`root` is the data root; `given` are encoders that a person gave a place of, by name."""
        self.profile, self.root, self.given = profile, root, given
        self._known: dict[int, tuple[Source, list[Missing], str | None]] = {}
        self._read_as: dict[tuple[str, Captions | None, tuple[float, int, int]], CorpusSource] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In another process the same sources have other ids."""
        self.__dict__.update(state)
        self._known = {id(entry[0]): entry for entry in state["_known"].values()}

    @cached_property
    def corpora(self) -> dict[str, CorpusSource]:
        """All corpora of the profile. Raises UserError for an unknown kind or option."""
        return {name: self._corpus(name) for name in self.profile.corpora}

    def dev(self, setting: Variant) -> Any:
        """The similarity task that picks the best checkpoint in a setting."""
        return get("similarity task", self.profile.dev_of(setting.name))

    @cached_property
    def suites(self) -> dict[str, Any]:
        """The profile's evaluation suites. Raises UserError for an unknown task or option."""
        return {name: self._suite(name) for name in self.profile.suites}

    @cached_property
    def protocols(self) -> dict[str, str]:
        """What each suite's scores depend on: its protocol and its data, absent ones named."""
        return {name: suite.identity(self.root) for name, suite in self.suites.items()}

    def protocol(self, suite: str) -> Protocol:
        """How a suite of the profile would be scored now."""
        found = self.suites[suite]
        return Protocol(version=found.version, data=self.protocols[suite], metrics=found.metrics)

    def encoder(self, name: str) -> ModelSource:
        """An encoder by a name of the command line or the profile, else by hub name in the local cache."""
        if name in self.given:
            return self.given[name]
        if name in self.profile.encoders:
            return self._model(self.profile.encoders[name], "encoder")
        if "/" not in name:
            hint = suggest(name, sorted(self.profile.encoders))
            raise UserError(
                f"the profile '{self.profile.name}' has no encoder '{name}'; {hint} "
                "(a folder: NAME=FOLDER; a hub model: OWNER/NAME@COMMIT)"
            )
        return HubModel(name, cached_revision(name, "main"))

    def corpus(self, name: str, run: Resolved) -> CorpusSource:
        """A corpus as a run reads it: with the captions of its method or setting, and the setting's noise."""
        options = setting_options(run.spec.setting)
        every = run.method.captions(run.hyperparameters) == "all"
        captions: Captions | None = "all" if every else options.captions
        key = (name, captions, options.noise)
        if key not in self._read_as:
            self._read_as[key] = _read_as(self.corpora[name], captions, options.noise)
        return self._read_as[key]

    def teacher(self, name: str, of: str) -> TeacherSource:
        """A teacher of the profile, to give features of images, captions or tokens. Raises UserError."""
        if name not in self.profile.teachers:
            known = sorted({*self.profile.teachers, *(s for c in self.corpora.values() for s in c.stored)})
            raise UserError(f"the profile '{self.profile.name}' has no teacher '{name}'; {suggest(name, known)}")
        table = self.profile.teachers[name]
        gives = LIT_GIVES if table.kind == "lit" else teacher_class(table.kind).gives
        if of not in gives:
            raise UserError(
                f"the teacher '{name}' ({table.kind}) gives features of {' and '.join(gives)}, "
                f"not of {of}; name another teacher"
            )
        if table.kind == "lit":
            return LitTeacher(str(table.images), str(table.captions), str(table.corpus))
        return TeacherModel(table.kind, table.pooling, self._model(table.model, "teacher"))

    def patches(self, name: str) -> ModelSource:
        """A pretrained image patch embedding of the profile. Raises UserError."""
        if name not in self.profile.patches:
            hint = suggest(name, sorted(self.profile.patches))
            raise UserError(f"the profile '{self.profile.name}' has no patch embedding '{name}'; {hint}")
        return self._model(self.profile.patches[name], "teacher")

    def retrieval_content(self, task: str) -> str:
        """The fingerprint of a retrieval task's captions, images and stored features."""
        return self.fingerprint(get("retrieval task", task))

    def missing(self, source: Any) -> list[Missing]:
        """What a source or suite lacks."""
        return self._about(source)[0]

    def fingerprint(self, source: Any) -> str:
        """The fingerprint of a source or suite; 'absent' where something is missing."""
        missing, value = self._about(source)
        return value or f"absent: {missing[0].what}"

    def _about(self, source: Any) -> tuple[list[Missing], str | None]:
        if id(source) not in self._known:
            missing = source.missing(self.root)
            self._known[id(source)] = (source, missing, None if missing else source.fingerprint(self.root))
        return self._known[id(source)][1:]

    def _model(self, table: ModelTable, kind: str) -> ModelSource:
        if table.hub is not None:
            return HubModel(table.hub, str(table.revision))
        if table.registered is not None:
            return FolderModel(get(kind, table.registered)())
        if self.root is None:
            return FolderModel(Path(str(table.folder)), "give the data root it lies in: --data-root or HARNESS_DATA")
        return FolderModel(self.root / str(table.folder))

    def _suite(self, name: str) -> Any:
        table = self.profile.suites[name]
        try:
            return get("suite", name)(table.tasks, **table.options)
        except TypeError as error:
            why = str(error).rpartition("__init__() ")[2]
            raise UserError(f"the profile {self.profile.name}, table [suites.{name}]: {why}") from error

    def _corpus(self, name: str) -> CorpusSource:
        table = self.profile.corpora[name]
        try:
            source: CorpusSource = get("corpus", table.kind)(**table.options)
        except TypeError as error:
            why = str(error).rpartition("__init__() ")[2]
            raise UserError(
                f"the profile {self.profile.name}, table [corpora.{name}]: {why}; see the kind '{table.kind}'"
            ) from error
        return source


def _read_as(source: CorpusSource, captions: Captions | None, noise: tuple[float, int, int]) -> CorpusSource:
    if source.stream == "pairs" and captions is not None:
        return source.with_captions(captions)
    return Noisy(source, *noise) if source.stream == "triplets" and any(noise) else source
