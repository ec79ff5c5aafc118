"""Everything that a profile names, each thing found once: encoders, corpora, patch embeddings, tasks and suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar, cast

from harness.corpora.base import CorpusSource
from harness.encoders.locate import FolderModel, HubModel, ModelSource, cached_revision
from harness.errors import UserError
from harness.evaluation.suites import SimilarityTask, Suite
from harness.grid import Resolved
from harness.inputs import Stream
from harness.profiles import Profile
from harness.profiles.schema import ModelTable
from harness.registry import get, suggest
from harness.setting import read_with
from harness.sources import Missing
from harness.store import Protocol as EvaluationProtocol


class Checkable(Protocol):
    """What a source says of itself before it is loaded."""

    def missing(self, root: Path | None) -> list[Missing]:
        """What is absent below the data root."""

    def fingerprint(self, root: Path | None) -> str:
        """A hash of the content (hex)."""


S = TypeVar("S", bound=Checkable, covariant=True)
T = TypeVar("T", bound=Checkable)


@dataclass(frozen=True)
class Ingredient(Generic[S]):
    """One source that a run reads, below a data root; `source` loads it.

    What is missing and the fingerprint are computed once and travel with the ingredient to other processes.
    """

    source: S
    root: Path | None

    @cached_property
    def missing(self) -> tuple[Missing, ...]:
        """What is absent below the data root."""
        return tuple(self.source.missing(self.root))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content, or which part of it is absent."""
        return f"absent: {self.missing[0].what}" if self.missing else self.source.fingerprint(self.root)


@dataclass(frozen=True)
class UsedCorpus:
    """A corpus of a profile, `plain`, and as a run reads it, `read`.

    `stored` are image features in files beside it, by teacher, and `pixels` its images, if it has them.
    """

    name: str
    read: Ingredient[CorpusSource]
    plain: Ingredient[CorpusSource]
    stored: Mapping[str, Ingredient[Checkable]]
    pixels: Ingredient[Checkable] | None

    @property
    def stream(self) -> Stream:
        """What its rows are: sentences, pairs, triplets, images or audio."""
        return self.read.source.stream


class Inventory:
    """The sources of a profile as ingredients. The same name always gives the same ingredient."""

    def __init__(self, profile: Profile, root: Path | None, given: Mapping[str, ModelSource]) -> None:
        """`root` is the data root; `given` are encoders, by name, that the profile need not have."""
        self.profile, self.root, self.given = profile, root, given
        self._found: dict[Checkable, Ingredient[Checkable]] = {}
        self._corpora: dict[tuple[str, ...], UsedCorpus] = {}
        self._dev: dict[str, Ingredient[SimilarityTask]] = {}
        self._protocols: dict[str, EvaluationProtocol] = {}
        self._retrieval: dict[str, Ingredient[Checkable]] = {}

    def encoder(self, name: str) -> Ingredient[ModelSource]:
        """An encoder by a name of the command line or the profile, or a hub model. Raises UserError."""
        return self.once(self._encoder(name))

    def patches(self, name: str) -> Ingredient[ModelSource]:
        """A pretrained image patch embedding of the profile. Raises UserError."""
        if name not in self.profile.patches:
            hint = suggest(name, sorted(self.profile.patches))
            raise UserError(f"the profile '{self.profile.name}' has no patch embedding '{name}'; {hint}")
        return self.once(self.place("teacher", self.profile.patches[name]))

    def once(self, source: T) -> Ingredient[T]:
        """The ingredient of a source, the same for equal sources."""
        return cast("Ingredient[T]", self._found.setdefault(source, Ingredient(source, self.root)))

    def place(self, kind: Literal["encoder", "teacher"], table: ModelTable) -> ModelSource:
        """Where a model of the profile is found; `kind` is that of registered ones."""
        if table.hub is not None:
            return HubModel(table.hub, str(table.revision))
        if table.registered is not None:
            return FolderModel(get(kind, table.registered)())
        if self.root is None:
            return FolderModel(Path(str(table.folder)), "give the data root it lies in: --data-root or HARNESS_DATA")
        return FolderModel(self.root / str(table.folder))

    @cached_property
    def corpora(self) -> dict[str, UsedCorpus]:
        """All corpora of the profile, as it describes them. Raises UserError for an unknown kind or option."""
        found = {}
        for name in self.profile.corpora:
            plain = Ingredient(self._corpus(name), self.root)
            found[name] = self._used(name, plain, plain)
        return found

    def corpus(self, name: str, run: Resolved) -> UsedCorpus:
        """A corpus as a run reads it: with the captions and the noise of its method and setting."""
        key = (name, str(run.spec.setting), *(type(option).__name__ for option in run.options))
        if key not in self._corpora:
            known = self.corpora[name]
            source = read_with(run.options, known.plain.source)
            unchanged = source is known.plain.source
            self._corpora[key] = known if unchanged else self._used(name, Ingredient(source, self.root), known.plain)
        return self._corpora[key]

    def dev(self, name: str) -> Ingredient[SimilarityTask]:
        """A similarity task, to pick the best checkpoint by."""
        if name not in self._dev:
            self._dev[name] = Ingredient(get("similarity task", name), self.root)
        return self._dev[name]

    def retrieval_content(self, task: str) -> str:
        """The fingerprint of a retrieval task's captions, images and stored features."""
        if task not in self._retrieval:
            self._retrieval[task] = Ingredient(get("retrieval task", task), self.root)
        return self._retrieval[task].fingerprint

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The profile's evaluation suites. Raises UserError for an unknown task or option."""
        return {name: self._suite(name) for name in self.profile.suites}

    def protocol(self, suite: str) -> EvaluationProtocol:
        """How a suite of the profile is scored now: its version, its data, or what is absent of it, and its metrics."""
        if suite not in self._protocols:
            found = self.suites[suite]
            data = found.identity(self.root)
            self._protocols[suite] = EvaluationProtocol(version=found.version, data=data, metrics=found.metrics)
        return self._protocols[suite]

    def _used(self, name: str, read: Ingredient[CorpusSource], plain: Ingredient[CorpusSource]) -> UsedCorpus:
        stored = {key: Ingredient(file, self.root) for key, file in plain.source.stored.items()}
        pixels = plain.source.pixels
        return UsedCorpus(name, read, plain, stored, Ingredient(pixels, self.root) if pixels is not None else None)

    def _encoder(self, name: str) -> ModelSource:
        if name in self.given:
            return self.given[name]
        if name in self.profile.encoders:
            return self.place("encoder", self.profile.encoders[name])
        if "/" not in name:
            hint = suggest(name, sorted(self.profile.encoders))
            raise UserError(
                f"the profile '{self.profile.name}' has no encoder '{name}'; {hint} "
                "(a folder: NAME=FOLDER; a hub model: OWNER/NAME@COMMIT)"
            )
        return HubModel(name, cached_revision(name, "main"))

    def _corpus(self, name: str) -> CorpusSource:
        table = self.profile.corpora[name]
        try:
            source: CorpusSource = get("corpus", table.kind)(**table.options)
        except TypeError as error:
            raise UserError(f"{self._table('corpora', name, error)}; see the kind '{table.kind}'") from error
        return source

    def _suite(self, name: str) -> Suite:
        table = self.profile.suites[name]
        try:
            suite: Suite = get("suite", name)(table.tasks, **table.options)
        except TypeError as error:
            raise UserError(self._table("suites", name, error)) from error
        return suite

    def _table(self, kind: str, name: str, error: TypeError) -> str:
        return f"the profile {self.profile.name}, table [{kind}.{name}]: {str(error).rpartition('__init__() ')[2]}"
