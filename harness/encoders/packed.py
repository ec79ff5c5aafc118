"""Forward passes over packed rows: every layer but attention computes on real tokens only.

transformers hands keyword arguments of a forward pass down to the attention, and calls a registered function for it
(`harness.encoders.attention`), which finds the rows among them. Dropout is that of the padded pass, probabilities of
attention included; only the random numbers differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from harness.encoders.attention import ARGUMENT, NAME, registered
from harness.encoders.kernels import Attention, attention_on, scattered
from harness.encoders.rows import Packed, TokenRows
from harness.encoders.weights import UNREADABLE

#: token ids of the trial: rows of one, some and many tokens, of a vocabulary of any size
_TRIAL = ((5,), (6, 7, 8), (5, 9, 7, 6, 8, 9, 5), (8, 6))
#: largest difference of the two passes of the trial, relative to the largest value; float32 rounds at 1e-7
_CLOSE = 1e-4


@dataclass(frozen=True)
class Packing:
    """How an encoder processes packed rows: the position of a row's first token, and the attention.

    With `trims` its last layer, after attention, can be computed at some tokens only.
    """

    first: int
    trims: bool
    attention: Attention = scattered

    def on_device(self, model: Any) -> Packing | None:
        """Return the packing of a model where it is, in the type that its layers compute in; None if there is none."""
        if torch.compiler.is_compiling():
            return self
        device, dtype, heads = model.device, model.dtype, model.config.num_attention_heads
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)
        attention = attention_on(device, dtype, heads, model.config.hidden_size // heads)
        return attention and replace(self, attention=attention)


def packing_of(model: Any) -> Packing | None:
    """Let a model compute on packed rows, if it can; None if it cannot.

    Tried on a few rows: the packed pass must give what the padded one gives. The model is on the CPU.
    """
    before = model.config._attn_implementation
    if before != "sdpa" or not registered():
        return None
    model.config._attn_implementation = NAME
    training = model.training
    try:
        found = _tried(model.eval())
    finally:
        model.train(training)
    if found is None:
        model.config._attn_implementation = before
    return found


def packed_forward(
    model: nn.Module, packed: Packed, packing: Packing, *, all_layers: bool = False
) -> tuple[Tensor, ...]:
    """Run an encoder over packed rows: its hidden states, (N, d) each, the last or all, embedding layer first."""
    ids, positions = packed.ids.unsqueeze(0), (packed.columns + packing.first).unsqueeze(0)
    inputs = {"input_ids": ids, "position_ids": positions, ARGUMENT: partial(packing.attention, packed)}
    return tuple(layer.squeeze(0) for layer in padded_forward(model, inputs, all_layers=all_layers))


def first_tokens(model: nn.Module, packed: Packed, packing: Packing) -> Tensor:
    """Run an encoder over packed rows and take the last layer at the first token of each: (B, d)."""
    if not packing.trims or torch.compiler.is_compiling():
        return packed_forward(model, packed, packing)[-1].index_select(0, packed.firsts)
    with trimmed(model, lambda states: states.index_select(1, packed.firsts)):
        return packed_forward(model, packed, packing)[-1]


@contextmanager
def trimmed(model: Any, take: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let the last layer of a model, after its attention, compute what `take` leaves of its states, (B, L, d)."""
    output: nn.Module = model.encoder.layer[-1].attention.output
    handle = output.register_forward_pre_hook(lambda module, given: tuple(map(take, given)))
    try:
        yield
    finally:
        handle.remove()


def padded_forward(model: nn.Module, inputs: Mapping[str, Any], *, all_layers: bool = False) -> tuple[Tensor, ...]:
    """Run an encoder over padded rows: its hidden states, (B, L, d) each, the last or all, embedding layer first."""
    output = model(**inputs, output_hidden_states=all_layers)
    return (*(output.hidden_states or ())[:-1], output.last_hidden_state)


@torch.no_grad()
def _tried(model: Any) -> Packing | None:
    """Return the packing with which a model gives what its padded pass gives."""
    pad = getattr(model.config, "pad_token_id", None) or 0
    rows = TokenRows.listed(_TRIAL, pad)
    wanted = model(**rows).last_hidden_state.flatten(0, 1)[rows.packed.places]
    # BERT counts from 0, RoBERTa from the id of padding
    for packing in (Packing(0, trims=False), Packing(pad + 1, trims=False)):
        if _same(partial(packed_forward, model, rows.packed, packing), wanted):
            trims = replace(packing, trims=True)
            firsts = wanted[rows.packed.firsts]
            return trims if _same(partial(first_tokens, model, rows.packed, trims), firsts) else packing
    return None


def _same(compute: Callable[[], Tensor | tuple[Tensor, ...]], wanted: Tensor) -> bool:
    """Whether a forward pass is possible and its last layer is what is wanted."""
    try:
        computed = compute()
    except UNREADABLE:  # the encoder takes no positions, computes its attention itself or has other layers
        return False
    found = computed if isinstance(computed, Tensor) else computed[-1]
    close = _CLOSE * float(wanted.abs().max())
    return found.shape == wanted.shape and bool(((found - wanted).abs() <= close).all())
