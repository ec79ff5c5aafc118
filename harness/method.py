"""The Method interface and the batches a method sees.

A method declares its hyperparameters, its streams, the features of frozen teachers it reads, its heads
and its loss terms. It holds no loop, no optimizer, no I/O and no device code.
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

#: Turns a batch's inputs into the encoder's first output vectors ([CLS]) before any head: (B, views, d).
#: Each view is the same sentence or recording under another dropout mask, or another augmentation of the
#: same image; all views go through in one forward pass.
Encode = Callable[[Mapping[str, Tensor], int], Tensor]

Stream = Literal["sentences", "pairs", "triplets", "images", "audio"]

#: Which steps of an epoch are paired, from (rows of text, rows of pairs, batches of text, batches of pairs):
#: a cycle and a place in it; step k is paired when k mod cycle == place.
MixingRule = Callable[[int, int, int, int], tuple[int, int]]


def by_batches(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
    """MCSE's mixing rule (public code train_mix.py; appendix A: "in proportion to their sizes").

    The first step of every epoch is paired; the pairs are read a little more than once an epoch.
    """
    return text_batches // pair_batches, 0


@dataclass(frozen=True)
class SentenceBatch:
    """B sentences: `tokens` holds input_ids and attention_mask, each (B, L)."""

    tokens: Mapping[str, Tensor]


@dataclass(frozen=True)
class PairBatch(SentenceBatch):
    """B captions with the frozen teachers' features of each role the method asked for.

    Features of images and of captions are (B, f), of tokens (B, L' >= L, f); they carry no gradient.
    """

    features: Mapping[str, Tensor]


@dataclass(frozen=True)
class TripletBatch(SentenceBatch):
    """B triplets, 3B sentences: premise, entailed and contradicted hypothesis of each follow one another."""


@dataclass(frozen=True)
class MediaBatch:
    """B images or recordings and their classes, (B,) int64; an unlabelled item is a class of its own.

    `inputs` holds `pixels`, (B, 2, 3, H, W), two augmentations of each image, or `spectrograms`,
    (B, frames, bins).
    """

    inputs: Mapping[str, Tensor]
    labels: Tensor


#: a batch that has text
Batch = SentenceBatch | PairBatch | TripletBatch


@dataclass(frozen=True)
class Feature:
    """Which features of a frozen teacher paired batches must carry.

    `teacher` is a name of the profile, 'default' for the profile's own image teacher, 'shuffled' or
    'random' for a control in its place, or `run:KEY`, a run of this harness whose encoder is the teacher.
    `of` says what it looks at: the image, the caption, or each token of the caption.
    """

    teacher: str
    of: Literal["image", "caption", "tokens"] = "image"


@dataclass(frozen=True)
class Patches:
    """How images or spectrograms become a sequence of vectors for the encoder's layers.

    `pretrained` names an image patch embedding of the profile; without one a convolution of `size` x `size`
    patches is trained from scratch, with a table of positions or without.
    """

    pretrained: str = ""
    size: int = 0
    positions: bool = True


@dataclass(frozen=True)
class OwnSteps:
    """A stream with an optimizer and a step of its own beside every text step (NonLing Algorithm 1)."""

    batch_size: int
    learning_rate: float
    patches: Patches
    weight_decay: float = 0.0
    schedule: Literal["linear", "cosine"] = "linear"
    #: whether its step comes before the text step
    first: bool = False


@dataclass(frozen=True)
class Dimensions:
    """Widths that heads are built for: the encoder's d, and f of each role of teacher features."""

    encoder: int
    features: Mapping[str, int] = field(default_factory=dict)


def hyper(default: Any, *, source: str, unit: str = "", choices: tuple[str, ...] = (), later: bool = False) -> Any:
    """A hyperparameter's default with its unit, its source (paper, equation, table) and its allowed values.

    `later` marks one that was added when results were already kept: at its default it is no part of a
    run's identity, so that those results stay what they are.
    """
    return field(default=default, metadata={"source": source, "unit": unit, "choices": choices, "later": later})


@dataclass(frozen=True)
class Hyperparameters:
    """What every method has. A trailing underscore keeps a name off Python's keywords: `lambda_` is `lambda`."""

    without: str = hyper("", source="ablation", unit="loss terms to leave out, joined by '+'")

    def named(self) -> dict[str, int | float | str | bool]:
        """Values by the names that a person types."""
        return {item.name.rstrip("_"): getattr(self, item.name) for item in dataclasses.fields(self)}

    def identity(self) -> dict[str, int | float | str | bool]:
        """The values that tell one experiment from another."""
        fields = {item.name.rstrip("_"): item for item in dataclasses.fields(self)}
        return {
            name: value
            for name, value in self.named().items()
            if not (fields[name].metadata["later"] and value == fields[name].default)
        }


class Method(nn.Module, ABC):
    """A training objective with its heads.

    A subclass sets the class variables, builds its heads in `__init__` and returns its loss terms.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    #: what it learns from; captions count as sentences for a method that reads sentences
    streams: ClassVar[tuple[Stream, ...]] = ("sentences",)
    terms: ClassVar[tuple[str, ...]] = ()
    #: parts of terms that `without` can leave out as well, such as a margin
    parts: ClassVar[tuple[str, ...]] = ()
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
    def features(cls, hyperparameters: Any) -> dict[str, Feature]:
        """Teacher features that paired batches must carry, by the role they have in the method."""
        return {}

    @classmethod
    def own_steps(cls, hyperparameters: Any) -> dict[str, OwnSteps]:
        """Streams that are not mixed with the text but have steps and an optimizer of their own."""
        return {}

    @classmethod
    def mixing(cls, hyperparameters: Any) -> MixingRule:
        """Return the rule that decides which steps see a batch of pairs instead of text."""
        return by_batches

    @classmethod
    def captions(cls, hyperparameters: Any) -> str:
        """Which captions of an image become rows: what the 'setting' says, or 'all'."""
        return "setting"

    @classmethod
    def pooling(cls, hyperparameters: Any) -> str:
        """How the finished encoder is read: [CLS] before any head, unless a method says otherwise."""
        return "cls"

    def shared_space(self) -> tuple[nn.Module, nn.Module] | None:
        """Heads into the space that sentences and images share: of [CLS], (n, d) -> (n, p), and of the features of
        the role 'image', (n, f) -> (n, p); None where a method has none.
        """
        return None

    def test_head(self) -> nn.Module | None:
        """The head that [CLS] still passes after training, (n, d) -> (n, d), where a method keeps one."""
        return None

    @property
    def left_out(self) -> frozenset[str]:
        """Names of the terms and parts that `without` leaves out."""
        return frozenset(self.hyperparameters.without.split("+"))

    def weights(self) -> dict[str, float]:
        """The factor of each loss term; 1 where nothing is said."""
        return {}

    @abstractmethod
    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """The loss terms that a batch of text allows, by name, each a scalar and not yet weighted."""

    def media_terms(self, batch: MediaBatch, encode: Encode) -> dict[str, Tensor]:
        """The loss terms of images or recordings, for a method that has `own_steps`."""
        raise NotImplementedError(f"{self.name} learns from no images and no audio")

    def loss(self, batch: Batch | MediaBatch, encode: Encode) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The weighted sum over the terms not left out, and the unweighted terms themselves.

        The sum is None where an ablation leaves this kind of batch no term: there is nothing to learn from it.
        """
        found = self.media_terms(batch, encode) if isinstance(batch, MediaBatch) else self.loss_terms(batch, encode)
        terms = {name: value for name, value in found.items() if name not in self.left_out}
        weights = self.weights()
        weighted = [weights.get(name, 1.0) * value for name, value in terms.items()]
        return (sum(weighted[1:], start=weighted[0]) if weighted else None), terms

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


def _checked_terms(cls: type[Method], without: str) -> str:
    names = sorted({name for name in without.split("+") if name})
    for name in names:
        if name not in (*cls.terms, *cls.parts):
            known = ", ".join((*cls.terms, *cls.parts)) or "none"
            raise UserError(f"the method '{cls.name}' has no loss term '{name}'; it has {known}")
    if names and set(cls.terms) <= set(names):
        raise UserError(f"'without={without}' leaves {cls.name} no loss term; keep at least one")
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
