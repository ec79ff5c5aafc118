"""Forward passes over packed rows: every layer but attention computes on real tokens only.

transformers hands the attention of an encoder to a function that is registered by name, and hands keyword arguments of
the forward pass down to it. The function here finds the rows among them: on the CPU it puts queries, keys and values
back to (B, heads, L, d), on CUDA it computes on jagged tensors. Dropout is that of the padded pass, probabilities of
attention included; only the random numbers differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from harness.encoders.rows import Packed, TokenRows
from harness.encoders.weights import UNREADABLE

#: the name of the attention function within transformers
NAME = "harness-packed"
#: Keyword arguments of attention without influence on it; any other could change what it computes, and is refused.
_WITHOUT_INFLUENCE = {"position_ids", "output_attentions", "output_hidden_states", "return_dict", "use_cache"}
#: token ids of the trial: rows of one, some and many tokens, of a vocabulary of any size
_TRIAL = ((5,), (6, 7, 8), (5, 9, 7, 6, 8, 9, 5), (8, 6))
#: largest difference of the two passes of the trial, relative to the largest value; float32 rounds at 1e-7
_CLOSE = 1e-4


def first_position(model: Any) -> int | None:
    """Let a model compute on packed rows, if it can; return the position of a row's first token, None if it cannot.

    Tried on a few rows: the packed pass must give what the padded one gives. The model is on the CPU.
    """
    before = model.config._attn_implementation
    if _registered() and before == "sdpa":
        model.config._attn_implementation = NAME
        training = model.training
        try:
            found = _tried(model.eval())
        finally:
            model.train(training)
        if found is not None:
            return found
        model.config._attn_implementation = before
    return None


def packed_forward(model: nn.Module, packed: Packed, first: int, *, all_layers: bool = False) -> tuple[Tensor, ...]:
    """Run an encoder over packed rows: its hidden states, (N, d) each, the last or all, embedding layer first.

    `first` is the position of a row's first token.
    """
    ids, positions = packed.ids.unsqueeze(0), (packed.columns + first).unsqueeze(0)
    inputs = {"input_ids": ids, "position_ids": positions, "packed_rows": packed}
    return tuple(layer.squeeze(0) for layer in padded_forward(model, inputs, all_layers=all_layers))


def padded_forward(model: nn.Module, inputs: Mapping[str, Any], *, all_layers: bool = False) -> tuple[Tensor, ...]:
    """Run an encoder over padded rows: its hidden states, (B, L, d) each, the last or all, embedding layer first."""
    output = model(**inputs, output_hidden_states=all_layers)
    return (*(output.hidden_states or ())[:-1], output.last_hidden_state)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packed_rows: Packed | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention within rows, as transformers calls it: (B, heads, L, d) three times -> (B, L, heads, d).

    Packed rows are one row of N tokens. Raises TypeError where their attention would need more than the rows.
    """
    if packed_rows is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return found
    odd = [name for name, given in kwargs.items() if given is not None and name not in _WITHOUT_INFLUENCE]
    if odd or attention_mask is not None or getattr(module, "is_causal", False):
        raise TypeError(f"attention over packed rows has no {', '.join(odd) or 'mask'}")
    # a compiled pass has static operators only, which jagged tensors are not
    compute = _jagged if query.is_cuda and not torch.compiler.is_compiling() else _scattered
    query, key, value = (each.squeeze(0).transpose(0, 1) for each in (query, key, value))
    return compute(query, key, value, packed_rows, dropout, scaling).unsqueeze(0), None


def _scattered(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, dropout: float, scaling: float | None
) -> Tensor:
    """Attention within packed rows on padded tensors: (N, heads, d) each -> (N, heads, d)."""
    query, key, value = (_Scatter.apply(each, packed).transpose(1, 2) for each in (query, key, value))
    mask = None
    if packed.shortest < packed.longest:
        lengths = packed.offsets.diff()
        mask = torch.arange(packed.longest, device=query.device) < lengths.view(-1, 1, 1, 1)
    found = scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling)
    gathered: Tensor = _Gather.apply(found.transpose(1, 2), packed)
    return gathered


def _jagged(query: Tensor, key: Tensor, value: Tensor, packed: Packed, dropout: float, scaling: float | None) -> Tensor:
    """Attention within packed rows on jagged tensors, without padding: (N, heads, d) each -> (N, heads, d)."""
    query, key, value = (
        torch.nested.nested_tensor_from_jagged(
            each.contiguous(), packed.offsets, min_seqlen=packed.shortest, max_seqlen=packed.longest
        ).transpose(1, 2)
        for each in (query, key, value)
    )
    return scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scaling).transpose(1, 2).values()


class _Scatter(torch.autograd.Function):
    """Tokens to their places among zeros, (N, ...) -> (B, L, ...); the gradient is gathered, nothing is summed."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, packed: Packed) -> Tensor:
        ctx.packed = packed
        return packed.padded(tokens)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].flatten(0, 1).index_select(0, ctx.packed.places), None


class _Gather(torch.autograd.Function):
    """Tokens from their places, (B, L, ...) -> (N, ...)."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, packed: Packed) -> Tensor:
        ctx.packed = packed
        return padded.flatten(0, 1).index_select(0, packed.places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.packed.padded(gradients[0]), None


def _registered() -> bool:
    """Whether transformers has the function; older versions have no such interface."""
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    except ImportError:
        return False
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return True


@torch.no_grad()
def _tried(model: Any) -> int | None:
    """Return the position of a row's first token with which the packed pass gives what the padded one gives."""
    pad = getattr(model.config, "pad_token_id", None)
    rows = TokenRows.listed(_TRIAL, pad or 0)
    wanted = model(**rows).last_hidden_state.flatten(0, 1)[rows.packed.places]
    close = _CLOSE * float(wanted.abs().max())
    for first in dict.fromkeys((0, (pad or 0) + 1)):  # BERT counts from 0, RoBERTa from the id of padding
        try:
            (found,) = packed_forward(model, rows.packed, first)
        except UNREADABLE:  # the encoder takes no positions, or computes its attention itself
            continue
        if found.shape == wanted.shape and bool(((found - wanted).abs() <= close).all()):
            return first
    return None
