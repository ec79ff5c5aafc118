"""The declarations of a method that a plan needs, usually without importing torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness.code import get_declarations
from harness.errors import UserError
from harness.method.inert import compute_weight_factors, find_inert_options
from harness.method.interface import (
    Feature,
    Hyperparameters,
    MixingRule,
    Neighbours,
    OwnSteps,
    Patches,
)
from harness.registry import get_class
from harness.spec import OptionValue, Stream

if TYPE_CHECKING:
    from harness.method.base import Method

#: layers of option values by name; later layers override earlier ones
Layers = tuple[Mapping[str, OptionValue], ...]


@dataclass(frozen=True)
class DeclaredMethod:
    """A method's declarations (see `harness.method.Method`) and names of options; `title` is never
    empty.
    """

    name: str
    title: str
    paper: str
    trains: bool
    terms: tuple[str, ...]
    text_only: Mapping[str, OptionValue]
    streams: tuple[Stream, ...]
    options: frozenset[str]
    teacher_options: frozenset[str]
    readings: tuple[str, ...]
    reading_values: Mapping[str, Mapping[str, OptionValue]]

    def configured(self, variant: str, reading: str, layers: Layers) -> dict[str, Any]:
        """What a method says with its options set: defaults, then those of the reading, then each
        layer.

        These are values of `harness.grid.Resolved` under their names there: identity, pooling,
        dropout, captions, own_steps, features and neighbours. Raises UserError.
        """

        def answer() -> dict[str, Any]:
            method = method_named(self.name)
            values = method.configure(reading, *layers)
            try:
                features = method.features(values)
            except ValueError as error:
                raise UserError(f"{variant}: {error}") from error
            return {
                "identity": values.identity(),
                "pooling": values.pooling,
                "dropout": [values.dropout, values.attention_dropout],
                "captions": method.captions(values),
                "own_steps": _as_plain_values(method.own_steps(values)),
                "features": _as_plain_values(features),
                "neighbours": _as_plain_values(method.neighbours(values)),
            }

        answered = get_declarations().ask(
            "method", self.name, ["configured", reading, layers], answer
        )
        own_steps = {}
        for stream, values in answered["own_steps"].items():
            patches = Patches(**values["patches"])
            own_steps[stream] = OwnSteps(**{**values, "patches": patches})
        features = answered["features"].items()
        neighbours = answered["neighbours"].items()
        return {
            **answered,
            "dropout": tuple(answered["dropout"]),
            "own_steps": own_steps,
            "features": {role: Feature(**values) for role, values in features},
            "neighbours": {name: Neighbours(**values) for name, values in neighbours},
        }

    def option_values(self, reading: str, layers: Layers) -> dict[str, OptionValue]:
        """The value of each option: defaults, then those of the reading, then each layer."""

        def answer() -> dict[str, OptionValue]:
            configured: Hyperparameters = method_named(self.name).configure(reading, *layers)
            return configured.named()

        values: dict[str, OptionValue] = get_declarations().ask(
            "method", self.name, ["values", reading, layers], answer
        )
        return values

    def mixing(self, reading: str, layers: Layers) -> MixingRule:
        """The method's rule that decides which steps are paired, with its options set."""

        def rule(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
            counts = (rows, pairs, text_batches, pair_batches)

            def answer() -> tuple[int, int]:
                method = method_named(self.name)
                return method.mixing(method.configure(reading, *layers))(*counts)

            cycle, place = get_declarations().ask(
                "method", self.name, ["mixing", reading, layers, counts], answer
            )
            return cycle, place

        return rule

    def inert_options(self, reading: str, layers: Layers, streams: Collection[Stream]) -> list[str]:
        """The options that scale the whole loss of every step of a run that reads some streams."""

        def answer() -> dict[str, Any]:
            method = method_named(self.name)
            values = method.configure(reading, *layers)
            return {
                "factors": compute_weight_factors(method, values),
                "own": sorted(method.own_steps(values)),
            }

        answered = get_declarations().ask("method", self.name, ["weights", reading, layers], answer)
        return find_inert_options(answered["factors"], streams, answered["own"])


def _as_plain_values(records: Mapping[Any, Any]) -> dict[str, dict[str, Any]]:
    """Dataclasses by name as dictionaries, which a file can keep."""
    return {name: asdict(record) for name, record in records.items()}


def get_declared_method(name: str) -> DeclaredMethod:
    """The declarations of a registered method. Raises UserError, and PlugInError for one that
    cannot be loaded.
    """

    def answer() -> dict[str, Any]:
        method = method_named(name)
        values = method.reading_values.items()
        return {
            "title": method.title or name,
            "paper": method.paper,
            "trains": method.trains,
            "terms": list(method.terms),
            "text_only": dict(method.text_only),
            "streams": method.streams,
            "options": sorted(method.Hyperparameters.options()),
            "teacher_options": sorted(method.Hyperparameters.teacher_options()),
            "readings": list(method.readings),
            "reading_values": {reading: dict(of_reading) for reading, of_reading in values},
        }

    declaration = dict(get_declarations().ask("method", name, "class", answer))
    # a file keeps both as lists
    for key in ("streams", "terms", "readings"):
        declaration[key] = tuple(declaration[key])
    for key in ("options", "teacher_options"):
        declaration[key] = frozenset(declaration[key])
    return DeclaredMethod(name, **declaration)


def method_named(name: str) -> type[Method]:
    """The registered method of a name. Raises UserError if it is unknown, PlugInError if it cannot
    be loaded.
    """
    try:
        from harness.method.base import Method  # imports torch
    except (ImportError, OSError, MemoryError) as error:
        raise UserError(
            f"torch cannot be imported: {error}; repair its installation, or allow more memory"
        ) from error
    return get_class("method", name, Method)
