"""Declaring and reading a method's hyperparameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar

from harness.errors import UserError
from harness.registry import suggest, target
from harness.spec import OptionValue

V = TypeVar("V", bound=OptionValue)
#: where a value of @paper comes from: the text of the paper; its public code, because the text is silent or ambiguous;
#: or the text with a typo or a gap corrected
ValueOrigin = Literal["text", "code", "mended"]


def hyper(
    default: V,
    *,
    source: str,
    origin: ValueOrigin | None = None,
    unit: str = "",
    choices: tuple[str, ...] = (),
    above: float | None = None,
    at_least: float | None = None,
    registered: str = "",
    teacher: bool = False,
    later: bool = False,
) -> V:
    """Declare a hyperparameter: its default, its source (paper, equation, table), its unit and its allowed values.

    `choices` lists the values of a text, `above` and `at_least` bound a number, and `registered` names the kind of
    registered thing that the value must be, such as 'pooling'. `origin` is where the default comes from, None if that
    is not stated. `teacher` marks an option that names teachers, joined by '+', or holds a word of
    `harness.spec.NO_TEACHER`. `later` marks one added after results were published: at its default it is left out of a
    run's identity, so that those results keep their fingerprint.
    """
    metadata = {"source": source, "origin": origin, "unit": unit, "choices": choices, "registered": registered}
    bounds = {"above": above, "at_least": at_least}
    return field(default=default, metadata=metadata | bounds | {"teacher": teacher, "later": later})


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of every method. `lambda_` is typed `lambda`: an underscore avoids Python's keywords."""

    without: str = hyper("", source="the whole objective", origin="text", unit="loss terms to leave out, joined by '+'")

    @classmethod
    def options(cls) -> dict[str, dataclasses.Field[Any]]:
        """The dataclass's fields by the names that users type."""
        return {item.name.rstrip("_"): item for item in dataclasses.fields(cls)}

    @classmethod
    def teacher_options(cls) -> frozenset[str]:
        return frozenset(name for name, item in cls.options().items() if item.metadata["teacher"])

    @classmethod
    def read(cls, method: str, values: Mapping[str, object]) -> Self:
        """Convert values from TOML or a command line. Raises UserError for an unknown option or a wrong value."""
        options = cls.options()
        for name in values:
            if name not in options:
                hint = suggest(name, sorted(options))
                also = f"values of the training, such as batch_size, are valid too: `harness show {method}` lists them"
                raise UserError(f"the method '{method}' has no option '{name}'; {hint} ({also})")
        read: dict[str, Any] = {
            options[name].name: _converted(f"{method}: '{name}'", options[name], value)
            for name, value in values.items()
        }
        return cls(**read)

    def named(self) -> dict[str, OptionValue]:
        return {name: getattr(self, item.name) for name, item in self.options().items()}

    def identity(self) -> dict[str, OptionValue]:
        options = self.options()
        return {
            name: value
            for name, value in self.named().items()
            if not (options[name].metadata["later"] and value == options[name].default)
        }


def _converted(what: str, item: dataclasses.Field[Any], value: Any) -> OptionValue:
    """Convert a value to the type of the option's default; `what` starts the error message."""
    kind: type[Any] = type(item.default)
    try:
        converted: OptionValue = {"true": True, "false": False}[str(value).lower()] if kind is bool else kind(value)
        if (kind is int and float(value) != converted) or (kind is not bool and isinstance(value, bool)):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{what} must be of type {kind.__name__}, not '{value}'") from error
    if isinstance(converted, float) and not math.isfinite(converted):
        raise UserError(f"{what} must be a finite number, not '{value}'")
    above, at_least = item.metadata["above"], item.metadata["at_least"]
    if above is not None and not float(converted) > above:
        raise UserError(f"{what} must be above {above:g}, not '{value}'")
    if at_least is not None and not float(converted) >= at_least:
        raise UserError(f"{what} must be {at_least:g} or more, not '{value}'")
    if item.metadata["registered"]:
        target(item.metadata["registered"], str(converted))
    choices = item.metadata["choices"]
    if choices and converted not in choices:
        raise UserError(f"{what} must be one of {', '.join(choices)}, not '{value}'")
    return converted
