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
from harness.code import KnownBy, hash_code, hash_module_code
from harness.commands import LastPlaces
from harness.corpora.base import CorpusSource, Phrases, PhraseSource
from harness.corpora.caption_layouts import CaptionsLayout
from harness.corpora.images import FeatureFile
from harness.corpora.retrieval import CaptionedFile
from harness.encoders.locate import MAIN, FolderModel, HubModel, ModelSource, parse_model
from harness.errors import UnavailableError, UserError
from harness.evaluation.retrieval import RetrievalSuite, RetrievalTask
from harness.evaluation.sts import OwnPairs
from harness.evaluation.suites import RETRIEVAL, SIMILARITY, OwnTask, SimilarityTask, Suite
from harness.evaluation.transfer import TRANSFER, OwnClasses
from harness.fetching import read_commit
from harness.grid import Resolved, UnfitSettingError
from harness.metrics import AVERAGE
from harness.planning.galleries import ImagesLeftOut, find_left_out_images
from harness.planning.ingredients import Ingredient, describe_change
from harness.profiles import Profile
from harness.profiles.schema import ClassificationTable, ModelTable, RetrievalTable, SimilarityTable
from harness.registry import convert_errors, get, get_class, get_instance, list_registered, suggest
from harness.setting import read_with
from harness.sources import (
    OWN_FILE,
    Checkable,
    Findings,
    digest,
    read_by,
    resolve_data_root,
    resolve_path,
)
from harness.spec import RUN, FeatureKind, Stream
from harness.store import Protocol as EvaluationProtocol
from harness.store import Result
from harness.tomlfiles import check_arguments

T = TypeVar("T", bound=Checkable)


@dataclass(frozen=True)
class UsedCorpus:
    """A corpus of a profile, `plain`, and as a run reads it, `read`.

    `stored` are features in files beside it, by what they are features of and by teacher, `pixels`
    its images and `phrases` those of the captions that are read, if it has them. Missing files of
    features that a teacher can compute are ignored.
    """

    name: str
    read: Ingredient[CorpusSource]
    plain: Ingredient[CorpusSource]
    stored: Mapping[tuple[FeatureKind, str], Ingredient[FeatureFile]]
    pixels: Ingredient[Checkable] | None
    phrases: Ingredient[PhraseSource] | None

    def check_features(self, teacher: str, of: FeatureKind) -> None:
        """Check, once, that it has features of a teacher, stored, or of images to be computed.
        Raises UserError.
        """
        if (of, teacher) in self._unread_rows:
            return

        if of == "region":
            self.check_phrases()
            unread_rows = self.plain.source.check_features(self.plain.root, teacher, of)
        elif of == "caption":
            unread_rows = self.read.source.check_features(self.read.root, teacher, of)
        else:
            unread_rows = self.plain.source.check_features(self.plain.root, teacher)
        # a corpus of another package may return nothing
        self._unread_rows[of, teacher] = unread_rows or 0

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
    def loaded_phrases(self) -> Phrases:
        """The phrases of its captions. Raises UserError if they have changed since the run was
        planned, and if there are none.
        """
        phrases = self.check_phrases()
        return phrases.current().load(phrases.root)

    def check_phrases(self) -> Ingredient[PhraseSource]:
        """The source of the phrases of its captions. Raises UnavailableError if it has none."""
        if self.phrases is None:
            raise UnavailableError(
                f"the corpus '{self.name}' has no phrases with regions of its images; give the "
                "setting a corpus of the kind phrases-file"
            )
        return self.phrases

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
        code = hash_module_code(type(source).__module__, self.read.known_by)
        return read_by(source.images_fingerprint(self.read.root), code)


class Inventory:
    """The sources of a profile as ingredients. The same name always gives the same ingredient."""

    def __init__(
        self,
        profile: Profile,
        root: Path | None,
        own_encoders: Mapping[str, ModelSource],
        selected_tasks: Collection[str] = (),
        known_by: KnownBy = "syntax",
    ) -> None:
        """`root` is the data root; `own_encoders` are the user's by name, which may be absent from
        the profile.

        `selected_tasks` restrict each suite that has some of them to these. `known_by` is the
        notation of other packages' code in fingerprints.
        """
        self.profile = profile
        self.root = root
        self.own_encoders = own_encoders
        self.selected_tasks = tuple(selected_tasks)
        self.known_by = known_by
        self._ingredients: dict[object, Ingredient[Any]] = {}
        self._corpora: dict[tuple[str, ...], UsedCorpus] = {}
        self._protocols: dict[str, EvaluationProtocol] = {}
        self._left_out: dict[str, ImagesLeftOut] = {}

    @classmethod
    def from_places(cls, profile: Profile, places: LastPlaces) -> Inventory:
        """An inventory with the data root and encoder folders that runs of the profile last used."""
        folders = {name: parse_model(folder) for name, folder in places.encoders.items()}
        return cls(profile, resolve_data_root(places.data_root or None), folders)

    @cached_property
    def by_bytes(self) -> Inventory:
        """The same sources with the fingerprints of results that know code by its bytes."""
        return Inventory(
            self.profile, self.root, self.own_encoders, self.selected_tasks, known_by="bytes"
        )

    def __getstate__(self) -> dict[str, object]:
        """Leave out corpora and suites, which are rebuilt on demand: other packages' may not be
        picklable.
        """
        rebuilt = {"corpora", "suites", "tasks", "by_bytes", "_corpora"}
        state = {name: value for name, value in vars(self).items() if name not in rebuilt}
        return {**state, "_corpora": {}}

    def find_ingredient(self, source: T) -> Ingredient[T]:
        """The ingredient of a source, the same for equal sources."""
        return self._ingredients.setdefault(source, self._make_ingredient(source))

    def _make_ingredient(self, source: T) -> Ingredient[T]:
        return Ingredient(source, self.root, self.known_by)

    def find_encoder(self, name: str) -> Ingredient[ModelSource]:
        """An encoder by a name of the command line or the profile, or a hub model. Raises
        UnavailableError.
        """
        released = self.profile.released.get(name)
        beside = ""
        if released and released.heads:
            beside = released.heads

        if name in self.own_encoders:
            return self.find_ingredient(replace(self.own_encoders[name], beside=beside))
        if name in self.profile.encoders:
            return self.find_ingredient(self.find_model("encoder", self.profile.encoders[name]))
        if released:
            model = self.find_model("encoder", released)
            return self.find_ingredient(replace(model, beside=beside))
        if "/" in name:
            return self.find_ingredient(self._find_hub_model(name, MAIN))

        hint = suggest(name, sorted(self.profile.encoders))
        raise UnavailableError(
            f"the profile '{self.profile.name}' has no encoder '{name}'; {hint} "
            "(a folder: NAME=FOLDER; a hub model: OWNER/NAME@COMMIT)"
        )

    def find_patches(self, name: str) -> Ingredient[ModelSource]:
        """A pretrained image patch embedding of the profile. Raises UnavailableError."""
        if name not in self.profile.patches:
            hint = suggest(name, sorted(self.profile.patches))
            raise UnavailableError(
                f"the profile '{self.profile.name}' has no patch embedding '{name}'; {hint}"
            )
        return self.find_ingredient(self.find_model("teacher", self.profile.patches[name]))

    def find_model(self, kind: Literal["encoder", "teacher"], section: ModelTable) -> ModelSource:
        """Where a model of the profile is found; `kind` is the kind under which registered models
        are looked up.
        """
        if section.hub is not None:
            return self._find_hub_model(section.hub, str(section.revision), section.about)
        if section.registered is not None:
            with convert_errors(kind, section.registered):
                return FolderModel(get(kind, section.registered)())

        folder = Path(str(section.folder))
        if str(folder).startswith(RUN):
            return FolderModel(
                folder, "train that run first, and name its folder of results with --results"
            )
        if self.root is None and not folder.is_absolute():
            return FolderModel(
                folder, "set the data root that contains it: --data-root or HARNESS_DATA"
            )
        return FolderModel(resolve_path(self.root, str(folder)))

    @cached_property
    def corpora(self) -> dict[str, UsedCorpus]:
        """All corpora of the profile, as it describes them. Raises UserError for an unknown kind or
        option.
        """
        corpora = {}
        for name, section in self.profile.corpora.items():
            kind = get_class("corpus", section.kind, CorpusSource)
            check_arguments(kind, self._name_section(f"corpora.{name}"), (), section.options)
            with convert_errors("corpus", section.kind):
                plain: Ingredient[CorpusSource] = self._make_ingredient(kind(**section.options))
            corpora[name] = self._make_used_corpus(name, plain, plain)
        return corpora

    def find_corpus(self, name: str, run: Resolved) -> UsedCorpus:
        """A corpus as a run reads it: with the captions and the noise of its method and setting.

        Raises UserError for a file that is wrong or does not have what the setting's options name,
        and UnfitSettingError for a corpus that does not have what only the method asks for.
        """
        key = (name, str(run.spec.setting), *(type(option).__name__ for option in run.options))
        if key in self._corpora:
            return self._corpora[key]

        corpus = self.corpora[name]
        source = read_with(run.options, corpus.plain.source)
        options_of_setting = run.options[: len(run.spec.setting.options)]
        source_of_setting = read_with(options_of_setting, corpus.plain.source)
        if not source_of_setting.missing(self.root):
            source_of_setting.examined(self.root)
        try:
            if len(options_of_setting) < len(run.options) and not source.missing(self.root):
                source.examined(self.root)
        except UserError as error:
            raise UnfitSettingError(str(error)) from error

        if source is not corpus.plain.source:
            corpus = self._make_used_corpus(name, self._make_ingredient(source), corpus.plain)
        self._corpora[key] = corpus
        return corpus

    def find_similarity_task(self, name: str) -> Ingredient[SimilarityTask]:
        """A similarity task, such as the one that selects the best checkpoint."""
        return self._find_task(SIMILARITY, name)

    def find_retrieval_task(self, name: str) -> Ingredient[RetrievalTask]:
        """A task with images and captions."""
        return self._find_task(RETRIEVAL, name)

    def find_left_out_images(self, task: str) -> ImagesLeftOut:
        """The images of a retrieval task that are left out for every model of the profile, because
        trainings in its settings read them.
        """
        if task not in self._left_out:
            corpora = self._find_captioned_corpora()
            self._left_out[task] = find_left_out_images(self.find_retrieval_task(task), corpora)
        return self._left_out[task]

    def list_gallery_remarks(self, suite: str) -> list[str]:
        """Lines on images that a suite leaves out. Raises UserError for a task that cannot be read."""
        retrieval = self.suites[suite]
        if not isinstance(retrieval, RetrievalSuite) or retrieval.seen_images == "keep":
            return []

        remarks = []
        for task in retrieval.tasks:
            remarks += [f"{task}: {line}" for line in self.find_left_out_images(task).lines]
        return remarks

    def _find_captioned_corpora(self) -> dict[str, list[Ingredient[CorpusSource]]]:
        """The corpora of captioned images of each setting that are there, with all their captions."""
        corpora: dict[str, list[Ingredient[CorpusSource]]] = {}
        # what cannot be read here trains no model: its own runs are refused with the reason
        with suppress(UserError):
            for name, corpus in self.corpora.items():
                if corpus.stream != "pairs":
                    continue

                with suppress(UserError):
                    with_captions = corpus.plain.source.with_captions("all")
                    source = self._make_ingredient(with_captions)
                    if source.missing or not source.fingerprint:
                        continue
                    for setting, section in self.profile.settings.items():
                        if name in section.corpora:
                            corpora.setdefault(setting, []).append(source)
        return corpora

    @cached_property
    def tasks(self) -> dict[str, OwnTask]:
        """The profile's own tasks. Raises UserError for the name of a registered one."""
        return {name: make_own_task(name, section) for name, section in self.profile.tasks.items()}

    def check_tasks(self, suite: str) -> list[str]:
        """Read the profile's own tasks of a suite; lines that a user should know. Raises UserError
        naming the line.
        """
        names_of_tasks = self.list_selected_tasks(suite) or self.profile.suites[suite].tasks
        own_tasks = {name: self.tasks[name] for name in names_of_tasks if name in self.tasks}
        present = [name for name, task in own_tasks.items() if not task.missing(self.root)]

        lines = []
        for name in present:
            findings = own_tasks[name].examined(self.root)
            lines += [f"{name}: {line}" for line in findings.remarks]
        return lines

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The profile's evaluation suites. Raises UserError for an unknown task or option."""
        return {
            name: self._make_suite(name, self.list_selected_tasks(name) or section.tasks)
            for name, section in self.profile.suites.items()
        }

    def list_selected_tasks(self, suite: str) -> tuple[str, ...]:
        """The selected tasks of a suite, if only some of its tasks are selected; else empty."""
        tasks = self.profile.suites[suite].tasks
        selected = tuple(task for task in tasks if task in self.selected_tasks)
        return selected if len(selected) < len(tasks) else ()

    def _make_suite(self, name: str, tasks: Sequence[str]) -> Suite:
        options = self.profile.suites[name].options
        kind = get_class("suite", name, Suite)
        check_arguments(kind, self._name_section(f"suites.{name}"), ((),), options)
        with convert_errors("suite", name):
            suite = kind([self.tasks.get(task, task) for task in tasks], **options)
        if isinstance(suite, RetrievalSuite):
            suite.left_out = self._find_left_out_rows
        return suite

    def _find_left_out_rows(self, task: str) -> tuple[int, ...]:
        return self.find_left_out_images(task).rows

    def find_suite(self, name: str) -> Suite:
        """A suite of the profile. Raises UserError for an unknown name."""
        if name not in self.suites:
            hint = suggest(name, sorted(self.suites))
            raise UserError(f"the profile '{self.profile.name}' has no suite '{name}'; {hint}")
        return self.suites[name]

    def find_protocol(self, suite: str) -> EvaluationProtocol:
        """How a suite of the profile is scored now: its version, its data (or what is missing), and
        its metrics.
        """
        if suite not in self._protocols:
            self._protocols[suite] = self._make_protocol(suite)
        return self._protocols[suite]

    def check_protocol(self, suite: str) -> None:
        """Raise UserError if the tests of a suite have changed since the run was planned."""
        if self._make_protocol(suite) != self.find_protocol(suite):
            raise UserError(describe_change(f"the code or a test of the suite '{suite}'"))

    def _make_protocol(self, suite: str) -> EvaluationProtocol:
        protocol = self._make_protocol_of(self.suites[suite])
        if not self.list_selected_tasks(suite):
            return protocol
        # scores of some tasks have no averages, so they never count as those of a suite of these
        # tasks alone
        return protocol.model_copy(update={"data": digest("some tasks", protocol.data)})

    def list_protocols(self, suite: str) -> list[EvaluationProtocol]:
        """Protocols whose scores count for a suite: its own and, if only some tasks are selected,
        that of all tasks; of a suite of another package, these with the hash of its bytes too.
        """
        protocols = [self.find_protocol(suite)]
        if self.list_selected_tasks(suite):
            whole = self._make_suite(suite, self.profile.suites[suite].tasks)
            protocols.append(self._make_protocol_of(whole))
        if self.known_by == "syntax" and hash_code("suite", suite):
            protocols += self.by_bytes.list_protocols(suite)
        return protocols

    def is_scored(self, result: Result, suite: str) -> bool:
        """Whether a result has the scores of a suite, or of all its tasks if only some are
        selected.
        """
        return any(
            result.has_evaluation(suite, protocol) for protocol in self.list_protocols(suite)
        )

    def _make_protocol_of(self, suite: Suite) -> EvaluationProtocol:
        data = read_by(suite.identity(self.root), hash_code("suite", suite.name, self.known_by))
        return EvaluationProtocol(version=suite.version, data=data, metrics=suite.list_metrics())

    def _find_hub_model(self, hub: str, revision: str, about: int | None = None) -> HubModel:
        """A hub model; for 'main', at the commit that was recorded when it was fetched, if there is
        one.
        """
        recorded = read_commit(self.root, hub) if revision == MAIN else None
        return HubModel(hub, recorded or revision, about=about)

    def _make_used_corpus(
        self, name: str, read: Ingredient[CorpusSource], plain: Ingredient[CorpusSource]
    ) -> UsedCorpus:
        pixels = None
        if plain.source.pixels is not None:
            pixels = self._make_ingredient(plain.source.pixels)
        has_pixels = pixels is not None and not pixels.missing

        files: dict[tuple[FeatureKind, str], FeatureFile] = {}
        for teacher, file in plain.source.stored.items():
            files["image", teacher] = file
        for teacher, file in plain.source.stored_captions.items():
            files["caption", teacher] = file
        for teacher, file in plain.source.stored_regions.items():
            files["region", teacher] = file

        stored = {}
        for (of, teacher), file in files.items():
            ingredient = self._make_ingredient(file)
            can_be_computed = teacher in self.profile.teachers and (has_pixels or of == "caption")
            if not (ingredient.missing and can_be_computed):
                stored[of, teacher] = ingredient

        phrases = None
        if read.source.phrases is not None:
            phrases = self._make_ingredient(read.source.phrases)
        return UsedCorpus(name, read, plain, stored, pixels, phrases)

    def _find_task(self, kind: str, name: str) -> Ingredient[Any]:
        if (kind, name) not in self._ingredients:
            self._ingredients[kind, name] = self._make_ingredient(self._make_task(kind, name))
        return self._ingredients[kind, name]

    def _make_task(self, kind: str, name: str) -> Checkable:
        """A task of the profile, else a registered one."""
        own_task = self.tasks.get(name)
        if own_task is not None and own_task.kind == kind:
            return own_task
        return get_instance(kind, name, Checkable)

    def _name_section(self, section: str) -> str:
        return f"the profile {self.profile.name}, table [{section}]"


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


def check_task_name(name: str) -> None:
    """Raise UserError for an invalid name, and for one under which scores could be taken for
    another task's.
    """
    fault = ""
    if not _NAME.fullmatch(name):
        fault = "is not made of letters, digits, '.', '_' and '-'"
    elif name == AVERAGE or any(name in list_registered(kind) for kind in _KINDS):
        fault = "is a name that the harness reserves"
    if fault:
        raise UserError(f"the task [tasks.{name}] {fault}; rename it in the profile")


def make_own_task(
    name: str, section: SimilarityTable | ClassificationTable | RetrievalTable
) -> OwnTask:
    """Make a task. Raises UserError as `check_task_name` does."""
    check_task_name(name)
    if isinstance(section, SimilarityTable):
        columns = (section.sentence1, section.sentence2, section.score)
        return OwnPairs(
            name,
            section.file,
            columns,
            section.scale,
            section.subset,
            section.split,
            section.ignore,
        )

    if isinstance(section, ClassificationTable):
        texts = (section.text, section.text2) if section.text2 else (section.text,)
        files, parts = _find_files_of_classes(section)
        return OwnClasses(
            name, files, texts, section.label, parts, section.no_label, section.ignore
        )

    layout = CaptionsLayout(
        (section.image, section.caption), None, section.image_list, section.ignore
    )
    return OwnImages(
        name,
        section.captions,
        OWN_FILE,
        FeatureFile.from_tables(section.features),
        section.split,
        section.images,
        layout,
        section.missing_images,
    )


def _find_files_of_classes(section: ClassificationTable) -> tuple[dict[str, str], dict[str, str]]:
    """The file of each split of a task, and the part of it that is read, where it is not all."""
    if section.file is not None and section.splits:
        parts = {str(split): part for split, part in section.splits.items()}
        return dict.fromkeys(parts, section.file), parts

    file_of_split = {
        "all": section.file,
        "train": section.train,
        "dev": section.dev,
        "test": section.test,
    }
    files = {split: file for split, file in file_of_split.items() if file}
    parts = dict.fromkeys(files, section.split) if section.split else {}
    return files, parts
