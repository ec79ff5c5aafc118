"""Experiments: resolved runs with everything that their training reads, before any of it is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from harness.encoders.locate import ModelSource
from harness.errors import UserError
from harness.evaluation.suites import SimilarityTask, Suite
from harness.grid import Overrides, Resolved, UnfitSettingError, resolve
from harness.inputs import FeatureKind, Stream
from harness.method import Feature
from harness.planning.inventory import Ingredient, Inventory, UsedCorpus
from harness.planning.teachers import RUN, FrozenModel, NamedTeacher, RoleFeatures, RunModel, TeacherFinder
from harness.plugin_code import code_of
from harness.sources import Checkable, Missing, digest
from harness.spec import RunSpec, fresh_size
from harness.store import BACKEND_VERSION, Result


@dataclass(frozen=True)
class Ingredients:
    """What one training reads.

    `corpora` are in the setting's order, `features` by role in the method, `patches` by stream. A method that does
    not train reads its encoder only; its `features` are those that published heads of the encoder project.
    """

    encoder: Ingredient[ModelSource]
    corpora: tuple[UsedCorpus, ...] = ()
    features: Mapping[str, RoleFeatures] = field(default_factory=dict)
    patches: Mapping[Stream, Ingredient[ModelSource]] = field(default_factory=dict)
    dev: Ingredient[SimilarityTask] | None = None

    def __iter__(self) -> Iterator[Ingredient[Checkable]]:
        """Every ingredient, some of them more than once."""
        yield self.encoder
        yield from (corpus.read for corpus in self.corpora)
        if self.dev is not None:
            yield from (need for features in self.features.values() for need in features.needs)
            yield self.dev
        yield from self.patches.values()

    @property
    def test_teachers(self) -> Mapping[FeatureKind, NamedTeacher]:
        """What suites have features of: images by the role 'image', and captions where 'caption' has its teacher."""
        image, caption = self.features.get("image"), self.features.get("caption")
        if image is None:
            return {}
        both = caption is not None and image.asked.teacher == caption.asked.teacher
        return {"image": image.teacher, **({"caption": caption.teacher} if caption and both else {})}


@dataclass(frozen=True)
class Experiment:
    """One run, resolved: its values, its ingredients, and the runs that are its teachers.

    A teacher's own teachers come before it. `code` are the hashes of what it runs of other packages, by kind and name.
    """

    resolved: Resolved
    ingredients: Ingredients
    teachers: tuple[Experiment, ...] = ()
    code: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return str(self.resolved.spec)

    @cached_property
    def missing(self) -> tuple[Missing, ...]:
        """All missing inputs of the training, each once."""
        return tuple(dict.fromkeys(item for ingredient in self.ingredients for item in ingredient.missing))

    def missing_for(self, suite: Suite, root: Path | None) -> tuple[Missing, ...]:
        """What is absent that a suite reads besides its data: the models of the image teacher, where it computes.

        A run that reads stored features trains without them; a method that does not train has them for its images only.
        """
        features = self.ingredients.features.get("image")
        if features is None or not suite.computes(features.teacher.name, root):
            return ()
        return tuple(dict.fromkeys(item for model in features.teacher.models for item in model.missing))

    def unfit_for(self, suite: Suite, root: Path | None) -> str:
        """Why a suite cannot be evaluated: its images have features only in files of training data; else empty."""
        features = self.ingredients.features.get("image")
        if features is None or features.teacher.can_compute or not suite.computes(features.teacher.name, root):
            return ""
        name = features.teacher.name
        return f"no file has {name} features of its images, and the profile has no model '{name}' that computes them"

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that can change the run's weights, by name; no path, no device, no clock."""
        run, read = self.resolved, self.ingredients
        identity: dict[str, Any] = {
            "method": run.spec.variant.name,
            "reading": run.spec.variant.reading,
            "encoder": read.encoder.fingerprint,
            "hyperparameters": dict(run.identity),
            "seed": run.spec.seed,
        }
        code = {f"{kind} {name}": found for (kind, name), found in self.code.items()}
        if read.dev is None:
            heads = {role: [source.fingerprint for source in one.needs] for role, one in read.features.items()}
            return identity | ({"heads": heads} if heads else {}) | ({"code": code} if code else {})
        identity |= {
            "backend": BACKEND_VERSION,
            "training": run.training.model_dump(),
            "setting": run.spec.setting.name,
            "corpora": [corpus.read.fingerprint for corpus in read.corpora],
            "features": {role: features.identity for role, features in read.features.items()},
            "dev": read.dev.fingerprint,
        }
        later: dict[str, object] = {
            "patches": [source.fingerprint for source in read.patches.values()],
            "setting_options": dict(run.spec.setting.options),
            "code": code,
        }
        return {**identity, **{key: value for key, value in later.items() if value}}

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the identity."""
        return digest(self.identity)

    def check_code(self) -> None:
        """Raise UserError where this process would run other code of a package than the run was planned with."""
        for (kind, name), planned in self.code.items():
            if code_of(kind, name) != planned:
                raise UserError(
                    f"the code of the {kind} '{name}' has changed since the run was planned; run the same command again"
                )

    @property
    def group(self) -> str:
        """The fingerprint without a seed, shared by the seeds of one experiment."""
        return digest({**self.identity, "seed": None})


class Experiments:
    """The experiments of one profile under the same overrides, each resolved once."""

    def __init__(self, inventory: Inventory, overrides: Overrides) -> None:
        self.inventory, self.overrides = inventory, overrides
        self._known: dict[RunSpec, Experiment] = {}
        self._unfinished: set[RunSpec] = set()
        self._code = cache(code_of)

    def of(self, run: Resolved) -> Experiment:
        """A run with its ingredients and its teachers.

        Raises UserError, and PlugInError where the code of another package fails.
        """
        if run.spec in self._unfinished:
            raise UserError(f"{run.spec} would be its own teacher, directly or through another; name another run")
        if run.spec not in self._known:
            self._unfinished.add(run.spec)
            try:
                self._known[run.spec] = self._complete(run)
            finally:
                self._unfinished.remove(run.spec)
        return self._known[run.spec]

    def _complete(self, run: Resolved) -> Experiment:
        inventory, teachers = self.inventory, dict[str, Experiment]()
        encoder = inventory.encoder(run.spec.encoder)

        def find(name: str) -> RunModel:
            found = self._teacher(name)
            teachers.update({one.key: one for one in (*found.teachers, found)})
            return RunModel(found.missing, found.fingerprint, found.resolved.pooling)

        finder = TeacherFinder(run, inventory, find)
        if not run.trains:
            published = inventory.profile.released.get(run.spec.encoder)
            projected = published is not None and published.pooling == run.pooling and encoder.source.has_beside
            images = published.images if published and projected else None
            heads = {"image": finder.features(Feature(images), ())} if images else {}
            ingredients = Ingredients(encoder, features=heads)
            return Experiment(run, ingredients, code=self._code_of(run, ingredients))
        corpora = tuple(inventory.corpus(name, run) for name in run.streams)
        pairs = [corpus for corpus in corpora if corpus.stream == "pairs"]
        features = {role: finder.features(asked, pairs) for role, asked in run.features.items()}
        named = {stream: steps.patches.pretrained for stream, steps in run.own_steps.items()}
        patches = {
            stream: inventory.patches(name) for stream, name in named.items() if name and fresh_size(name) is None
        }
        ingredients = Ingredients(encoder, corpora, features, patches, inventory.dev(run.dev))
        return Experiment(run, ingredients, tuple(teachers.values()), self._code_of(run, ingredients))

    def _code_of(self, run: Resolved, read: Ingredients) -> dict[tuple[str, str], str]:
        """The hashes of what a run executes of other packages."""
        used = [("method", run.spec.variant.name), ("pooling", run.pooling)]
        used += [("setting option", name) for name, _ in run.spec.setting.options if run.trains]
        used += [("corpus", self.inventory.profile.corpora[name].kind) for name in run.streams]
        models = [model.source for one in read.features.values() for model in one.teacher.models]
        used += [("teacher kind", model.kind) for model in models if isinstance(model, FrozenModel | RunModel)]
        found = {(kind, name): self._code(kind, name) for kind, name in used}
        return {place: code for place, code in found.items() if code}

    def _teacher(self, name: str) -> Experiment:
        """The run that is a teacher under the name `run:KEY`."""
        spec = RunSpec.parse(name.removeprefix(RUN))
        try:
            return self.of(resolve(self.inventory.profile, spec, self.overrides))
        except UnfitSettingError as error:
            raise UserError(f"the teacher {name} cannot be trained: {error}") from error


#: values named in a line; the others are counted
_NAMED = 4


def changes(result: Result, experiment: Experiment) -> tuple[str, ...]:
    """In what a run differs from a result with its key: 'method code', 'data: corpus toy', 'settings: steps 4 -> 8'.

    Results that hold no identity are compared by their values alone; 'data or code' stands for what they do not tell.
    Data is not compared where some of it is missing: then empty where nothing else differs.
    """
    now, then = experiment.identity, result.identity
    lines = [*_code(then, now)] if then else []
    if then and not experiment.missing:
        lines += _data(then, experiment)
    if values := list(_values(result, experiment)):
        more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
        lines.append(f"settings: {', '.join(values[:_NAMED])}{more}")
    if "backend" in now and result.backend != now["backend"]:
        lines.append(f"backend {result.backend} -> {now['backend']}")
    return tuple(lines or ([] if experiment.missing else ["data or code"]))


def _code(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before, after = then.get("code", {}), now.get("code", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield "method code" if name.startswith("method ") else f"code of the {name}"


def _data(then: Mapping[str, Any], experiment: Experiment) -> Iterator[str]:
    """What was read: encoder, corpora, teachers' features, patch embeddings and the dev task."""
    now, read = experiment.identity, experiment.ingredients
    found = ["encoder"] if then["encoder"] != now["encoder"] else []
    if "corpora" in now and "corpora" in then:
        found += _corpora(then["corpora"], now["corpora"], [corpus.name for corpus in read.corpora])
        features = {**then["features"], **now["features"]}
        found += [f"features {role}" for role in features if then["features"].get(role) != now["features"].get(role)]
        found += ["patches"] if then.get("patches") != now.get("patches") else []
        found += ["dev task"] if then["dev"] != now["dev"] else []
    found += ["heads"] if then.get("heads") != now.get("heads") else []
    if found:
        yield f"data: {', '.join(found)}"


def _corpora(then: Sequence[str], now: Sequence[str], names: Sequence[str]) -> list[str]:
    if len(then) != len(now):
        return ["corpora"]
    return [f"corpus {name}" for name, before, after in zip(names, then, now, strict=True) if before != after]


def _values(result: Result, experiment: Experiment) -> Iterator[str]:
    """Values of the method and of the training that differ; older results have more names and fewer than identities."""
    now, then = experiment.identity, result.identity
    for part, stored in (("hyperparameters", "method"), ("training", "training")):
        after: Mapping[str, Any] = now.get(part, {})
        before: Any = then.get(part, {}) if then else result.hyperparameters[stored]
        for name in dict.fromkeys((*after, *(before if then else ()))):
            if (name in before or then) and before.get(name) != after.get(name):
                yield f"{name} {_text(before.get(name))} -> {_text(after.get(name))}"


def _text(value: object) -> str:
    return "default" if value is None else str(value) or "nothing"
