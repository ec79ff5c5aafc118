"""Frozen teachers: the interface of a kind of teacher, and loading one by its kind.

A kind is registered under an entry point of `harness.teacher_kinds` that names a subclass of
`Teacher`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import registry
from harness.code import get_declarations
from harness.errors import UserError
from harness.spec import FeatureKind

if TYPE_CHECKING:
    from torch import Tensor

#: n images, each (h, w, 3) uint8.
ImageArrays = Sequence[np.ndarray] | np.ndarray


class Teacher(registry.Registered, ABC):
    """A frozen model that computes features of the kinds in `gives`, rows in the order of its
    input.

    A row does not depend on the rest of the batch, except for rounding. Asking for another kind of
    feature raises UserError.
    """

    #: The kinds of features it computes.
    gives: ClassVar[tuple[FeatureKind, ...]]
    #: Whether its features depend on the pooling, which is then part of their identity.
    pooled: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, folder: Path, *, pooling: str, max_length: int, device: str) -> None:
        """Load a model folder in evaluation mode and float32. Raises UserError for one that cannot
        be read.

        `pooling` (a registered name) and `max_length` (tokens, special ones included) say how
        sentences are encoded unless the model fixes that.
        """

    def images(self, pixels: ImageArrays) -> np.ndarray:
        """Compute features of n images, each (h, w, 3) uint8: (n, f) float32."""
        raise self._make_refusal("image")

    def captions(self, sentences: Sequence[str]) -> np.ndarray:
        """Compute features of n sentences: (n, f) float32."""
        raise self._make_refusal("caption")

    def tokens(self, sentences: Sequence[str], max_length: int) -> np.ndarray:
        """Compute features of every token of n sentences: (n, max_length, f) float32."""
        raise self._make_refusal("tokens")

    def _make_refusal(self, kind: FeatureKind) -> UserError:
        kinds = " and ".join(self.gives)
        return UserError(
            f"{type(self).__name__} computes {kinds} features, not {kind} features; choose another teacher"
        )


def get_teacher_class(kind: str) -> type[Teacher]:
    """Return the class of a registered kind of teacher. Raises UserError for an unknown kind."""
    return registry.get_class("teacher kind", kind, Teacher)


def get_teacher_features(kind: str) -> tuple[tuple[FeatureKind, ...], bool]:
    """Return `gives` and `pooled` of a registered kind, imported only if they are not cached.
    Raises UserError.
    """

    def read_class() -> list[Any]:
        teacher = get_teacher_class(kind)
        return [list(teacher.gives), teacher.pooled]

    gives, pooled = get_declarations().ask("teacher kind", kind, "class", read_class)
    return tuple(gives), pooled


def open_teacher(
    kind: str, folder: Path, *, pooling: str = "cls", max_length: int = 32, device: str = "cpu"
) -> Teacher:
    """Load a teacher of a registered kind (see `Teacher`). Raises UserError."""
    return get_teacher_class(kind)(folder, pooling=pooling, max_length=max_length, device=device)


def compute_in_batches(items: Any, size: int, compute: Callable[[Any], Tensor]) -> np.ndarray:
    """Compute features of n > 0 items `size` at a time, without gradients: (n, ...) float32."""
    import torch

    with torch.inference_mode():
        parts = [compute(items[start : start + size]) for start in range(0, len(items), size)]
        return np.concatenate([part.float().cpu().numpy() for part in parts])


def check_vocabulary(student: Path, teacher: Path, name: str) -> None:
    """Raise UserError if the tokens of the teacher `name` differ from the student's; both are model
    folders.
    """
    from harness.encoders.tokenizer import load_tokenizer

    if load_tokenizer(student).get_vocab() != load_tokenizer(teacher).get_vocab():
        raise UserError(
            f"token features need a teacher with the student's vocabulary, and {name} has another; "
            "name a teacher of the same family, or leave out the loss term that reads tokens"
        )
