"""Experiments: resolved runs with everything that their training reads, before any of it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from harness.census import InputCensus
from harness.code import hash_code
from harness.encoders.contents import list_remarks, read_width
from harness.encoders.locate import ModelSource
from harness.encoders.teachers import get_teacher_features
from harness.errors import UnavailableError, UserError
from harness.evaluation.suites import SimilarityTask, Suite
from harness.grid import Overrides, Resolved, UnfitSettingError, resolve
from harness.method import Feature
from harness.method.declared import get_declared_method
from harness.method.inert import describe_inert_options
from harness.method.interface import find_search
from harness.metrics import NEVER_READ
from harness.planning.census import (
    make_corpus_census,
    make_model_census,
    make_need_census,
    merge_censuses,
    warn_of_unknown,
)
from harness.planning.ingredients import Ingredient
from harness.planning.inventory import Inventory, UsedCorpus
from harness.planning.teachers import (
    FrozenModel,
    LitTeacher,
    ModelTeacher,
    NamedTeacher,
    RoleFeatures,
    RunModel,
)
from harness.registry import list_plugin_modules, suggest
from harness.setting import find_kept_rows
from harness.sources import Checkable, Missing, digest
from harness.spec import (
    CONTROLS,
    MEDIA,
    RUN,
    UNTRAINED_IMAGES,
    FeatureKind,
    RunSpec,
    Stream,
    find_fresh_size,
)
from harness.store import BACKEND_VERSION
from harness.training.batching import count_batches, make_mixing

#: the kind of teacher that the harness fits, and the features that it computes
LIT = "lit"
LIT_GIVES: tuple[FeatureKind, ...] = ("image", "caption")


@dataclass(frozen=True)
class Experiment:
    """One run, resolved, with all that its training reads and the runs that are its teachers.

    `corpora` are in the setting's order, `features` by role in the method, `patches` by stream. A
    method that does not train reads its encoder only; its `features` are those that the encoder's
    published heads project. In `teachers`, a teacher follows its own teachers. `code` has hashes of
    other packages' code ('' for this project's), by kind and name.
    """

    resolved: Resolved
    encoder: Ingredient[ModelSource]
    corpora: tuple[UsedCorpus, ...] = ()
    features: Mapping[str, RoleFeatures] = field(default_factory=dict)
    patches: Mapping[Stream, Ingredient[ModelSource]] = field(default_factory=dict)
    dev: Ingredient[SimilarityTask] | None = None
    teachers: tuple[Experiment, ...] = ()
    code: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def _list_ingredients(self) -> Iterator[Ingredient[Checkable]]:
        """All inputs of the training; some are repeated."""
        yield self.encoder
        yield from (corpus.read for corpus in self.corpora)
        if self.dev is not None or self.resolved.features:
            yield from (need for features in self.features.values() for need in features.needs)
        if self.dev is not None:
            yield self.dev
        yield from self.patches.values()

    def list_test_teachers(self, suites: Iterable[Suite]) -> list[tuple[str, NamedTeacher]]:
        """The retrieval tasks of suites, each with every teacher whose features of it they read.

        These are the teacher of images, and that of captions if both have one name.
        """
        image = self.features.get("image")
        caption = self.features.get("caption")
        if image is None:
            return []

        teacher_of_captions = None
        if caption is not None and caption.feature.teacher == image.feature.teacher:
            teacher_of_captions = caption.teacher

        teachers: dict[tuple[str, FeatureKind], NamedTeacher] = {}
        for suite in suites:
            for task in suite.image_tasks:
                teachers[task, "image"] = image.teacher
            if teacher_of_captions is not None and suite.asks_teacher:
                for task in suite.image_tasks:
                    teachers[task, "caption"] = teacher_of_captions
        return [(task, teacher) for (task, _), teacher in teachers.items()]

    @property
    def key(self) -> str:
        return str(self.resolved.spec)

    @property
    def key_without_seed(self) -> str:
        """Variant, setting and encoder."""
        return self.key.rpartition("/")[0]

    @cached_property
    def missing(self) -> tuple[Missing, ...]:
        """All missing inputs of the training, each once."""
        missing = dict[Missing, None]()
        for ingredient in self._list_ingredients():
            missing |= dict.fromkeys(ingredient.missing)
        return tuple(missing)

    def list_missing_models(self, suite: Suite, root: Path | None) -> tuple[Missing, ...]:
        """Missing inputs of a suite besides its data: the image teacher's models, if they have to
        compute features.

        A run that reads stored features trains without these models; an untrained method needs them
        for test images.
        """
        features = self.features.get("image")
        if features is None or not suite.computes(features.teacher.name, root):
            return ()

        missing = dict[Missing, None]()
        for model in features.teacher.models:
            missing |= dict.fromkeys(model.missing)
        return tuple(missing)

    def explain_unfit(self, suite: Suite, root: Path | None) -> str:
        """Why a suite cannot be evaluated, if no file has features of its images and nothing can
        compute them; else empty.
        """
        features = self.features.get("image")
        if features is None or not suite.computes(features.teacher.name, root):
            return ""

        name = features.teacher.name
        if features.teacher.unable:
            return (
                f"no file has {name} features of its images, and the profile has no model '{name}' "
                "that computes them"
            )
        if not suite.has_pictures:
            return f"no file has {name} features of its images, and it has no pictures to compute them from"
        return ""

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know of the models, and of the corpora: odd rows, and fewer than a
        batch has.
        """
        lines = self._list_model_remarks()
        for corpus in self.corpora:
            lines += [f"{corpus.name}: {line}" for line in corpus.found.remarks]
        lines += warn_of_unknown(self.census)
        if self._has_unread_text():
            lines.append(self.unread_text_warning)
        lines += self._list_small_streams()
        lines += self._list_inert_values()
        return tuple(lines)

    def _list_model_remarks(self) -> list[str]:
        """What the files of the encoder and of text teachers show, as far as they are there."""
        models: dict[tuple[str, ModelSource], None] = {}
        if not self.encoder.missing:
            models[f"encoder {self.resolved.spec.encoder}", self.encoder.source] = None
        for features in self.features.values():
            for need in features.needs:
                source = need.source
                if isinstance(source, FrozenModel) and source.kind == "text" and not need.missing:
                    models[f"teacher {features.teacher.name}", source.model] = None

        lines = []
        for name, model in models:
            lines += [f"{name}: {line}" for line in list_remarks(model.path())]
        return lines

    def _list_small_streams(self) -> Iterator[str]:
        """A line for each stream with fewer rows than a batch."""
        batch = self.resolved.training.batch_size
        for stream, all_rows in self._rows_by_stream.items():
            kept_rows = find_kept_rows(self.resolved.options, stream)
            rows = all_rows if kept_rows is None else kept_rows.rows
            if 0 < rows < batch:
                names = ", ".join(corpus.name for corpus in self.corpora if corpus.stream == stream)
                yield f"{names}: {rows} rows, fewer than the batch of {batch}; every batch has {rows}"

    def _list_inert_values(self) -> Iterator[str]:
        """A line on values of the run's variant or of `--set` that only scale its whole loss."""
        run = self.resolved
        method = get_declared_method(run.spec.variant.name)
        set_options = {*dict(run.spec.variant.options), *run.overrides}
        if not run.trains or not set_options & method.options:
            return

        streams = set(run.streams.values())
        inert_options = method.inert_options(run.spec.variant.reading, run.layers, streams)
        inert = [option for option in inert_options if option in set_options]
        if inert:
            yield f"{run.spec.variant.name}: {describe_inert_options(inert, f'in {run.spec.setting}')}"

    @property
    def named_encoder(self) -> tuple[str, Path] | None:
        """The name and the folder of the encoder; None while it is missing."""
        if self.encoder.missing:
            return None
        return self.resolved.spec.encoder, self.encoder.source.path()

    @cached_property
    def census(self) -> tuple[InputCensus, ...]:
        """What was read of each input of the training that is there, and what else lies in it."""
        encoder = self.named_encoder
        censuses = []
        if encoder is not None:
            censuses.append(make_model_census(f"encoder {encoder[0]}", self.encoder))

        corpora = [corpus for corpus in self.corpora if not corpus.read.missing]
        censuses += [make_corpus_census(corpus, encoder) for corpus in corpora]

        for features in self.features.values():
            for need in features.needs:
                if need.missing:
                    continue
                unread_rows = sum(corpus.count_unread_rows(need) for corpus in corpora)
                censuses += make_need_census(features.teacher.name, need, unread_rows)
        return tuple(merge_censuses(censuses))

    @property
    def unread_text_warning(self) -> str:
        """What is said where every step is paired."""
        run = self.resolved
        corpora = [
            name for name, stream in run.streams.items() if stream in ("sentences", "triplets")
        ]
        text = ", ".join(corpora)
        return (
            f"{run.spec.variant} uses pairs in every step of {run.spec.setting}: the text ({text}) "
            f"{NEVER_READ}"
        )

    def _has_unread_text(self) -> bool:
        """Whether the mixing of the steps never reads the setting's text, as far as rows are
        counted.
        """
        run = self.resolved
        text_rows, pair_rows = self._count_rows_for_steps()
        mixing = make_mixing(text_rows, pair_rows, run.training.batch_size, run.mixing_rule)
        return mixing.leaves_out_text

    @property
    def _rows_by_stream(self) -> dict[Stream, int]:
        """All rows of each stream whose corpora are there and counted."""
        counted: dict[Stream, int] = {}
        uncounted = set[Stream]()
        for corpus in self.corpora:
            rows = corpus.found.rows
            if rows is None:
                uncounted.add(corpus.stream)
            else:
                counted[corpus.stream] = counted.get(corpus.stream, 0) + rows
        return {stream: rows for stream, rows in counted.items() if stream not in uncounted}

    def _count_rows_for_steps(self) -> tuple[int, int]:
        """The rows of text and of pairs that decide the numbers of their batches."""
        rows_by_stream = self._rows_by_stream
        for stream in rows_by_stream:
            kept_rows = find_kept_rows(self.resolved.options, stream)
            if kept_rows is not None and not kept_rows.steps_of_all:
                rows_by_stream[stream] = kept_rows.rows

        text_rows = rows_by_stream.get("sentences", 0) + rows_by_stream.get("triplets", 0)
        return text_rows, rows_by_stream.get("pairs", 0)

    def check_mixing(self) -> None:
        """Raise UserError if there are more batches of pairs than of text."""
        text_rows, pair_rows = self._count_rows_for_steps()
        count_batches(text_rows, pair_rows, self.resolved.training.batch_size)

    @property
    def _searched_rows(self) -> dict[Stream, int]:
        """The rows of each stream in which a method's neighbours are searched, as far as they are
        counted; empty for a method that has none.
        """
        if not self.resolved.neighbours:
            return {}
        searched = {}
        for stream, all_rows in self._rows_by_stream.items():
            if stream not in MEDIA:
                kept_rows = find_kept_rows(self.resolved.options, stream)
                searched[stream] = all_rows if kept_rows is None else kept_rows.rows
        return searched

    def describe_searches(self) -> Iterator[str]:
        """A line on the memory of each search for neighbours."""
        run = self.resolved
        for name, search in run.neighbours.items():
            width = self._find_width(search.by)
            for stream, rows in self._searched_rows.items():
                by_index = find_search(rows) == "index"
                # an index has a copy of the vectors
                megabytes = rows * width * 4 * (2 if by_index else 1) / 1e6
                way = "in an index of FAISS" if by_index else "exactly"
                yield (
                    f"{run.spec.variant}: the neighbours '{name}' are searched {way} among {rows:,} "
                    f"rows of {stream}, whose vectors take {megabytes:,.1f} MB"
                )

    def _find_width(self, by: str) -> int:
        """The width of the vectors of the student, or of the model of a role: a run's encoder is
        like the student. 0 if it is not known.
        """
        if by in self.features:
            teacher = self.features[by].teacher
            if isinstance(teacher, ModelTeacher) and isinstance(teacher.model.source, FrozenModel):
                frozen = teacher.model.source.model
                return 0 if teacher.model.missing else read_width(frozen.path())
        return 0 if self.encoder.missing else read_width(self.encoder.source.path())

    def check_neighbours(self) -> None:
        """Raise UnfitSettingError for neighbours of triplets, and UserError for a corpus that is too
        large to be searched without FAISS.
        """
        run = self.resolved
        for rows in self._searched_rows.values():
            find_search(rows)
        if run.neighbours and "triplets" in run.streams.values():
            raise UnfitSettingError(
                f"{run.spec.variant} searches for neighbours of sentences or captions, and the setting "
                f"{run.spec.setting} has triplets"
            )

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that can change the run's weights, by name; no path, no device, no clock."""
        run = self.resolved
        identity: dict[str, Any] = {
            "method": run.spec.variant.name,
            "reading": run.spec.variant.reading,
            "encoder": self.encoder.fingerprint,
            "hyperparameters": dict(run.identity),
            "seed": run.spec.seed,
        }
        code = {
            f"{kind} {name}": code_hash
            for (kind, name), code_hash in self.code.items()
            if code_hash
        }
        if self.dev is None:
            heads = {role: features.fingerprints for role, features in self.features.items()}
            if heads:
                identity["heads"] = heads
            if code:
                identity["code"] = code
            return identity

        identity |= {
            "backend": BACKEND_VERSION,
            "training": run.training.identity,
            "setting": run.spec.setting.name,
            "corpora": [corpus.read.fingerprint for corpus in self.corpora],
            "features": {role: features.identity for role, features in self.features.items()},
            "dev": self.dev.fingerprint,
        }
        # these came later: where they are empty, earlier runs keep their fingerprints
        if self.patches:
            identity["patches"] = [source.fingerprint for source in self.patches.values()]
        if run.spec.setting.options:
            identity["setting_options"] = dict(run.spec.setting.options)
        if code:
            identity["code"] = code
        return identity

    @cached_property
    def fingerprint(self) -> str:
        return digest(self.identity)

    def check_code(self) -> None:
        """Raise UserError if the method, or the code of another package, has changed since the run
        was planned.
        """
        for (kind, name), planned in self.code.items():
            if hash_code(kind, name, self.encoder.known_by) != planned:
                raise UserError(
                    f"the code of the {kind} '{name}' has changed since the run was planned; run the same command again"
                )
        self.resolved.check_declared()

    @property
    def group(self) -> str:
        """The fingerprint without a seed, shared by the seeds of one experiment."""
        return digest({**self.identity, "seed": None})


class Experiments:
    """The experiments of one profile under the same overrides, each resolved once."""

    def __init__(self, inventory: Inventory, overrides: Overrides) -> None:
        self.inventory = inventory
        self.overrides = overrides
        self._known: dict[RunSpec, Experiment] = {}
        self._unfinished: set[RunSpec] = set()
        self._code = cache(partial(hash_code, known_by=inventory.known_by))
        self._resolve_teacher = cache(self._resolve_run)

    @cached_property
    def by_bytes(self) -> Experiments:
        """The same experiments with the fingerprints of results that know code by its bytes."""
        return Experiments(self.inventory.by_bytes, self.overrides)

    def find_for_result(self, run: Resolved, fingerprint: str) -> Experiment:
        """A run in the notation of a result's fingerprint, if that is one of its own; else as `find`."""
        experiment = self.find(run)
        if experiment.fingerprint != fingerprint and list_plugin_modules():
            by_bytes = self.by_bytes.find(run)
            if by_bytes.fingerprint == fingerprint:
                return by_bytes
        return experiment

    def find(self, run: Resolved) -> Experiment:
        """A run with its ingredients and its teachers.

        Raises UserError, UnavailableError for a name that the profile does not have, and
        PlugInError where the code of another package fails.
        """
        if run.spec in self._unfinished:
            raise UserError(
                f"{run.spec} would be its own teacher, directly or through another; name another run"
            )
        if run.spec not in self._known:
            self._unfinished.add(run.spec)
            try:
                self._known[run.spec] = self._complete(run)
            finally:
                self._unfinished.remove(run.spec)
        return self._known[run.spec]

    def _complete(self, run: Resolved) -> Experiment:
        inventory = self.inventory
        encoder = inventory.find_encoder(run.spec.encoder)
        if not run.trains and not run.features:
            heads = self._find_published_heads(run, encoder)
            return Experiment(run, encoder, features=heads, code=self._hash_code(run, heads))

        corpora = tuple(inventory.find_corpus(name, run) for name in run.streams)
        pairs = tuple(corpus for corpus in corpora if corpus.stream == "pairs")
        features = {
            role: self._find_features(run, feature, pairs) for role, feature in run.features.items()
        }
        if not run.trains:
            return Experiment(
                run,
                encoder,
                features=features,
                teachers=self._list_teacher_runs(features),
                code=self._hash_code(run, features),
            )

        patches = {}
        for stream, steps in run.own_steps.items():
            name = steps.patches.pretrained
            if name and find_fresh_size(name) is None:
                patches[stream] = inventory.find_patches(name)

        return Experiment(
            run,
            encoder,
            corpora=corpora,
            features=features,
            patches=patches,
            dev=inventory.find_similarity_task(run.dev),
            teachers=self._list_teacher_runs(features),
            code=self._hash_code(run, features),
        )

    def _find_published_heads(
        self, run: Resolved, encoder: Ingredient[ModelSource]
    ) -> dict[str, RoleFeatures]:
        """The features of test images that the published heads of an encoder project; none where
        it is read in another pooling, or its heads are not there.
        """
        weights = self.inventory.profile.released.get(run.spec.encoder)
        if weights is None or weights.pooling != run.pooling:
            return {}
        if not weights.images or not encoder.source.has_beside:
            return {}
        return {"image": self._find_features(run, Feature(weights.images), ())}

    def _hash_code(
        self, run: Resolved, features: Mapping[str, RoleFeatures]
    ) -> dict[tuple[str, str], str]:
        """Hashes of other packages' code that a run uses, by kind and name."""
        used = [("method", run.spec.variant.name), ("pooling", run.pooling)]
        if run.trains:
            used += [("setting option", name) for name, _ in run.spec.setting.options]
        used += [("corpus", self.inventory.profile.corpora[name].kind) for name in run.streams]
        used += [
            ("teacher kind", model.kind)
            for model in _list_models(features)
            if isinstance(model, FrozenModel | RunModel)
        ]
        return {(kind, name): self._code(kind, name) for kind, name in used}

    def _list_teacher_runs(self, features: Mapping[str, RoleFeatures]) -> tuple[Experiment, ...]:
        """The runs that are teachers of some features, each once, after its own teachers."""
        teachers: dict[str, Experiment] = {}
        for model in _list_models(features):
            if not isinstance(model, RunModel):
                continue
            teacher = self._find_teacher_run(model.key)
            for needed in (*teacher.teachers, teacher):
                teachers[needed.key] = needed
        return tuple(teachers.values())

    def _find_teacher_run(self, key: str) -> Experiment:
        """The run that is a teacher under the name `run:KEY`."""
        try:
            return self.find(self._resolve_teacher(key))
        except UnfitSettingError as error:
            raise UnavailableError(f"the teacher {RUN}{key} cannot be trained: {error}") from error

    def _resolve_run(self, key: str) -> Resolved:
        return resolve(self.inventory.profile, RunSpec.parse(key), self.overrides)

    def _find_features(
        self, run: Resolved, feature: Feature, corpora: tuple[UsedCorpus, ...]
    ) -> RoleFeatures:
        """The features that a method asks for, over these pair corpora. Raises UserError."""
        profile = self.inventory.profile
        name = feature.teacher
        if name == UNTRAINED_IMAGES:
            if profile.untrained_images is None:
                raise UnavailableError(
                    f"{run.spec.variant} needs features of an untrained image network; give the profile a top-level "
                    "key untrained_images = TEACHER"
                )
            name = profile.untrained_images
            feature = Feature(name, feature.of)
        elif name in (*CONTROLS, "default"):
            if profile.images is None:
                raise UnavailableError(
                    f"{run.spec.variant} needs image features; give the profile a top-level key images = TEACHER"
                )
            name = profile.images
            # a control keeps its own name: it exchanges or replaces the teacher's features
            if feature.teacher == "default":
                feature = Feature(name, feature.of)

        if feature.of == "model":
            return RoleFeatures(feature, self._find_model_beside(run, name), ())
        return RoleFeatures(feature, self._find_teacher(run, name, feature.of), corpora)

    def _find_model_beside(self, run: Resolved, name: str) -> NamedTeacher:
        """A model beside the student: a text teacher or a run, else an encoder of the profile, by
        its first token.
        """
        profile = self.inventory.profile
        section = profile.teachers.get(name)
        if section is not None and section.kind != "text":
            raise UnavailableError(
                f"the teacher '{name}' ({section.kind}) is no encoder of text; name a text teacher, an encoder or a run"
            )
        if section is not None or name not in profile.encoders:
            return self._find_teacher(run, name, "caption")

        source = self.inventory.find_encoder(name).source
        model = self._make_frozen_model("text", "cls", "fp32", source)
        return self._make_model_teacher(run, name, "caption", model)

    def _make_frozen_model(
        self, kind: str, pooling: str, precision: str, model: ModelSource
    ) -> FrozenModel:
        return FrozenModel(kind, pooling, precision, model, self.inventory.known_by)

    def _make_model_teacher(
        self, run: Resolved, name: str, of: FeatureKind, model: FrozenModel | RunModel
    ) -> ModelTeacher:
        student = self.inventory.find_encoder(run.spec.encoder).source
        return ModelTeacher(
            name, of, run.training.max_length, self.inventory.find_ingredient(model), student
        )

    def _find_teacher(
        self, run: Resolved, name: str, of: FeatureKind, outer: tuple[str, ...] = ()
    ) -> NamedTeacher:
        """A teacher; `outer` are the `lit` teachers that read its features."""
        profile = self.inventory.profile
        if name in outer:
            raise UserError(
                f"the teacher '{name}' of the profile '{profile.name}' would read its own features; "
                "name other teachers in its keys images and captions"
            )

        max_length = run.training.max_length
        refusal = self._explain_refusal(name, of)
        if refusal:
            return NamedTeacher(name, of, max_length, unable=refusal)

        section = profile.teachers.get(name)
        if section is None:
            trained = self._find_teacher_run(name.removeprefix(RUN))
            pooling = trained.resolved.pooling
            model = RunModel(trained.key, trained.missing, trained.fingerprint, pooling)
            return self._make_model_teacher(run, name, of, model)

        if section.kind == LIT:
            images = self._find_teacher(run, str(section.images), "image", (*outer, name))
            captions = self._find_teacher(run, str(section.captions), "caption", (*outer, name))
            corpus = self.inventory.find_corpus(str(section.corpus), run)
            return LitTeacher(name, of, max_length, images, captions, corpus)

        source = self.inventory.find_model("teacher", section)
        frozen = self._make_frozen_model(section.kind, section.pooling, section.precision, source)
        return self._make_model_teacher(run, name, of, frozen)

    def _explain_refusal(self, name: str, of: FeatureKind) -> str:
        """Why a teacher's features cannot be computed; empty if they can."""
        profile = self.inventory.profile
        section = profile.teachers.get(name)
        if section is None and not name.startswith(RUN):
            return self._explain_unknown_teacher(name, of)

        kind = RunModel.kind if section is None else section.kind
        computed = LIT_GIVES if kind == LIT else get_teacher_features(kind)[0]
        # a region is an image cut out of another one
        is_cut_out = of == "region" and kind != LIT and "image" in computed
        if of not in computed and not is_cut_out:
            kinds = " and ".join(computed)
            return f"the teacher '{name}' ({kind}) computes features of {kinds}, not of {of}; name another teacher"

        if section is not None and kind == LIT and section.corpus not in profile.corpora:
            hint = suggest(str(section.corpus), list(profile.corpora))
            reason = f"has no corpus '{section.corpus}' to fit the teacher '{name}' on"
            return f"the profile '{profile.name}' {reason}; {hint}"
        return ""

    def _explain_unknown_teacher(self, name: str, of: FeatureKind) -> str:
        profile = self.inventory.profile
        stored = set[str]()
        for corpus in self.inventory.corpora.values():
            stored.update(teacher for _, teacher in corpus.stored)

        if name in stored and of == "caption":
            return (
                f"no file has {name} features of captions, and the profile '{profile.name}' has no model '{name}'; "
                f"name the file in [corpora.NAME.caption_features.{name}], or another text teacher for the method"
            )
        hint = suggest(name, sorted({*profile.teachers, *stored}))
        return f"the profile '{profile.name}' has no teacher '{name}'; {hint}"


def _list_models(features: Mapping[str, RoleFeatures]) -> list[Checkable]:
    """The models that compute features, of all roles."""
    models = []
    for role_features in features.values():
        models += [model.source for model in role_features.teacher.models]
    return models
