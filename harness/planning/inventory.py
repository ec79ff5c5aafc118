"""The sources that a profile names, each made once: encoders, corpora, patch embeddings, tasks and
suites.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from harness.census import InputCensus
from harness.code import KnownBy, code_of, code_of_module
from harness.commands import LastPlaces
from harness.corpora.base import CorpusSource
from harness.corpora.caption_layouts import CaptionsLayout
from harness.corpora.images import FeatureFile
from harness.corpora.retrieval import CaptionedFile
from harness.encoders.locate import MAIN, FolderModel, HubModel, ModelSource, noted_model
from harness.errors import UnavailableError, UserError
from harness.evaluation.retrieval import RetrievalSuite, RetrievalTask
from harness.evaluation.sts import OwnPairs
from harness.evaluation.suites import RETRIEVAL, SIMILARITY, OwnTask, SimilarityTask, Suite
from harness.evaluation.transfer import TRANSFER, OwnClasses
from harness.fetching import read_commit
from harness.grid import Resolved, UnfitSettingError
from harness.metrics import AVERAGE
from harness.planning.galleries import ImagesLeftOut, left_out_images
from harness.planning.ingredients import Ingredient, since_changed
from harness.profiles import Profile
from harness.profiles.schema import ClassificationTable, ModelTable, RetrievalTable, SimilarityTable
from harness.registry import errors_of, get, get_class, get_instance, names, suggest
from harness.setting import read_with
from harness.sources import (
    OWN_FILE,
    Checkable,
    Findings,
    data_root,
    digest,
    placed,
    read_by,
)
from harness.spec import RUN, FeatureKind, Stream
from harness.store import Protocol as EvaluationProtocol
from harness.store import Result
from harness.tomlfiles import check_arguments

T = TypeVar("T", bound=Checkable)


@dataclass(frozen=True)
class UsedCorpus:
    """A corpus of a profile, `plain`, and as a run reads it, `read`.

    `stored` are features in files beside it, by what they are features of and by teacher, and
    `pixels` its images, if it has them. Missing files of features that a teacher can compute are
    ignored.
    """

    name: str
    read: Ingredient[CorpusSource]
    plain: Ingredient[CorpusSource]
    stored: Mapping[tuple[FeatureKind, str], Ingredient[FeatureFile]]
    pixels: Ingredient[Checkable] | None

    def check_features(self, teacher: str, of: FeatureKind) -> None:
        """Check, once, that it has features of a teacher, stored, or of images to be computed.
        Raises UserError.
        """
        if (of, teacher) in self._unread_rows:
            return
        if of == "caption":
            unread = self.read.source.check_features(self.read.root, teacher, of)
        else:
            unread = self.plain.source.check_features(self.plain.root, teacher)
        # a corpus of another package may return nothing
        self._unread_rows[of, teacher] = unread or 0

    def count_unread_rows(self, file: Ingredient[Checkable]) -> int:
        """The rows of a file of features of this corpus that belong to none of its images or
        captions; 0 for other files, and for one that was not checked.
        """
        for key, stored in self.stored.items():
            if stored is file:
                return self._unread_rows.get(key, 0)
        return 0

    def texts(self) -> Iterator[str]:
        """The texts of its rows. Raises UserError if they have changed since the run was planned."""
        return self.read.current().texts(self.read.root)

    @cached_property
    def found(self) -> Findings:
        """What reading it shows; nothing while an input is missing. Raises UserError."""
        return self.read.examined

    @cached_property
    def censuses(self) -> dict[tuple[str, Path] | None, InputCensus]:
        """Its censuses by the name and folder of the encoder that reads it."""
        return {}

    @cached_property
    def _unread_rows(self) -> dict[tuple[FeatureKind, str], int]:
        """The rows of stored features that belong to none of its images or captions, of those that
        were checked.
        """
        return {}

    @property
    def stream(self) -> Stream:
        """What its rows are: sentences, pairs, triplets, images or audio."""
        return self.read.source.stream

    @cached_property
    def images(self) -> str:
        """The fingerprint of its images, whichever captions are rows."""
        source = self.read.source
        code = code_of_module(type(source).__module__, self.read.known_by)
        return read_by(source.images_fingerprint(self.read.root), code)


class Inventory:
    """The sources of a profile as ingredients. The same name always gives the same ingredient."""

    def __init__(
        self,
        profile: Profile,
        root: Path | None,
        given: Mapping[str, ModelSource],
        chosen: Collection[str] = (),
        known_by: KnownBy = "syntax",
    ) -> None:
        """`root` is the data root; `given` are encoders by name, which may be absent from the
        profile.

        `chosen` restricts each suite that has some of these tasks to them. `known_by` is the
        notation of other packages' code in fingerprints.
        """
        self.profile, self.root, self.given, self.chosen = profile, root, given, tuple(chosen)
        self.known_by = known_by
        self._found: dict[object, Ingredient[Any]] = {}
        self._corpora: dict[tuple[str, ...], UsedCorpus] = {}
        self._protocols: dict[str, EvaluationProtocol] = {}
        self._left_out: dict[str, ImagesLeftOut] = {}

    @classmethod
    def noted(cls, profile: Profile, places: LastPlaces) -> Inventory:
        """An inventory with the data root and encoder folders that runs of the profile last used."""
        folders = {name: noted_model(at) for name, at in places.encoders.items()}
        return cls(profile, data_root(places.data_root or None), folders)

    @cached_property
    def by_bytes(self) -> Inventory:
        """The same sources with the fingerprints of results that know code by its bytes."""
        return Inventory(self.profile, self.root, self.given, self.chosen, known_by="bytes")

    def __getstate__(self) -> dict[str, object]:
        """Leave out corpora and suites, which are rebuilt on demand: other packages' may not be
        picklable.
        """
        made = {"corpora", "suites", "tasks", "by_bytes", "_corpora"}
        return {
            **{name: value for name, value in vars(self).items() if name not in made},
            "_corpora": {},
        }

    def once(self, source: T) -> Ingredient[T]:
        """The ingredient of a source, the same for equal sources."""
        return self._found.setdefault(source, self._ingredient(source))

    def _ingredient(self, source: T) -> Ingredient[T]:
        return Ingredient(source, self.root, self.known_by)

    def encoder(self, name: str) -> Ingredient[ModelSource]:
        """An encoder by a name of the command line or the profile, or a hub model. Raises
        UnavailableError.
        """
        released = self.profile.released.get(name)
        beside = released.heads or "" if released else ""
        if name in self.given:
            return self.once(replace(self.given[name], beside=beside))
        if name in self.profile.encoders:
            return self.once(self.place("encoder", self.profile.encoders[name]))
        if released:
            return self.once(replace(self.place("encoder", released), beside=beside))
        if "/" in name:
            return self.once(self._hub_model(name, MAIN))
        hint = suggest(name, sorted(self.profile.encoders))
        raise UnavailableError(
            f"the profile '{self.profile.name}' has no encoder '{name}'; {hint} "
            "(a folder: NAME=FOLDER; a hub model: OWNER/NAME@COMMIT)"
        )

    def patches(self, name: str) -> Ingredient[ModelSource]:
        """A pretrained image patch embedding of the profile. Raises UnavailableError."""
        if name not in self.profile.patches:
            hint = suggest(name, sorted(self.profile.patches))
            raise UnavailableError(
                f"the profile '{self.profile.name}' has no patch embedding '{name}'; {hint}"
            )
        return self.once(self.place("teacher", self.profile.patches[name]))

    def place(self, kind: Literal["encoder", "teacher"], table: ModelTable) -> ModelSource:
        """Where a model of the profile is found; `kind` is the kind under which registered models
        are looked up.
        """
        if table.hub is not None:
            return self._hub_model(table.hub, str(table.revision), table.about)
        if table.registered is not None:
            with errors_of(kind, table.registered):
                return FolderModel(get(kind, table.registered)())
        folder = Path(str(table.folder))
        if str(folder).startswith(RUN):
            return FolderModel(
                folder, "train that run first, and name its folder of results with --results"
            )
        if self.root is None and not folder.is_absolute():
            return FolderModel(
                folder, "set the data root that contains it: --data-root or HARNESS_DATA"
            )
        return FolderModel(placed(self.root, str(folder)))

    @cached_property
    def corpora(self) -> dict[str, UsedCorpus]:
        """All corpora of the profile, as it describes them. Raises UserError for an unknown kind or
        option.
        """
        corpora = {}
        for name, table in self.profile.corpora.items():
            kind = get_class("corpus", table.kind, CorpusSource)
            check_arguments(kind, self._place(f"corpora.{name}"), (), table.options)
            with errors_of("corpus", table.kind):
                plain: Ingredient[CorpusSource] = self._ingredient(kind(**table.options))
            corpora[name] = self._used(name, plain, plain)
        return corpora

    def corpus(self, name: str, run: Resolved) -> UsedCorpus:
        """A corpus as a run reads it: with the captions and the noise of its method and setting.

        Raises UserError for a file that is wrong or does not have what the setting's options name,
        and UnfitSettingError for a corpus that does not have what only the method asks for.
        """
        key = (name, str(run.spec.setting), *(type(option).__name__ for option in run.options))
        if key not in self._corpora:
            known = self.corpora[name]
            source = read_with(run.options, known.plain.source)
            typed = run.options[: len(run.spec.setting.options)]
            plain = read_with(typed, known.plain.source)
            if not plain.missing(self.root):
                plain.examined(self.root)
            try:
                if len(typed) < len(run.options) and not source.missing(self.root):
                    source.examined(self.root)
            except UserError as error:
                raise UnfitSettingError(str(error)) from error
            unchanged = source is known.plain.source
            self._corpora[key] = (
                known if unchanged else self._used(name, self._ingredient(source), known.plain)
            )
        return self._corpora[key]

    def dev(self, name: str) -> Ingredient[SimilarityTask]:
        """A similarity task, to select the best checkpoint."""
        return self._task(SIMILARITY, name)

    def retrieval_task(self, name: str) -> Ingredient[RetrievalTask]:
        """A task with images and captions."""
        return self._task(RETRIEVAL, name)

    def left_out(self, task: str) -> ImagesLeftOut:
        """The images of a retrieval task that are left out for every model of the profile, because
        trainings in its settings read them.
        """
        if task not in self._left_out:
            self._left_out[task] = left_out_images(self.retrieval_task(task), self._captioned())
        return self._left_out[task]

    def list_gallery_remarks(self, suite: str) -> list[str]:
        """Lines on images that a suite leaves out. Raises UserError for a task that cannot be read."""
        retrieval = self.suites[suite]
        if not isinstance(retrieval, RetrievalSuite) or retrieval.seen_images == "keep":
            return []
        return [f"{task}: {line}" for task in retrieval.tasks for line in self.left_out(task).lines]

    def _captioned(self) -> dict[str, list[Ingredient[CorpusSource]]]:
        """The corpora of captioned images of each setting that are there, with all their captions."""
        captioned: dict[str, list[Ingredient[CorpusSource]]] = {}
        # what cannot be read here trains no model: its own runs are refused with the reason
        with suppress(UserError):
            for name, corpus in self.corpora.items():
                if corpus.stream != "pairs":
                    continue
                with suppress(UserError):
                    source = self._ingredient(corpus.plain.source.with_captions("all"))
                    if source.missing or not source.fingerprint:
                        continue
                    for setting, table in self.profile.settings.items():
                        if name in table.corpora:
                            captioned.setdefault(setting, []).append(source)
        return captioned

    @cached_property
    def tasks(self) -> dict[str, OwnTask]:
        """The profile's own tasks. Raises UserError for the name of a registered one."""
        return {name: own_task(name, table) for name, table in self.profile.tasks.items()}

    def check_tasks(self, suite: str) -> list[str]:
        """Read the profile's own tasks of a suite; lines that a user should know. Raises UserError
        naming the line.
        """
        named = self.list_selected_tasks(suite) or self.profile.suites[suite].tasks
        read = {name: self.tasks[name] for name in named if name in self.tasks}
        there = {name: task for name, task in read.items() if not task.missing(self.root)}
        return [
            f"{name}: {line}"
            for name, task in there.items()
            for line in task.examined(self.root).remarks
        ]

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The profile's evaluation suites. Raises UserError for an unknown task or option."""
        return {
            name: self._made(name, self.list_selected_tasks(name) or table.tasks)
            for name, table in self.profile.suites.items()
        }

    def list_selected_tasks(self, suite: str) -> tuple[str, ...]:
        """The chosen tasks of a suite, if only some of its tasks are chosen; else empty."""
        tasks = self.profile.suites[suite].tasks
        kept = tuple(task for task in tasks if task in self.chosen)
        return kept if len(kept) < len(tasks) else ()

    def _made(self, name: str, tasks: Sequence[str]) -> Suite:
        options = self.profile.suites[name].options
        suite = get_class("suite", name, Suite)
        check_arguments(suite, self._place(f"suites.{name}"), ((),), options)
        with errors_of("suite", name):
            made = suite([self.tasks.get(task, task) for task in tasks], **options)
        if isinstance(made, RetrievalSuite):
            made.left_out = self._rows_left_out
        return made

    def _rows_left_out(self, task: str) -> tuple[int, ...]:
        return self.left_out(task).rows

    def suite(self, name: str) -> Suite:
        """A suite of the profile. Raises UserError for an unknown name."""
        if name not in self.suites:
            hint = suggest(name, sorted(self.suites))
            raise UserError(f"the profile '{self.profile.name}' has no suite '{name}'; {hint}")
        return self.suites[name]

    def protocol(self, suite: str) -> EvaluationProtocol:
        """How a suite of the profile is scored now: its version, its data (or what is missing), and
        its metrics.
        """
        if suite not in self._protocols:
            self._protocols[suite] = self._protocol_now(suite)
        return self._protocols[suite]

    def check_protocol(self, suite: str) -> None:
        """Raise UserError if the tests of a suite have changed since the run was planned."""
        if self._protocol_now(suite) != self.protocol(suite):
            raise UserError(since_changed(f"the code or a test of the suite '{suite}'"))

    def _protocol_now(self, suite: str) -> EvaluationProtocol:
        protocol = self._protocol_of(self.suites[suite])
        # scores of some tasks have no averages, so they never count as those of a suite of these
        # tasks alone
        part = (
            {"data": digest("some tasks", protocol.data)} if self.list_selected_tasks(suite) else {}
        )
        return protocol.model_copy(update=part)

    def protocols(self, suite: str) -> list[EvaluationProtocol]:
        """Protocols whose scores count for a suite: its own and, if only some tasks are chosen,
        that of all tasks; of a suite of another package, these with the hash of its bytes too.
        """
        accepted = [self.protocol(suite)]
        if self.list_selected_tasks(suite):
            whole = self._made(suite, self.profile.suites[suite].tasks)
            accepted.append(self._protocol_of(whole))
        if self.known_by == "syntax" and code_of("suite", suite):
            accepted += self.by_bytes.protocols(suite)
        return accepted

    def is_scored(self, result: Result, suite: str) -> bool:
        """Whether a result has the scores of a suite, or of all its tasks if only some are chosen."""
        return any(result.has_evaluation(suite, protocol) for protocol in self.protocols(suite))

    def _protocol_of(self, suite: Suite) -> EvaluationProtocol:
        data = read_by(suite.identity(self.root), code_of("suite", suite.name, self.known_by))
        return EvaluationProtocol(version=suite.version, data=data, metrics=suite.list_metrics())

    def _hub_model(self, hub: str, revision: str, about: int | None = None) -> HubModel:
        """A hub model; for 'main', at the commit that was recorded when it was fetched, if there is
        one.
        """
        recorded = read_commit(self.root, hub) if revision == MAIN else None
        return HubModel(hub, recorded or revision, about=about)

    def _used(
        self, name: str, read: Ingredient[CorpusSource], plain: Ingredient[CorpusSource]
    ) -> UsedCorpus:
        pixels = self._ingredient(plain.source.pixels) if plain.source.pixels is not None else None
        seen = pixels is not None and not pixels.missing
        images = plain.source.stored
        captions = plain.source.stored_captions
        files: dict[tuple[FeatureKind, str], FeatureFile] = {
            ("image", name): file for name, file in images.items()
        }
        files |= {("caption", name): file for name, file in captions.items()}
        stored = {key: self._ingredient(file) for key, file in files.items()}
        for (of, teacher), file in [*stored.items()]:
            if file.missing and teacher in self.profile.teachers and (seen or of == "caption"):
                del stored[of, teacher]
        return UsedCorpus(name, read, plain, stored, pixels)

    def _task(self, kind: str, name: str) -> Ingredient[Any]:
        if (kind, name) not in self._found:
            own = self.tasks.get(name)
            source = (
                own if own is not None and own.kind == kind else get_instance(kind, name, Checkable)
            )
            self._found[kind, name] = self._ingredient(source)
        return self._found[kind, name]

    def _place(self, table: str) -> str:
        return f"the profile {self.profile.name}, table [{table}]"


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: registry kinds of tasks
_KINDS = (SIMILARITY, TRANSFER, RETRIEVAL, "mteb task")


class OwnImages(CaptionedFile):
    """Captioned images of a user."""

    kind = RETRIEVAL

    def computes(self, teacher: str, root: Path | None) -> bool:
        """Whether a teacher must compute its features. Raises UserError if it has nothing to."""
        if self.pixels is None and teacher not in self.features:
            raise UserError(
                f"the task '{self.name}' has no images, and no features of the teacher '{teacher}'; name a file of "
                f"them in [tasks.{self.name}.features.{teacher}], or the folder of the images"
            )
        return super().computes(teacher, root)


def check_name(name: str) -> None:
    """Raise UserError for an invalid name, and for one under which scores could be taken for
    another task's.
    """
    if not _NAME.fullmatch(name) or name == AVERAGE or any(name in names(kind) for kind in _KINDS):
        what = (
            "is a name that the harness reserves"
            if _NAME.fullmatch(name)
            else "is not made of letters, digits, '.', '_' and '-'"
        )
        raise UserError(f"the task [tasks.{name}] {what}; rename it in the profile")


def own_task(name: str, table: SimilarityTable | ClassificationTable | RetrievalTable) -> OwnTask:
    """Make a task. Raises UserError as `check_name` does."""
    check_name(name)
    if isinstance(table, SimilarityTable):
        pair = (table.sentence1, table.sentence2, table.score)
        return OwnPairs(
            name, table.file, pair, table.scale, table.subset, table.split, table.ignore
        )
    if isinstance(table, ClassificationTable):
        texts = (table.text, table.text2) if table.text2 else (table.text,)
        files, parts = _files_of_classes(table)
        return OwnClasses(name, files, texts, table.label, parts, table.no_label, table.ignore)
    layout = CaptionsLayout((table.image, table.caption), None, table.image_list, table.ignore)
    features = FeatureFile.of_tables(table.features)
    return OwnImages(
        name,
        table.captions,
        OWN_FILE,
        features,
        table.split,
        table.images,
        layout,
        table.missing_images,
    )


def _files_of_classes(table: ClassificationTable) -> tuple[dict[str, str], dict[str, str]]:
    """The file of each split of a task, and the part of it that is read, where it is not all."""
    if table.file is not None and table.splits:
        parts = {str(split): part for split, part in table.splits.items()}
        return dict.fromkeys(parts, table.file), parts

    files = {"all": table.file, "train": table.train, "dev": table.dev, "test": table.test}
    given = {split: file for split, file in files.items() if file}
    return given, dict.fromkeys(given, table.split) if table.split else {}
