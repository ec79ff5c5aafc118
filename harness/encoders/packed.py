"""Forward passes over packed rows: every layer but attention computes on real tokens only.

The layers of an encoder laid out like BERT or RoBERTa run as functions of their parameters, since
calling modules costs the host more time than the operators inside. For other encoders, a registered
attention function receives the rows as keyword arguments, which transformers passes down from the
forward call. Dropout is applied in the same places and order as in the padded pass; only the random
numbers differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.encoders.embedded import NO_CHANGE, EmbeddingChange, apply_change
from harness.encoders.kernels import (
    Attention,
    apply_dropout,
    compute_attention,
    compute_scattered_attention,
    find_attention,
)
from harness.encoders.rows import IdRows, Packed, TokenRows
from harness.encoders.weights import UNREADABLE

#: hidden states of layers, the last or all, embedding layer first
States = tuple[Tensor, ...]
#: queries, keys and values, (N, heads, d) each; dropout and scale -> (N, heads, d)
Attend = Callable[[Tensor, Tensor, Tensor, float, float], Tensor]


@dataclass(frozen=True)
class EncoderLayer:
    """The modules of a layer in the order of their use, and the dropout of its three places; linear
    ones may have low-rank matrices beside their weights.
    """

    query: nn.Module
    key: nn.Module
    value: nn.Module
    mixed: nn.Module
    mixed_norm: nn.LayerNorm
    wide: nn.Module
    activation: Callable[[Tensor], Tensor]
    narrow: nn.Module
    norm: nn.LayerNorm
    chances: tuple[float, float, float]
    heads: int

    @classmethod
    def from_module(cls, module: Any) -> EncoderLayer:
        """Find the parts of a layer of transformers. Raises AttributeError for any other layout."""
        inner = module.attention.self
        mixed = module.attention.output
        wide = module.intermediate
        narrow = module.output
        return cls(
            *(inner.query, inner.key, inner.value, mixed.dense, mixed.LayerNorm),
            *(wide.dense, wide.intermediate_act_fn, narrow.dense, narrow.LayerNorm),
            chances=(inner.dropout.p, mixed.dropout.p, narrow.dropout.p),
            heads=inner.num_attention_heads,
        )

    def __call__(
        self, states: Tensor, attend: Attend, *, training: bool, kept: Tensor | None = None
    ) -> Tensor:
        """Compute the next states: (N, d) -> (N, d), or (K, d) at the K tokens `kept`."""
        weights_chance, mixed_chance, narrow_chance = self.chances if training else (0.0, 0.0, 0.0)

        shape = (len(states), self.heads, -1)
        query = _apply_linear(self.query, states).view(shape)
        key = _apply_linear(self.key, states).view(shape)
        value = _apply_linear(self.value, states).view(shape)
        scale = query.shape[-1] ** -0.5
        context = attend(query, key, value, weights_chance, scale).flatten(1)

        if kept is not None:
            context = context.index_select(0, kept)
            states = states.index_select(0, kept)

        mixed = apply_dropout(_apply_linear(self.mixed, context), mixed_chance)
        states = _apply_norm(self.mixed_norm, mixed + states)

        wide = self.activation(_apply_linear(self.wide, states))
        narrow = apply_dropout(_apply_linear(self.narrow, wide), narrow_chance)
        return _apply_norm(self.norm, narrow + states)


def find_layers(model: Any) -> tuple[EncoderLayer, ...]:
    """Return the layers of an encoder laid out like BERT; none of another."""
    try:
        return tuple(map(EncoderLayer.from_module, model.encoder.layer))
    except (AttributeError, TypeError):
        return ()


def run_layers(
    layers: Sequence[EncoderLayer],
    states: Tensor,
    attend: Attend,
    *,
    training: bool,
    kept: Tensor | None = None,
) -> list[Tensor]:
    """Pass embedded tokens, (N, d), through layers: the states before the first and after each.

    With `kept` the last layer is computed, after its attention, at these tokens only.
    """
    hidden = [states]
    for layer in layers[:-1]:
        hidden.append(layer(hidden[-1], attend, training=training))

    last = layers[-1](hidden[-1], attend, training=training, kept=kept)
    return [*hidden, last]


def _apply_linear(module: nn.Module, states: Tensor) -> Tensor:
    if type(module) is nn.Linear:
        return functional.linear(states, module.weight, module.bias)

    # a linear layer with low-rank matrices beside it (`harness.encoders.adapters`)
    adapted: Tensor = module(states)
    return adapted


def _apply_norm(module: nn.LayerNorm, states: Tensor) -> Tensor:
    return torch.layer_norm(states, module.normalized_shape, module.weight, module.bias, module.eps)


#: the name under which transformers knows the function, and the argument that passes it the
#: attention of the rows
_NAME = "harness-packed"
_ARGUMENT = "packed_rows"
#: Keyword arguments that do not change the attention; any other argument is refused.
_WITHOUT_INFLUENCE = {
    "position_ids",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "use_cache",
}
#: largest difference of the two passes of the trial, relative to the largest value; float32 rounds
#: at 1e-7
_CLOSE = 1e-4


@dataclass(frozen=True)
class Packing:
    """How an encoder processes packed rows: the position of a row's first token, and the attention.

    Without `layers` the encoder runs by its modules. Encoders that count from `first` > 0, the pad
    token's id and 1, give a pad token within a sentence the position of padding, and do not count
    it.
    """

    first: int
    layers: tuple[EncoderLayer, ...] = ()
    attention: Attention = compute_scattered_attention

    def select_attention(self, model: Any) -> Packing | None:
        """Return the packing for a model's device and compute type; None if no attention works
        there.
        """
        if torch.compiler.is_compiling():
            return self

        device = model.device
        dtype = model.dtype
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)

        heads = model.config.num_attention_heads
        attention = find_attention(device, dtype, heads, model.config.hidden_size // heads)
        return None if attention is None else replace(self, attention=attention)


def find_packing(model: Any, rows: IdRows) -> Packing | None:
    """Return how a model, on the CPU for now, runs packed rows; None unless its states at these
    token ids equal those of padded rows.

    A model with a packing keeps the attention of packed rows, which serves padded ones too.
    """
    before = model.config._attn_implementation
    if before != "sdpa":
        return None

    _register_attention(model)
    training = model.training
    try:
        packing = _try_packings(model.eval(), rows)
    finally:
        model.train(training)

    if packing is None:
        model.config._attn_implementation = before
    return packing


def restore_packing(model: Any, first: int, *, direct: bool) -> Packing:
    """Return the packing that `find_packing` has found for an equal model; `direct` is whether it has
    layers.
    """
    _register_attention(model)
    return Packing(first, find_layers(model) if direct else ())


def run_packed(
    model: Any,
    packed: Packed,
    packing: Packing,
    *,
    all_layers: bool = False,
    change: EmbeddingChange = NO_CHANGE,
) -> States:
    """Run an encoder over packed rows: its hidden states, (N, d) each, the last or all, embedding
    layer first.
    """
    if packing.layers:
        layers = _run_functions(model, packed, packing, change=change)
        return tuple(layers if all_layers else layers[-1:])

    inputs = _make_inputs(packed, packing, change)
    inputs[_ARGUMENT] = partial(packing.attention, packed)
    with apply_change(model, change, packed):
        states = run_padded(model, inputs, all_layers=all_layers)
    return tuple(layer.squeeze(0) for layer in states)


def run_to_first_tokens(
    model: Any, packed: Packed, packing: Packing, change: EmbeddingChange = NO_CHANGE
) -> Tensor:
    """Run an encoder over packed rows and take the last layer at the first token of each: (B, d)."""
    if packing.layers:
        return _run_functions(model, packed, packing, packed.firsts, change)[-1]

    (states,) = run_packed(model, packed, packing, change=change)
    return states.index_select(0, packed.firsts)


def run_padded(model: nn.Module, inputs: Mapping[str, Any], *, all_layers: bool = False) -> States:
    """Run an encoder over padded rows: its hidden states, (B, L, d) each, the last or all,
    embedding layer first.
    """
    output = model(**inputs, output_hidden_states=all_layers)
    return (*(output.hidden_states or ())[:-1], output.last_hidden_state)


def _run_functions(
    model: Any,
    packed: Packed,
    packing: Packing,
    kept: Tensor | None = None,
    change: EmbeddingChange = NO_CHANGE,
) -> list[Tensor]:
    embedded = model.embeddings(**_make_inputs(packed, packing, change)).squeeze(0)
    embedded = change.change_states(embedded, packed)

    attend = partial(packing.attention, packed)
    return run_layers(packing.layers, embedded, attend, training=model.training, kept=kept)


def _make_inputs(
    packed: Packed, packing: Packing, change: EmbeddingChange = NO_CHANGE
) -> dict[str, Any]:
    positions = change.move_positions(compute_positions(packed, packing.first), packed)
    return {"input_ids": packed.ids.unsqueeze(0), "position_ids": positions.unsqueeze(0)}


def compute_positions(packed: Packed, first: int) -> Tensor:
    """The position ids of N tokens, (N,), of an encoder that counts from `first`."""
    return _count_without_pads(packed, first) if first else packed.columns


def _count_without_pads(packed: Packed, first: int) -> Tensor:
    """The positions of tokens, (N,): counted from `first` in each row, and `first` - 1 for tokens
    of that id.
    """
    is_counted = (packed.ids != first - 1).long()
    counts = is_counted.cumsum(0)

    firsts = torch.arange(len(counts), device=counts.device) - packed.columns
    counts_before_row = (counts - is_counted)[firsts]
    return (counts - counts_before_row) * is_counted + (first - 1)


@torch.no_grad()
def _try_packings(model: Any, ids: IdRows) -> Packing | None:
    """Return the first packing that reproduces the padded pass of a model in evaluation mode; None
    if none does.
    """
    pad = getattr(model.config, "pad_token_id", None) or 0
    rows = TokenRows.from_lists(ids, pad)
    packed = rows.packed
    expected = model(**rows).last_hidden_state.flatten(0, 1)[packed.places]

    # BERT counts from 0, RoBERTa from the id of padding
    for packing in (Packing(0), Packing(pad + 1)):
        if _is_same(partial(run_packed, model, packed, packing), (expected,)):
            direct = replace(packing, layers=find_layers(model))
            return direct if _has_same_functions(model, packed, packing, direct) else packing

    return None


def _has_same_functions(model: Any, packed: Packed, packing: Packing, direct: Packing) -> bool:
    """Whether layers as functions equal the modules: at first tokens, and at all tokens with equal
    random numbers.
    """

    def compute_first_tokens(packing: Packing) -> States:
        return (run_to_first_tokens(model, packed, packing),)

    def compute_training_states(packing: Packing) -> States:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return run_packed(model.train(), packed, packing, all_layers=True)

    firsts = compute_first_tokens(packing)
    if not _is_same(partial(compute_first_tokens, direct), firsts):
        return False
    return _is_same(partial(compute_training_states, direct), compute_training_states(packing))


def _is_same(compute: Callable[[], States], expected: States) -> bool:
    """Whether a forward pass works and gives the expected states."""
    # the encoder may take no positions, compute its attention itself, or have other layers
    try:
        computed = compute()
    except UNREADABLE:
        return False
    return all(map(_is_close, computed, expected))


def _is_close(computed: Tensor, expected: Tensor) -> bool:
    if computed.shape != expected.shape:
        return False
    allowed = _CLOSE * float(expected.abs().max())
    return torch.allclose(computed, expected, rtol=0, atol=allowed)


def _register_attention(model: Any) -> None:
    """Let a model of transformers call the attention function of packed rows."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(_NAME, _compute_module_attention)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    model.config._attn_implementation = _NAME


def _compute_module_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packed_rows: Attend | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention within rows, as transformers calls it: (B, heads, L, d) three times -> (B, L,
    heads, d).

    Packed rows are one row of N tokens. Raises TypeError for an attention that depends on more than
    the rows.
    """
    influences = [
        name
        for name, argument in kwargs.items()
        if argument is not None and name not in _WITHOUT_INFLUENCE
    ]
    is_causal = getattr(module, "is_causal", False)
    is_plain = not influences and attention_mask is None and not is_causal
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling

    if packed_rows is None and is_plain and query.device.type == "cpu":
        attended = compute_attention(query, key, value, None, dropout, scale)
        return attended.transpose(1, 2).contiguous(), None

    if packed_rows is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        output: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return output

    if not is_plain:
        raise TypeError(f"attention over packed rows has no {', '.join(influences) or 'mask'}")

    # the one row of N tokens as N tokens
    query, key, value = (part.squeeze(0).transpose(0, 1) for part in (query, key, value))
    return packed_rows(query, key, value, dropout, scale).unsqueeze(0), None
