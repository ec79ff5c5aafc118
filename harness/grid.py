"""methods x settings x encoders x seeds -> RunSpecs, and what each of them comes to under a profile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from harness.errors import PlugInError, UserError
from harness.method import Feature, Method, method_named
from harness.profiles import Profile, Rule, Training, check_readings
from harness.registry import get, names, suggest
from harness.setting import check_streams, setting_options
from harness.spec import RunSpec, Variant, canonical

#: The setting of a method that does not train.
UNTRAINED = Variant("none")


@dataclass(frozen=True)
class Resolved:
    """A run with every value decided."""

    spec: RunSpec
    method: type[Method]
    hyperparameters: Any
    training: Training
    overrides: Mapping[str, Any]

    def features(self, profile: Profile) -> dict[str, Feature]:
        """role -> features wanted, with the profile's own teacher filled in."""
        try:
            asked = self.method.features(self.hyperparameters)
        except ValueError as error:
            raise UserError(f"{self.spec.variant}: {error}") from error
        if profile.images is None and any(wanted.teacher in (*SCRAMBLED, "default") for wanted in asked.values()):
            raise UserError(
                f"{self.spec.variant} needs image features; give the profile a top-level key images = TEACHER"
            )
        return {
            role: replace(wanted, teacher=str(profile.images)) if wanted.teacher == "default" else wanted
            for role, wanted in asked.items()
        }

    def corpora(self, profile: Profile) -> tuple[str, ...]:
        """The setting's corpora that the method learns from, in order."""
        return _used(profile, self.method, self.spec.setting)


#: Controls in place of a teacher: the profile's features dealt to the wrong captions, or noise.
SCRAMBLED = ("shuffled", "random")


@dataclass(frozen=True)
class Skipped:
    """A combination that makes no sense, and why."""

    what: str
    why: str


def expand(
    profile: Profile,
    methods: Sequence[Variant],
    settings: Sequence[Variant],
    encoders: Sequence[str],
    seeds: Sequence[int],
    overrides: Mapping[str, Any],
) -> tuple[list[Resolved], list[Skipped]]:
    """The grid, in the order typed with seeds outermost, so that every row has its first seed early.

    Raises UserError for unknown methods, settings and values.
    """
    runs: dict[RunSpec, Resolved] = {}
    skipped: dict[Skipped, None] = {}
    _check_overrides(methods, overrides)
    for seed, encoder, setting, variant in itertools.product(seeds, encoders, settings, methods):
        try:
            method = method_named(variant.name)
        except PlugInError as error:
            skipped[Skipped(str(variant), str(error))] = None
            continue
        check_setting(profile, setting)
        reason = impossible(profile, method, setting)
        if reason:
            skipped[Skipped(f"{variant}/{setting}", reason)] = None
            continue
        spec = RunSpec(variant, setting if method.trains else UNTRAINED, encoder, seed if method.trains else 0)
        runs.setdefault(spec, resolve(profile, spec, overrides))
    return list(runs.values()), list(skipped)


def resolve(profile: Profile, spec: RunSpec, overrides: Mapping[str, Any]) -> Resolved:
    """Decide every value of a run.

    Method: dataclass defaults, the reading's values, the profile's rules, --set, the variant's options.
    Training: the profile's [training] table, its rules, --set. Later ones win. Raises UserError.
    """
    method = method_named(spec.variant.name)
    _check_rules(profile.name, profile.hyperparameters)
    training_values: dict[str, Any] = {}
    method_values: dict[str, Any] = {}
    known = set(method.configure(spec.variant.reading).named())
    for layer in (*_rules(profile, spec), overrides):
        for key, value in layer.items():
            if key in Training.model_fields:
                training_values[key] = value
            elif key in known or layer is not overrides:
                method_values[key] = value
    hyperparameters = method.configure(spec.variant.reading, method_values, dict(spec.variant.options))
    return Resolved(spec, method, hyperparameters, _training(profile, training_values), dict(overrides))


def parse_overrides(pairs: Sequence[str]) -> dict[str, Any]:
    """Read --set key=value pairs into numbers, true/false and texts. Raises UserError."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not key or not text:
            raise UserError(f"--set '{pair}' is not key=value; write for example --set learning_rate=1e-4")
        values[key] = _value(canonical(text))
    return values


def _value(text: str) -> int | float | bool | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


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


def _check_overrides(methods: Sequence[Variant], overrides: Mapping[str, Any]) -> None:
    known = set(Training.model_fields)
    for variant in methods:
        with suppress(PlugInError):
            known |= set(method_named(variant.name).configure(variant.reading).named())
    for key in overrides:
        if key not in known:
            raise UserError(f"--set {key}: no such value; {suggest(key, sorted(known))}")


def check_setting(profile: Profile, setting: Variant) -> None:
    """Raise UserError for a setting that the profile does not have."""
    if setting.name not in profile.settings:
        hint = suggest(setting.name, sorted(profile.settings))
        raise UserError(f"the profile '{profile.name}' has no setting '{setting.name}'; {hint}")
    setting_options(setting)
    check_streams(setting, [_stream(profile, name) for name in profile.settings[setting.name].corpora])


def _stream(profile: Profile, corpus: str) -> str:
    return str(get("corpus", profile.corpora[corpus].kind).stream)


def _used(profile: Profile, method: type[Method], setting: Variant) -> tuple[str, ...]:
    """The setting's corpora of the method's streams; captions count as sentences."""
    streams = {*method.streams, *(("pairs",) if "sentences" in method.streams else ())}
    return tuple(name for name in profile.settings[setting.name].corpora if _stream(profile, name) in streams)


#: how an error calls a stream
_STREAMS = {
    "sentences": "sentences",
    "pairs": "image-caption pairs",
    "triplets": "NLI triplets",
    "images": "images",
    "audio": "recordings",
}


def impossible(profile: Profile, method: type[Method], setting: Variant) -> str | None:
    """Why a method cannot train in a setting, or None."""
    if not method.trains:
        return None
    kinds = {_stream(profile, name) for name in profile.settings[setting.name].corpora}
    needed = [stream for stream in method.streams if not (stream == "sentences" and "pairs" in kinds)]
    absent = [_STREAMS[stream] for stream in needed if stream not in kinds]
    return f"{method.name} needs {' and '.join(absent)}, the setting {setting} has none" if absent else None
