"""The base class of methods. Methods contain no training loop, optimizer, I/O or device code."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from harness.errors import UserError
from harness.method.interface import (
    Batch,
    CaptionRows,
    Dimensions,
    Encode,
    Feature,
    Hyperparameters,
    MediaBatch,
    MixingRule,
    Neighbours,
    OwnSteps,
    ValueOrigin,
    Vocabulary,
    by_batches,
)
from harness.registry import Registered
from harness.spec import OptionValue, Stream

if TYPE_CHECKING:
    import numpy as np

    from harness.encoders.student import Student


class Method(nn.Module, Registered, ABC):
    """A training objective with its heads.

    A subclass sets the class variables, builds its heads in `__init__` and returns its loss terms.
    The parameter `hyperparameters` of its methods is an instance of its own `Hyperparameters`.
    """

    #: what users type
    name: ClassVar[str]
    #: where it is published
    paper: ClassVar[str]
    #: the name of the method in reports; `name` if empty
    title: ClassVar[str] = ""
    #: its entry of BibTeX, which `harness cite` prints
    citation: ClassVar[str] = ""
    #: the training data it reads; captions count as sentences
    streams: ClassVar[tuple[Stream, ...]] = ("sentences",)
    #: the loss terms that it returns
    terms: ClassVar[tuple[str, ...]] = ()
    #: the terms that appear only if an option asks for them
    optional_terms: ClassVar[tuple[str, ...]] = ()
    #: parts of terms that `without` can leave out as well, such as a margin
    parts: ClassVar[tuple[str, ...]] = ()
    #: reading of the paper -> one sentence on what it follows
    readings: ClassVar[Mapping[str, str]] = {"paper": "the equations of the paper"}
    #: reading -> hyperparameters that differ from the defaults, which are those of @paper
    reading_values: ClassVar[Mapping[str, Mapping[str, OptionValue]]] = {}
    #: the dataclass of its values
    Hyperparameters: ClassVar[type[Hyperparameters]] = Hyperparameters
    #: choices of @paper that are not hyperparameters and that the text alone does not settle:
    #: subject -> (origin, what is done)
    decisions: ClassVar[Mapping[str, tuple[ValueOrigin, str]]] = {}
    #: stem of the notes on the method in reports/notes; the method's name if empty
    notes: ClassVar[str] = ""
    trains: ClassVar[bool] = True
    #: values of its options with which images or recordings carry no weight: its control of text
    #: alone
    text_only: ClassVar[Mapping[str, OptionValue]] = {}
    #: whether batches have their `texts`
    reads_texts: ClassVar[bool] = False
    #: its modules and buffers that are in checkpoints, but not beside the best model, such as a
    #: momentum encoder
    aside: ClassVar[tuple[str, ...]] = ()
    #: what `scheduled` says of the step
    now: Mapping[str, float] = MappingProxyType({})

    def __init__(self, hyperparameters: Any, dimensions: Dimensions) -> None:
        super().__init__()
        self.hyperparameters = hyperparameters
        self.dimensions = dimensions

    @classmethod
    def features(cls, hyperparameters: Any) -> dict[str, Feature]:
        """Teacher features of paired batches, by role.

        Roles are names of the method's choice; 'image' and 'caption' are the ones that
        `shared_space` reads. Raises ValueError where an option names no teacher.
        """
        return {}

    @classmethod
    def own_steps(cls, hyperparameters: Any) -> dict[Stream, OwnSteps]:
        """Streams trained in steps of their own, with their own optimizer, rather than mixed with
        the text.
        """
        return {}

    @classmethod
    def mixing(cls, hyperparameters: Any) -> MixingRule:
        """The rule that decides which steps are paired; that of MCSE's public code unless
        overridden.
        """
        return by_batches

    @classmethod
    def captions(cls, hyperparameters: Any) -> CaptionRows:
        """Which captions of an image become rows: as the setting says, or all."""
        return "setting"

    def shared_space(self) -> tuple[nn.Module, nn.Module] | None:
        """The heads into the space shared by sentences and images, or None.

        The first takes pooled vectors, (n, d) -> (n, p), the second the features of role 'image',
        (n, f) -> (n, p).
        """
        return None

    def test_head(self) -> nn.Module | None:
        """The head of pooled vectors that a pooling such as 'pooler' keeps at test, (n, d) -> (n,
        d); None without.

        It is a linear layer and a tanh (`TanhHead`), as which a model is saved.
        """
        head: nn.Module | None = getattr(self, "text_head", None)
        return head

    def prepare(
        self, student: Student, vocabulary: Vocabulary, models: Mapping[str, Student]
    ) -> None:
        """Complete the method with what it needs of the student, before training and after its
        heads were made.

        A `student.second()` becomes part of checkpoints; its weights rest unless
        `.requires_grad_(True)` is called on it. `models` are the frozen ones of `features`, by
        role; kept in a tuple, they stay out of checkpoints.
        """

    def change_rows(
        self, rows: list[list[int]], random: np.random.Generator
    ) -> dict[str, list[list[int]]]:
        """Other rows for `batch.changed`, by name, from a batch's token ids; `random` is seeded by
        run and step.
        """
        return {}

    def change_texts(self, texts: list[str], random: np.random.Generator) -> dict[str, list[str]]:
        """Other sentences for `batch.changed`, by name, from the texts of a batch; they are
        tokenised and cut like the corpus. `random` is seeded by run and step.
        """
        return {}

    @classmethod
    def neighbours(cls, hyperparameters: Any) -> dict[str, Neighbours]:
        """Rows for `batch.changed`, by name, that are near those of the batch, such as hard
        negatives: of B rows, the j-th one of row i at j B + i.
        """
        return {}

    @classmethod
    def uses_texts(cls) -> bool:
        """Whether batches are read as texts too."""
        changes_texts = cls.change_texts is not Method.change_texts
        # a model that searches for neighbours reads texts
        searches = any("neighbours" in vars(kind) for kind in cls.__mro__ if kind is not Method)
        return cls.reads_texts or changes_texts or searches

    def scheduled(self, share: float) -> dict[str, float]:
        """Values that change over training, for `self.now` and the curves; `share`, from 0 to below
        1, is done.
        """
        return {}

    def after_step(self, student: Student, step: int) -> None:
        """Act after the update of a step, counted from 0, without gradients: momentum encoders,
        queues.
        """

    def kept(self) -> dict[str, Tensor]:
        """Its state without what is `aside`: what is kept beside the best model."""
        kept = {}
        for name, value in self.state_dict().items():
            is_aside = any(f"{name}.".startswith(f"{part}.") for part in self.aside)
            if not is_aside:
                kept[name] = value
        return kept

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset(self.hyperparameters.without.split("+"))

    def weights(self) -> dict[str, float]:
        """The weight of each loss term; 1 for terms not listed."""
        return {}

    @abstractmethod
    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """The unweighted loss terms of a batch of text, each a scalar."""

    def media_terms(self, batch: MediaBatch, encode: Encode) -> dict[str, Tensor]:
        """The unweighted loss terms of a batch of images or recordings, for methods with
        `own_steps`.
        """
        raise NotImplementedError(f"{self.name} does not train on images or audio")

    def loss(
        self, batch: Batch | MediaBatch, encode: Encode
    ) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The weighted sum of the terms that are not left out (None if there are none), and the
        unweighted terms.
        """
        if isinstance(batch, MediaBatch):
            result = self.media_terms(batch, encode)
        else:
            result = self.loss_terms(batch, encode)
        if not _are_terms(result):
            raise TypeError(
                f"{self.origin} returned {_describe_types(result)}; it must return a dict of scalar tensors by term"
            )

        weights = self.weights()
        total: Tensor | None = None
        terms = {}
        for name, value in result.items():
            if name in self.left_out:
                continue
            terms[name] = value
            weighted = weights.get(name, 1.0) * value
            total = weighted if total is None else total + weighted
        return total, terms

    def misfits(self, built: Mapping[str, Tensor]) -> list[str]:
        """Why its state would not fit into a new method, whose state is `built`: parameters and
        buffers that differ.
        """
        state = self.state_dict()
        parameters = dict(self.named_parameters())
        misfits = []
        for name in sorted(state.keys() | built.keys()):
            kind = "parameter" if name in parameters else "buffer"
            if name not in state or name not in built:
                misfits.append(
                    f"{kind} '{name}' is not there all the time; register it in __init__ or prepare"
                )
            elif state[name].shape != built[name].shape:
                misfits.append(
                    f"{kind} '{name}' changes its shape; give it its full size in __init__"
                )
        return misfits

    @property
    def origin(self) -> str:
        """The method with the file and line that define its loss terms, for messages."""
        code = type(self).loss_terms.__code__
        return (
            f"the method '{self.name}' ({Path(code.co_filename).name}, line {code.co_firstlineno})"
        )

    @classmethod
    def configure(cls, reading: str, *layers: Mapping[str, Any]) -> Any:
        """The hyperparameters: defaults, then the reading's values, then each layer in turn. Raises
        UserError.
        """
        if reading not in cls.readings:
            known_readings = ", ".join(f"@{name}" for name in cls.readings)
            raise UserError(
                f"the method '{cls.name}' has no reading '@{reading}'; it has {known_readings}"
            )
        values = dict(cls.reading_values.get(reading, {}))
        for layer in layers:
            values.update(layer)
        hyperparameters = cls.Hyperparameters.read(cls.name, values)
        without = cls._sort_terms(hyperparameters.without)
        return dataclasses.replace(hyperparameters, without=without)

    @classmethod
    def _sort_terms(cls, without: str) -> str:
        """Sort the names in `without`. Raises UserError for an unknown name, or if no term is left."""
        names = sorted(set(without.split("+")) - {""})
        known_terms = (*cls.terms, *cls.parts)
        for name in names:
            if name not in known_terms:
                raise UserError(
                    f"the method '{cls.name}' has no loss term '{name}'; it has {', '.join(known_terms) or 'none'}"
                )
        if names and set(cls.terms) <= set(names):
            raise UserError(
                f"'without={without}' leaves {cls.name} no loss term; keep at least one"
            )
        return "+".join(names)


def _are_terms(result: object) -> bool:
    """Whether a method's answer is a dict of tensors."""
    if not isinstance(result, dict):
        return False
    return all(isinstance(value, Tensor) for value in result.values())


def _describe_types(result: object) -> str:
    if not isinstance(result, dict):
        return type(result).__name__
    return ", ".join(f"{name}: {type(value).__name__}" for name, value in result.items())
