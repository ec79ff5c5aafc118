"""The Method interface and the batches a method sees.

A method declares its hyperparameters, the features of frozen teachers it reads, its heads and its
loss terms. It holds no loop, no optimizer, no I/O and no device code.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from harness.errors import UserError
from harness.registry import suggest

#: Turns a batch's tokens into the encoder's [CLS] vectors before any head: (B, L) -> (B, views, d).
#: Each view is the same sentence under another dropout mask; all views go through in one forward pass.
Encode = Callable[[Mapping[str, Tensor], int], Tensor]


@dataclass(frozen=True)
class SentenceBatch:
    """B sentences: `tokens` holds input_ids and attention_mask, each (B, L)."""

    tokens: Mapping[str, Tensor]


@dataclass(frozen=True)
class PairBatch(SentenceBatch):
    """B captions with the frozen teachers' features of each role the method asked for, (B, f) each."""

    features: Mapping[str, Tensor]


Batch = SentenceBatch | PairBatch


@dataclass(frozen=True)
class Dimensions:
    """Widths that heads are built for: the encoder's d, and f of each role of teacher features."""

    encoder: int
    features: Mapping[str, int] = field(default_factory=dict)


def hyper(default: Any, *, source: str, unit: str = "", choices: tuple[str, ...] = ()) -> Any:
    """A hyperparameter's default with its unit, its source (paper, equation, table) and its allowed values."""
    return field(default=default, metadata={"source": source, "unit": unit, "choices": choices})


@dataclass(frozen=True)
class Hyperparameters:
    """What every method has. A trailing underscore keeps a name off Python's keywords: `lambda_` is `lambda`."""

    without: str = hyper("", source="ablation", unit="loss terms to leave out, joined by '+'")

    def named(self) -> dict[str, int | float | str | bool]:
        """Values by the names that a person types."""
        return {item.name.rstrip("_"): getattr(self, item.name) for item in dataclasses.fields(self)}


class Method(nn.Module, ABC):
    """A training objective with its heads.

    A subclass sets the class variables, builds its heads in `__init__` and returns its loss terms.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    streams: ClassVar[tuple[Literal["sentences", "pairs"], ...]] = ("sentences",)
    terms: ClassVar[tuple[str, ...]] = ()
    #: reading -> one sentence on what it follows
    readings: ClassVar[Mapping[str, str]] = {"paper": "the equations of the paper"}
    #: reading -> hyperparameters that differ from the dataclass's defaults, which are @paper's
    reading_values: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    Hyperparameters: ClassVar[type[Hyperparameters]] = Hyperparameters
    trains: ClassVar[bool] = True

    def __init__(self, hyperparameters: Any, dimensions: Dimensions) -> None:
        super().__init__()
        self.hyperparameters = hyperparameters
        self.dimensions = dimensions

    @classmethod
    def features(cls, hyperparameters: Any) -> dict[str, str]:
        """Teacher features that paired batches must carry: role -> teacher ('default' is the profile's)."""
        return {}

    @classmethod
    def pooling(cls, hyperparameters: Any) -> str:
        """How the finished encoder is read: [CLS] before any head, unless a method says otherwise."""
        return "cls"

    def weights(self) -> dict[str, float]:
        """The factor of each loss term; 1 where nothing is said."""
        return {}

    @abstractmethod
    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """The loss terms that this batch allows, by name, each a scalar and not yet weighted."""

    def loss(self, batch: Batch, encode: Encode) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted sum over the terms not left out, and the unweighted terms themselves."""
        left_out = set(self.hyperparameters.without.split("+"))
        terms = {name: value for name, value in self.loss_terms(batch, encode).items() if name not in left_out}
        weights = self.weights()
        total = sum((weights.get(name, 1.0) * value for name, value in terms.items()), start=_zero(self, terms))
        return total, terms

    @classmethod
    def configure(cls, reading: str, *layers: Mapping[str, Any]) -> Any:
        """The method's hyperparameters: defaults, then the reading's, then each layer over the last.

        Raises UserError for a reading, a name or a value that the method does not have.
        """
        if reading not in cls.readings:
            known = ", ".join(f"@{name}" for name in cls.readings)
            raise UserError(f"the method '{cls.name}' has no reading '@{reading}'; it has {known}")
        fields = {item.name.rstrip("_"): item for item in dataclasses.fields(cls.Hyperparameters)}
        values: dict[str, Any] = {}
        for layer in (cls.reading_values.get(reading, {}), *layers):
            for key, value in layer.items():
                if key not in fields:
                    hint = suggest(key, sorted(fields)) if len(fields) > 8 else f"valid: {', '.join(sorted(fields))}"
                    raise UserError(f"the method '{cls.name}' has no option '{key}'; {hint}")
                values[fields[key].name] = _typed(cls, fields[key], value)
        chosen = cls.Hyperparameters(**values)
        return dataclasses.replace(chosen, without=_checked_terms(cls, chosen.without))


def _zero(method: Method, terms: Mapping[str, Tensor]) -> Tensor:
    """A zero to start the sum from. Raises UserError when the ablation left no term for this batch."""
    if not terms:
        raise UserError(
            f"'without={method.hyperparameters.without}' leaves {method.name} no loss term for some batches"
        )
    return next(iter(terms.values())).new_zeros(())


def _checked_terms(cls: type[Method], without: str) -> str:
    names = sorted({name for name in without.split("+") if name})
    for name in names:
        if name not in cls.terms:
            raise UserError(
                f"the method '{cls.name}' has no loss term '{name}'; it has {', '.join(cls.terms) or 'none'}"
            )
    return "+".join(names)


def _typed(cls: type[Method], item: dataclasses.Field[Any], value: Any) -> Any:
    """Convert a typed or TOML value to the type of the field's default."""
    name = item.name.rstrip("_")
    kind: Any = type(item.default)
    try:
        converted = _to_bool(value) if kind is bool else kind(value)
        if kind is int and float(value) != converted:
            raise ValueError
    except (TypeError, ValueError) as error:
        raise UserError(f"{cls.name}: '{name}' must be of type {kind.__name__}, not '{value}'") from error
    if kind is float and not abs(converted) < float("inf"):
        raise UserError(f"{cls.name}: '{name}' must be a finite number, not '{value}'")
    choices = item.metadata.get("choices", ())
    if choices and converted not in choices:
        raise UserError(f"{cls.name}: '{name}' must be one of {', '.join(choices)}, not '{value}'")
    return converted


def _to_bool(value: Any) -> bool:
    """Read true or false. Raises ValueError for anything else."""
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text == "true"
