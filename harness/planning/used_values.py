"""The values that runs of a method use under a profile, each with where it comes from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from harness.errors import UserError
from harness.grid import Resolved, UnfitSettingError, resolve
from harness.method.declared import declared_method
from harness.profiles import Profile
from harness.registry import suggest
from harness.spec import UNTRAINED, RunSpec, Variant, parse_setting


class UsedValue(NamedTuple):
    """A value with its source: a rule of the profile, its [training], a reading, or the default.

    `where` names the readings, settings and encoders that use it; empty for all of them.
    """

    name: str
    value: str
    source: str
    where: str


def used_values(method: str, profile: Profile, setting: str | None, encoder: str | None) -> list[UsedValue]:
    """The values of a method's options and of its training, in the profile's default settings unless one is given.

    Raises UserError where the method cannot be trained there.
    """
    if encoder is not None and encoder not in profile.encoders:
        hint = suggest(encoder, sorted(profile.encoders))
        raise UserError(f"the profile '{profile.name}' has no encoder '{encoder}'; {hint}")
    runs = dict(_runs(method, profile, setting, encoder))
    if not runs:
        raise UserError(f"{method} cannot be trained in any default setting of {profile.name}; give --setting")
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for place, run in runs.items():
        training = run.training.model_dump() if run.trains else {}
        for name, value in {**run.hyperparameters.named(), **training}.items():
            found.setdefault(name, {}).setdefault((str(value), _source(name, run)), []).append(place)
    return [
        UsedValue(name, value, source, "" if len(places) == len(runs) else ", ".join(places))
        for name, values in found.items()
        for (value, source), places in values.items()
    ]


def _runs(method: str, profile: Profile, setting: str | None, encoder: str | None) -> Iterator[tuple[str, Resolved]]:
    """A run of each reading, setting and encoder, by what distinguishes it from the others."""
    declared = declared_method(method)
    settings = [setting] if setting else list(profile.defaults.settings)
    settings = settings if declared.trains else [UNTRAINED]
    encoders = [encoder] if encoder else list(profile.defaults.encoders)
    for reading, place, student in itertools.product(declared.readings, settings, encoders):
        spec = RunSpec(Variant(method, reading=reading), parse_setting(place), student, 0)
        texts = [f"@{reading}", *([place] if len(settings) > 1 else []), *([student] if len(encoders) > 1 else [])]
        try:
            yield " ".join(texts), resolve(profile, spec, {})
        except UnfitSettingError:
            if setting is not None:
                raise


def _source(name: str, run: Resolved) -> str:
    reading = run.spec.variant.reading
    by_reading = declared_method(run.spec.variant.name).reading_values.get(reading, {})
    return run.sources.get(name, f"@{reading}" if name in by_reading else "default")
