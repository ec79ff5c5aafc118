"""Experiments: resolved runs with everything that their training reads, before any of it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from harness.census import InputCensus
from harness.code import code_of
from harness.encoders.contents import remarks_on
from harness.encoders.locate import ModelSource
from harness.encoders.teachers import declared_teacher
from harness.errors import UnavailableError, UserError
from harness.evaluation.suites import SimilarityTask, Suite
from harness.grid import Overrides, Resolved, UnfitSettingError, resolve
from harness.method import Feature
from harness.method.declared import declared_method
from harness.method.inert import inert_note
from harness.metrics import NEVER_READ
from harness.planning.census import (
    census_of_corpus,
    census_of_model,
    census_of_need,
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
from harness.registry import plugin_modules, suggest
from harness.setting import kept_rows
from harness.sources import Checkable, Missing, digest
from harness.spec import (
    CONTROLS,
    RUN,
    UNTRAINED_IMAGES,
    FeatureKind,
    RunSpec,
    Stream,
    find_fresh_size,
)
from harness.store import BACKEND_VERSION
from harness.training.batching import batch_counts, mixed

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

    def _ingredients(self) -> Iterator[Ingredient[Checkable]]:
        """All inputs of the training; some are repeated."""
        yield self.encoder
        yield from (corpus.read for corpus in self.corpora)
        if self.dev is not None or self.resolved.features:
            yield from (need for features in self.features.values() for need in features.needs)
        if self.dev is not None:
            yield self.dev
        yield from self.patches.values()

    def test_features(self, suites: Iterable[Suite]) -> list[tuple[str, NamedTeacher]]:
        """The retrieval tasks of suites, each with every teacher whose features of it they read.

        These are the teacher of images, and that of captions if both have one name.
        """
        image = self.features.get("image")
        caption = self.features.get("caption")
        if image is None:
            return []
        both = caption is not None and image.asked.teacher == caption.asked.teacher
        of_tasks: dict[tuple[str, FeatureKind], NamedTeacher] = {}
        for suite in suites:
            of_tasks |= {(task, "image"): image.teacher for task in suite.image_tasks}
            if caption and both and suite.asks_teacher:
                of_tasks |= {(task, "caption"): caption.teacher for task in suite.image_tasks}
        return [(task, teacher) for (task, _), teacher in of_tasks.items()]

    @property
    def key(self) -> str:
        return str(self.resolved.spec)

    @cached_property
    def missing(self) -> tuple[Missing, ...]:
        """All missing inputs of the training, each once."""
        return tuple(
            dict.fromkeys(item for ingredient in self._ingredients() for item in ingredient.missing)
        )

    def missing_for(self, suite: Suite, root: Path | None) -> tuple[Missing, ...]:
        """Missing inputs of a suite besides its data: the image teacher's models, if they have to
        compute features.

        A run that reads stored features trains without these models; an untrained method needs them
        for test images.
        """
        features = self.features.get("image")
        if features is None or not suite.computes(features.teacher.name, root):
            return ()
        return tuple(
            dict.fromkeys(item for model in features.teacher.models for item in model.missing)
        )

    def unfit_for(self, suite: Suite, root: Path | None) -> str:
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
        batch = self.resolved.training.batch_size
        models = (
            []
            if self.encoder.missing
            else [(f"encoder {self.resolved.spec.encoder}", self.encoder.source)]
        )
        for features in self.features.values():
            read = [need.source for need in features.needs if not need.missing]
            texts = [
                source
                for source in read
                if isinstance(source, FrozenModel) and source.kind == "text"
            ]
            models += [(f"teacher {features.teacher.name}", source.model) for source in texts]
        lines = [
            f"{name}: {line}"
            for name, model in dict.fromkeys(models)
            for line in remarks_on(model.path())
        ]
        lines += [
            f"{corpus.name}: {line}" for corpus in self.corpora for line in corpus.found.remarks
        ]
        lines += warn_of_unknown(self.census)
        if self._leaves_out_text():
            lines.append(self.unread_text)
        for stream, all_rows in self._rows.items():
            kept = kept_rows(self.resolved.options, stream)
            rows = all_rows if kept is None else kept.rows
            if 0 < rows < batch:
                names = ", ".join(corpus.name for corpus in self.corpora if corpus.stream == stream)
                lines.append(
                    f"{names}: {rows} rows, fewer than the batch of {batch}; every batch has {rows}"
                )
        return (*lines, *self._inert_values)

    @property
    def _inert_values(self) -> Iterator[str]:
        """A line on values of the run's variant or of `--set` that only scale its whole loss."""
        run = self.resolved
        method = declared_method(run.spec.variant.name)
        given = {*dict(run.spec.variant.options), *run.overrides}
        if not run.trains or not given & method.options:
            return
        inert = method.inert_options(run.spec.variant.reading, run.layers, {*run.streams.values()})
        if named := [option for option in inert if option in given]:
            yield f"{run.spec.variant.name}: {inert_note(named, f'in {run.spec.setting}')}"

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
            censuses.append(census_of_model(f"encoder {encoder[0]}", self.encoder))
        there = [corpus for corpus in self.corpora if not corpus.read.missing]
        censuses += [census_of_corpus(corpus, encoder) for corpus in there]
        for features in self.features.values():
            for need in features.needs:
                if not need.missing:
                    unread = sum(corpus.count_unread_rows(need) for corpus in there)
                    censuses += census_of_need(features.teacher.name, need, unread)
        return tuple(merge_censuses(censuses))

    @property
    def unread_text(self) -> str:
        """What is said where every step is paired."""
        run = self.resolved
        names = [
            name for name, stream in run.streams.items() if stream in ("sentences", "triplets")
        ]
        return (
            f"{run.spec.variant} uses pairs in every step of {run.spec.setting}: the text "
            f"({', '.join(names)}) {NEVER_READ}"
        )

    def _leaves_out_text(self) -> bool:
        """Whether the mixing of the steps never reads the setting's text, as far as rows are
        counted.
        """
        run = self.resolved
        rows = self._used_rows
        text = rows.get("sentences", 0) + rows.get("triplets", 0)
        pairs = rows.get("pairs", 0)
        return mixed(text, pairs, run.training.batch_size, run.mixing_rule).leaves_out_text

    @property
    def _rows(self) -> dict[Stream, int]:
        """All rows of each stream whose corpora are there and counted."""
        counts: dict[Stream, list[int | None]] = {}
        for corpus in self.corpora:
            counts.setdefault(corpus.stream, []).append(corpus.found.rows)
        return {
            stream: sum(filter(None, some)) for stream, some in counts.items() if None not in some
        }

    @property
    def _used_rows(self) -> dict[Stream, int]:
        """The rows of each stream that decide the number of its batches."""
        rows = self._rows
        for stream, all_rows in rows.items():
            kept = kept_rows(self.resolved.options, stream)
            rows[stream] = all_rows if kept is None or kept.steps_of_all else kept.rows
        return rows

    def check_mixing(self) -> None:
        """Raise UserError if there are more batches of pairs than of text."""
        rows = self._used_rows
        text = rows.get("sentences", 0) + rows.get("triplets", 0)
        batch_counts(text, rows.get("pairs", 0), self.resolved.training.batch_size)

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
        code = {f"{kind} {name}": hashed for (kind, name), hashed in self.code.items() if hashed}
        if self.dev is None:
            heads = {
                role: [source.fingerprint for source in features.needs]
                for role, features in self.features.items()
            }
            return identity | ({"heads": heads} if heads else {}) | ({"code": code} if code else {})
        identity |= {
            "backend": BACKEND_VERSION,
            "training": run.training.identity,
            "setting": run.spec.setting.name,
            "corpora": [corpus.read.fingerprint for corpus in self.corpora],
            "features": {role: features.identity for role, features in self.features.items()},
            "dev": self.dev.fingerprint,
        }
        later: dict[str, object] = {
            "patches": [source.fingerprint for source in self.patches.values()],
            "setting_options": dict(run.spec.setting.options),
            "code": code,
        }
        return {**identity, **{key: value for key, value in later.items() if value}}

    @cached_property
    def fingerprint(self) -> str:
        return digest(self.identity)

    def check_code(self) -> None:
        """Raise UserError if the method, or the code of another package, has changed since the run
        was planned.
        """
        for (kind, name), planned in self.code.items():
            if code_of(kind, name, self.encoder.known_by) != planned:
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
        self._code = cache(partial(code_of, known_by=inventory.known_by))

    @cached_property
    def by_bytes(self) -> Experiments:
        """The same experiments with the fingerprints of results that know code by its bytes."""
        return Experiments(self.inventory.by_bytes, self.overrides)

    def find_for_result(self, run: Resolved, fingerprint: str) -> Experiment:
        """A run in the notation of a result's fingerprint, if that is one of its own; else as `find`."""
        experiment = self.find(run)
        if experiment.fingerprint != fingerprint and plugin_modules():
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
        encoder = inventory.encoder(run.spec.encoder)
        if not run.trains and run.features:
            features = {
                role: self._features(run, asked, ()) for role, asked in run.features.items()
            }
            return Experiment(
                run,
                encoder,
                features=features,
                teachers=self._teachers_of(features),
                code=self._code_of(run, features),
            )
        if not run.trains:
            published = inventory.profile.released.get(run.spec.encoder)
            projected = (
                published is not None
                and published.pooling == run.pooling
                and encoder.source.has_beside
            )
            images = published.images if published and projected else None
            heads = {"image": self._features(run, Feature(images), ())} if images else {}
            return Experiment(run, encoder, features=heads, code=self._code_of(run, heads))
        corpora = tuple(inventory.corpus(name, run) for name in run.streams)
        pairs = tuple(corpus for corpus in corpora if corpus.stream == "pairs")
        features = {role: self._features(run, asked, pairs) for role, asked in run.features.items()}
        named = {stream: steps.patches.pretrained for stream, steps in run.own_steps.items()}
        patches = {
            stream: inventory.patches(name)
            for stream, name in named.items()
            if name and find_fresh_size(name) is None
        }
        read = (encoder, corpora, features, patches, inventory.dev(run.dev))
        return Experiment(run, *read, self._teachers_of(features), self._code_of(run, features))

    def _code_of(
        self, run: Resolved, features: Mapping[str, RoleFeatures]
    ) -> dict[tuple[str, str], str]:
        used = [("method", run.spec.variant.name), ("pooling", run.pooling)]
        used += [("setting option", name) for name, _ in run.spec.setting.options if run.trains]
        used += [("corpus", self.inventory.profile.corpora[name].kind) for name in run.streams]
        models = [model.source for asked in features.values() for model in asked.teacher.models]
        used += [
            ("teacher kind", model.kind)
            for model in models
            if isinstance(model, FrozenModel | RunModel)
        ]
        return {(kind, name): self._code(kind, name) for kind, name in used}

    def _teachers_of(self, features: Mapping[str, RoleFeatures]) -> tuple[Experiment, ...]:
        """The runs that are teachers of some features, each once, after its own teachers."""
        models = [model.source for asked in features.values() for model in asked.teacher.models]
        trained = [self._run(model.key) for model in models if isinstance(model, RunModel)]
        return tuple({each.key: each for run in trained for each in (*run.teachers, run)}.values())

    def _run(self, key: str) -> Experiment:
        """The run that is a teacher under the name `run:KEY`."""
        try:
            return self.find(resolve(self.inventory.profile, RunSpec.parse(key), self.overrides))
        except UnfitSettingError as error:
            raise UnavailableError(f"the teacher {RUN}{key} cannot be trained: {error}") from error

    def _features(
        self, run: Resolved, asked: Feature, corpora: tuple[UsedCorpus, ...]
    ) -> RoleFeatures:
        """The features that a method asks for, over these pair corpora. Raises UserError."""
        name = asked.teacher
        if name == UNTRAINED_IMAGES:
            untrained = self.inventory.profile.untrained_images
            if untrained is None:
                raise UnavailableError(
                    f"{run.spec.variant} needs features of an untrained image network; give the profile a top-level "
                    "key untrained_images = TEACHER"
                )
            name = untrained
            asked = Feature(untrained, asked.of)
        elif name in (*CONTROLS, "default"):
            default = self.inventory.profile.images
            if default is None:
                raise UnavailableError(
                    f"{run.spec.variant} needs image features; give the profile a top-level key images = TEACHER"
                )
            asked = Feature(default, asked.of) if name == "default" else asked
            name = default
        if asked.of == "model":
            return RoleFeatures(asked, self._beside(run, name), ())
        return RoleFeatures(asked, self._named(run, name, asked.of), corpora)

    def _beside(self, run: Resolved, name: str) -> NamedTeacher:
        """A model beside the student: a text teacher or a run, else an encoder of the profile, by
        its first token.
        """
        profile = self.inventory.profile
        table = profile.teachers.get(name)
        if table is not None and table.kind != "text":
            raise UnavailableError(
                f"the teacher '{name}' ({table.kind}) is no encoder of text; name a text teacher, an encoder or a run"
            )
        if table is not None or name not in profile.encoders:
            return self._named(run, name, "caption")
        return self._model(
            run,
            name,
            "caption",
            self._frozen("text", "cls", "fp32", self.inventory.encoder(name).source),
        )

    def _frozen(self, kind: str, pooling: str, precision: str, model: ModelSource) -> FrozenModel:
        return FrozenModel(kind, pooling, precision, model, self.inventory.known_by)

    def _model(
        self, run: Resolved, name: str, of: FeatureKind, model: FrozenModel | RunModel
    ) -> ModelTeacher:
        student = self.inventory.encoder(run.spec.encoder).source
        return ModelTeacher(name, of, run.training.max_length, self.inventory.once(model), student)

    def _named(
        self, run: Resolved, name: str, of: FeatureKind, outer: tuple[str, ...] = ()
    ) -> NamedTeacher:
        """A teacher; `outer` are the `lit` teachers that read its features."""
        profile = self.inventory.profile
        if name in outer:
            raise UserError(
                f"the teacher '{name}' of the profile '{profile.name}' would read its own features; "
                "name other teachers in its keys images and captions"
            )
        length = run.training.max_length
        if why := self._refusal(name, of):
            return NamedTeacher(name, of, length, unable=why)
        table = profile.teachers.get(name)
        if table is None:
            made = self._run(name.removeprefix(RUN))
            return self._model(
                run,
                name,
                of,
                RunModel(made.key, made.missing, made.fingerprint, made.resolved.pooling),
            )
        if table.kind != LIT:
            place = self.inventory.place("teacher", table)
            model = self._frozen(table.kind, table.pooling, table.precision, place)
            return self._model(run, name, of, model)
        images = self._named(run, str(table.images), "image", (*outer, name))
        captions = self._named(run, str(table.captions), "caption", (*outer, name))
        return LitTeacher(
            name, of, length, images, captions, self.inventory.corpus(str(table.corpus), run)
        )

    def _refusal(self, name: str, of: FeatureKind) -> str:
        """Why a teacher's features cannot be computed; empty if they can."""
        profile = self.inventory.profile
        table = profile.teachers.get(name)
        if table is None and not name.startswith(RUN):
            stored = {
                each for corpus in self.inventory.corpora.values() for _, each in corpus.stored
            }
            if name in stored and of == "caption":
                return (
                    f"no file has {name} features of captions, and the profile '{profile.name}' has no model '{name}'; "
                    f"name the file in [corpora.NAME.caption_features.{name}], or another text teacher for the method"
                )
            hint = suggest(name, sorted({*profile.teachers, *stored}))
            return f"the profile '{profile.name}' has no teacher '{name}'; {hint}"
        kind = RunModel.kind if table is None else table.kind
        gives = LIT_GIVES if kind == LIT else declared_teacher(kind)[0]
        if of not in gives:
            given = " and ".join(gives)
            return f"the teacher '{name}' ({kind}) computes features of {given}, not of {of}; name another teacher"
        if table is not None and kind == LIT and table.corpus not in profile.corpora:
            hint = suggest(str(table.corpus), list(profile.corpora))
            why = f"has no corpus '{table.corpus}' to fit the teacher '{name}' on"
            return f"the profile '{profile.name}' {why}; {hint}"
        return ""
