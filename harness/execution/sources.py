"""The sources that a profile names: corpora, encoders, teachers, tasks and suites, resolved once a plan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.corpora.base import CorpusSource
from harness.encoders.locate import FolderModel, HubModel, ModelSource, cached_revision
from harness.errors import UserError
from harness.profiles import Profile
from harness.profiles.schema import ModelTable
from harness.registry import get, suggest
from harness.sources import Missing, Source


class Sources:
    """Everything that a profile's runs read, with the fingerprint of each found out once."""

    def __init__(self, profile: Profile, root: Path | None, given: Mapping[str, ModelSource]) -> None:
        """`root` is the data root; `given` are encoders that a person gave a place of, by name."""
        self.profile, self.root, self.given = profile, root, given
        self._known: dict[int, tuple[Source, list[Missing], str | None]] = {}

    @cached_property
    def corpora(self) -> dict[str, CorpusSource]:
        """All corpora of the profile. Raises UserError for an unknown kind or option."""
        return {name: self._corpus(name) for name in self.profile.corpora}

    @cached_property
    def dev(self) -> Any:
        """The similarity task that picks the best checkpoint."""
        return get("similarity task", self.profile.dev)

    @cached_property
    def suites(self) -> dict[str, Any]:
        """The profile's evaluation suites."""
        return {name: get("suite", name)(table.tasks) for name, table in self.profile.suites.items()}

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

    def teacher(self, name: str) -> ModelSource:
        """An image teacher of the profile."""
        if name not in self.profile.teachers:
            known = sorted({*self.profile.teachers, *(s for c in self.corpora.values() for s in c.stored)})
            raise UserError(f"the profile '{self.profile.name}' has no image teacher '{name}'; {suggest(name, known)}")
        return self._model(self.profile.teachers[name], "teacher")

    def features(self, corpus: str, teacher: str) -> list[Source]:
        """What a teacher's features of a corpus depend on, beside the corpus itself."""
        stored = self.corpora[corpus].stored
        return [stored[teacher]] if teacher in stored else [self.teacher(teacher)]

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
