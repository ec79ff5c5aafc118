"""Poolings: how a sentence vector is computed from an encoder's layers.

A pooling is registered under an entry point of `harness.poolings` that names its class. It is used
by `METHOD[pooling=NAME]`, by text teachers, and for the folder of an exported model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from harness import registry
from harness.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


#: the registered name of `ModulesPooling`
MODULES = "modules"


class Pooling(registry.Registered, ABC):
    """Compute sentence vectors from hidden states."""

    #: The registered name, set by `get_pooling`.
    name: str
    #: Whether all layers are needed; otherwise only the last is computed and passed.
    all_layers: ClassVar[bool] = False
    #: Whether only the first position of the last layer is needed; the others may then be missing
    #: from `layers`.
    first_token: ClassVar[bool] = False
    #: Whether the pooled vector passes the student's head: the encoder's own pooler, or one that a
    #: method trained.
    head: ClassVar[bool] = False
    #: The switch in the pooling file of sentence-transformers; None where that library cannot pool
    #: like this.
    switch: ClassVar[str | None] = None
    #: Python that sets `vectors` from `output` and `tokens` of transformers, for model cards.
    code: ClassVar[str] = ""

    @abstractmethod
    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        """Pool `layers`, (B, L, d) each, embedding layer first and last layer last: (B, d).

        `mask` is (B, L), 1 at tokens, special ones included, and 0 at padding.
        """


class ClsPooling(Pooling):
    """[CLS] of the last layer, before any pooler."""

    first_token = True
    switch = "pooling_mode_cls_token"
    code = "vectors = output.last_hidden_state[:, 0]"

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        return layers[-1][:, 0]


class PoolerPooling(ClsPooling):
    """[CLS] of the last layer through the head (supervised SimCSE)."""

    head = True
    code = "vectors = output.pooler_output"


class LastPooling(Pooling):
    """The last token of the last layer that is no padding, for encoders that read from left to
    right.
    """

    switch = "pooling_mode_lasttoken"
    code = (
        'ends = tokens["attention_mask"].cumsum(1).argmax(1)\n'
        "vectors = output.last_hidden_state[torch.arange(len(ends)), ends]"
    )

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        hidden = layers[-1]
        ends = mask.cumsum(1).argmax(1).view(-1, 1, 1).expand(-1, 1, hidden.shape[-1])
        return hidden.gather(1, ends).squeeze(1)


_MEAN = (
    'mask = tokens["attention_mask"].unsqueeze(-1)\nvectors = (hidden * mask).sum(1) / mask.sum(1)'
)


class MeanPooling(Pooling):
    """Mean over the last layer's tokens."""

    switch = "pooling_mode_mean_tokens"
    code = f"hidden = output.last_hidden_state\n{_MEAN}"

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        return _compute_mean(layers[-1], mask)


class FirstLastPooling(Pooling):
    """Mean over the tokens of the average of the embedding layer and the last layer, as in the
    papers' tables.
    """

    all_layers = True
    code = f"hidden = (output.hidden_states[0] + output.last_hidden_state) / 2\n{_MEAN}"

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        return _compute_mean((layers[0] + layers[-1]) / 2, mask)


class ModulesPooling(Pooling):
    """The modules of a folder of sentence-transformers, run by that library."""

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        raise UserError(
            f"the pooling '{MODULES}' evaluates a folder of sentence-transformers as a whole; name cls, mean, "
            "last, avg-first-last or pooler to pool an encoder's tokens"
        )


def get_pooling(name: str) -> Pooling:
    """Return a registered pooling. Raises UserError for an unknown name."""
    pooling = registry.get_class("pooling", name, Pooling)()
    pooling.name = name
    return pooling


def _compute_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1)
