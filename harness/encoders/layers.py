"""The layers of BERT and RoBERTa as functions of their parameters.

Calls of modules, with their hooks and keyword arguments, take a host longer than the operators that they call, and a
card waits for the host. Dropout is drawn in the order of the modules, so that the numbers are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.encoders import dropout

#: queries, keys and values, (N, heads, d) each; dropout and scale -> (N, heads, d)
Attend = Callable[[Tensor, Tensor, Tensor, float, float], Tensor]


@dataclass(frozen=True)
class EncoderLayer:
    """The modules of a layer in the order of their use, and the dropout of its three places."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    mixed: nn.Linear
    mixed_norm: nn.LayerNorm
    wide: nn.Linear
    activation: Callable[[Tensor], Tensor]
    narrow: nn.Linear
    norm: nn.LayerNorm
    chances: tuple[float, float, float]
    heads: int

    @classmethod
    def of(cls, module: Any) -> EncoderLayer:
        """Name the parts of a layer of transformers. Raises AttributeError for one that is laid out otherwise."""
        inner, mixed, wide, narrow = module.attention.self, module.attention.output, module.intermediate, module.output
        return cls(
            *(inner.query, inner.key, inner.value, mixed.dense, mixed.LayerNorm),
            *(wide.dense, wide.intermediate_act_fn, narrow.dense, narrow.LayerNorm),
            chances=(inner.dropout.p, mixed.dropout.p, narrow.dropout.p),
            heads=inner.num_attention_heads,
        )

    def __call__(self, states: Tensor, attend: Attend, *, training: bool, kept: Tensor | None = None) -> Tensor:
        """Compute the next states: (N, d) -> (N, d), or (K, d) at the K tokens `kept`."""
        weights, mixed, narrow = self.chances if training else (0.0, 0.0, 0.0)
        shape = (len(states), self.heads, -1)
        query, key, value = (_linear(each, states).view(shape) for each in (self.query, self.key, self.value))
        context = attend(query, key, value, weights, query.shape[-1] ** -0.5).flatten(1)
        if kept is not None:
            context, states = context.index_select(0, kept), states.index_select(0, kept)
        states = _normed(self.mixed_norm, dropout.dropped(_linear(self.mixed, context), mixed) + states)
        inner = self.activation(_linear(self.wide, states))
        return _normed(self.norm, dropout.dropped(_linear(self.narrow, inner), narrow) + states)


def layers_of(model: Any) -> tuple[EncoderLayer, ...]:
    """Return the layers of an encoder laid out like BERT; none of another."""
    try:
        return tuple(map(EncoderLayer.of, model.encoder.layer))
    except (AttributeError, TypeError):
        return ()


def through(
    layers: Sequence[EncoderLayer], states: Tensor, attend: Attend, *, training: bool, kept: Tensor | None = None
) -> list[Tensor]:
    """Pass embedded tokens, (N, d), through layers: the states before the first and after each.

    With `kept` the last layer is computed, after its attention, at these tokens only.
    """
    found = [states]
    for layer in layers[:-1]:
        found.append(layer(found[-1], attend, training=training))
    return [*found, layers[-1](found[-1], attend, training=training, kept=kept)]


def _linear(module: nn.Linear, states: Tensor) -> Tensor:
    return functional.linear(states, module.weight, module.bias)


def _normed(module: nn.LayerNorm, states: Tensor) -> Tensor:
    return torch.layer_norm(states, module.normalized_shape, module.weight, module.bias, module.eps)
