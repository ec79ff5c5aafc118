"""What a person asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.encoders.locate import ModelSource
from harness.grid import Overrides
from harness.profiles import Profile
from harness.spec import RunSpec, Variant


@dataclass(frozen=True)
class Request:
    """A grid of runs, or the runs of `wanted` one by one, each with the suites to evaluate it on.

    `given` are encoders by name that the profile need not have, `data` the data root. `entries` names the tables and
    figures of papers that wanted runs belong to. A run that is only a teacher of a wanted one is not evaluated.
    """

    profile: Profile
    methods: Sequence[Variant]
    settings: Sequence[Variant]
    encoders: Sequence[str]
    seeds: Sequence[int]
    suites: Sequence[str]
    overrides: Overrides = field(default_factory=dict)
    given: Mapping[str, ModelSource] = field(default_factory=dict)
    data: Path | None = None
    wanted: Mapping[RunSpec, Sequence[str]] | None = None
    entries: Mapping[str, Collection[RunSpec]] = field(default_factory=dict)
