"""methods x settings x encoders x seeds -> runs, each with every value decided."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from harness.errors import PlugInError, UserError
from harness.inputs import Stream
from harness.method import Feature, Hyperparameters, Method, OwnSteps, method_named
from harness.profiles import Profile, Rule, Training, check_readings
from harness.registry import errors_of, get, names, suggest
from harness.setting import Captions, SettingOption, setting_options
from harness.spec import UNTRAINED, RunSpec, Variant

Overrides = Mapping[str, int | float | str | bool]


@dataclass(frozen=True)
class Resolved:
    """A run with every value decided.

    `streams` are the corpora of its setting that the method learns from, in order, each with its stream,
    `features` the teacher features that the method asks for, by role, and `dev` the similarity task that picks the
    best checkpoint.
    `options` are the setting's, and what the method demands of its corpora. `own_steps` are the streams that the method
    trains in steps of their own, `pooling` is how sentence vectors are pooled from the finished encoder.
    """

    spec: RunSpec
    method: type[Method]
    hyperparameters: Hyperparameters
    training: Training
    overrides: Overrides
    streams: Mapping[str, Stream]
    features: Mapping[str, Feature]
    dev: str
    options: tuple[SettingOption, ...]
    own_steps: Mapping[Stream, OwnSteps]
    pooling: str


@dataclass(frozen=True)
class Skipped:
    """A combination that cannot be trained, and why."""

    what: str
    why: str


class UnfitSettingError(UserError):
    """A method that cannot be trained in a setting."""


def expand(
    profile: Profile,
    methods: Sequence[Variant],
    settings: Sequence[Variant],
    encoders: Sequence[str],
    seeds: Sequence[int],
    overrides: Overrides,
) -> tuple[list[Resolved], list[Skipped]]:
    """The runs of a grid, seeds outermost, so that every row of a table has its first seed early.

    Raises UserError for unknown methods, settings and values.
    """
    runs: dict[RunSpec, Resolved] = {}
    skipped: dict[Skipped, None] = {}
    check_overrides(methods, overrides)
    for seed, encoder, setting, variant in itertools.product(seeds, encoders, settings, methods):
        try:
            trains = method_named(variant.name).trains
            check_setting(profile, setting)
            spec = RunSpec(variant, setting if trains else Variant(UNTRAINED), encoder, seed if trains else 0)
            runs[spec] = runs.get(spec) or resolve(profile, spec, overrides)
        except PlugInError as error:
            skipped[Skipped(str(variant), str(error))] = None
        except UnfitSettingError as error:
            skipped[Skipped(f"{variant}/{setting}", str(error))] = None
    return list(runs.values()), list(skipped)


def resolve(profile: Profile, spec: RunSpec, overrides: Overrides) -> Resolved:
    """Decide every value of a run.

    Method: dataclass defaults, the reading's values, the profile's rules, --set, the variant's options.
    Training: the profile's [training] table, its rules, --set. Later ones win.
    Raises UnfitSettingError for a method that cannot be trained in the setting, and UserError.
    """
    method = method_named(spec.variant.name)
    _check_rules(profile.name, profile.hyperparameters)
    training_values: dict[str, Any] = {}
    method_values: dict[str, Any] = {}
    known = _options(spec.variant)
    for layer in (*_rules(profile, spec), overrides):
        for key, value in layer.items():
            if key in Training.model_fields:
                training_values[key] = value
            elif key in known or layer is not overrides:
                method_values[key] = value
    with errors_of("method", spec.variant.name):
        hyperparameters = method.configure(spec.variant.reading, method_values, dict(spec.variant.options))
        pooling = method.pooling(hyperparameters)
    training = _training(profile, training_values)
    decided = spec, method, hyperparameters, training, dict(overrides)
    dev = profile.dev_of(spec.setting.name)
    if not method.trains:
        return Resolved(*decided, {}, {}, dev, (), {}, pooling)
    options = check_setting(profile, spec.setting)
    _check_streams(profile, method, spec.setting)
    streams = _used(profile, method, spec.setting)
    with errors_of("method", spec.variant.name):
        if method.captions(hyperparameters) == "all":
            options = (*options, Captions("all"))
        features, own_steps = _features(spec, method, hyperparameters), dict(method.own_steps(hyperparameters))
    return Resolved(*decided, streams, features, dev, options, own_steps, pooling)


@lru_cache(maxsize=8)
def _check_rules(profile: str, rules: tuple[Rule, ...]) -> None:
    """Refuse a rule that would silently replace values of a method's reading. Raises UserError.

    Methods that fail to import are not checked: they cost only their own runs.
    """
    readings = {}
    for name in names("method"):
        with suppress(PlugInError):
            readings[name] = method_named(name).reading_values
    check_readings(profile, rules, readings)


def _rules(profile: Profile, spec: RunSpec) -> Iterator[dict[str, Any]]:
    variant = spec.variant
    for rule in profile.hyperparameters:
        if rule.matches(variant.name, variant.reading, spec.setting.name, spec.encoder):
            yield rule.values


def _training(profile: Profile, values: Mapping[str, Any]) -> Training:
    try:
        return Training.model_validate({**profile.training.model_dump(), **values})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"the training value '{key}' = {first['input']!r} is refused: {first['msg']}") from error


def _options(variant: Variant) -> set[str]:
    """The names of a method's options."""
    method = method_named(variant.name)
    with errors_of("method", variant.name):
        return set(method.configure(variant.reading).named())


def check_overrides(methods: Sequence[Variant], overrides: Overrides) -> None:
    """Raise UserError for a value of `--set` that neither the training nor any of the methods has."""
    known = set(Training.model_fields)
    for variant in methods:
        with suppress(PlugInError):
            known |= _options(variant)
    for key in overrides:
        if key not in known:
            raise UserError(f"--set {key}: no such value; {suggest(key, sorted(known))}")


def check_setting(profile: Profile, setting: Variant) -> tuple[SettingOption, ...]:
    """The options of a setting. Raises UserError for a setting that the profile does not have."""
    if setting.name not in profile.settings:
        hint = suggest(setting.name, sorted(profile.settings))
        raise UserError(f"the profile '{profile.name}' has no setting '{setting.name}'; {hint}")
    return setting_options(setting, _streams(profile, setting).values())


def _features(spec: RunSpec, method: type[Method], hyperparameters: Hyperparameters) -> Mapping[str, Feature]:
    try:
        return method.features(hyperparameters)
    except ValueError as error:
        raise UserError(f"{spec.variant}: {error}") from error


def _streams(profile: Profile, setting: Variant) -> dict[str, Stream]:
    """The stream of each corpus of a setting."""
    names = profile.settings[setting.name].corpora
    return {name: get("corpus", profile.corpora[name].kind).stream for name in names}


def _used(profile: Profile, method: type[Method], setting: Variant) -> dict[str, Stream]:
    """The setting's corpora of the method's streams; captions count as sentences."""
    wanted = {*method.streams, *(("pairs",) if "sentences" in method.streams else ())}
    return {name: stream for name, stream in _streams(profile, setting).items() if stream in wanted}


#: a stream in messages
_NAMED = {"pairs": "image-caption pairs", "triplets": "NLI triplets", "audio": "recordings"}


def _check_streams(profile: Profile, method: type[Method], setting: Variant) -> None:
    """Raise UnfitSettingError if the setting has no corpus of a stream that the method needs."""
    there = set(_streams(profile, setting).values())
    needed = [stream for stream in method.streams if not (stream == "sentences" and "pairs" in there)]
    absent = [_NAMED.get(stream, stream) for stream in needed if stream not in there]
    if absent:
        raise UnfitSettingError(f"{method.name} needs {' and '.join(absent)}, the setting {setting} has none")
