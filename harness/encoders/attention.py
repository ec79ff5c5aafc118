"""The attention of packed rows, as a function that transformers calls.

On a CPU it puts queries, keys and values back to (heads, B, L, d); on CUDA it computes on jagged tensors, without
padding. Kernels that leave out the dropout of attention are not used where there is one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from harness.encoders.blocks import blocked_attention
from harness.encoders.rows import Packed

#: the name of the function within transformers, and of the argument that hands the rows to it
NAME, ARGUMENT = "harness-packed", "packed_rows"
#: Keyword arguments of attention without influence on it; any other could change what it computes, and is refused.
_WITHOUT_INFLUENCE = {"position_ids", "output_attentions", "output_hidden_states", "return_dict", "use_cache"}


def registered() -> bool:
    """Make the function known to transformers; False for an older version, which has no such interface."""
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    except ImportError:
        return False
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return True


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
    odd = [name for name, given in kwargs.items() if given is not None and name not in _WITHOUT_INFLUENCE]
    plain = not odd and attention_mask is None and not getattr(module, "is_causal", False)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if packed_rows is None and plain and query.device.type == "cpu":
        return _within(query, key, value, None, dropout, scale).transpose(1, 2).contiguous(), None
    if packed_rows is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return found
    if not plain:
        raise TypeError(f"attention over packed rows has no {', '.join(odd) or 'mask'}")
    # a compiled pass has static operators only, which jagged tensors are not
    compute = _jagged if query.is_cuda and not torch.compiler.is_compiling() else _scattered
    return compute(query.squeeze(0), key.squeeze(0), value.squeeze(0), packed_rows, dropout, scale).unsqueeze(0), None


def _within(query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, dropout: float, scale: float) -> Tensor:
    """Attention, (X, Y, L, d) three times -> (X, Y, L, d); `real`, (Y, L), are the keys that count, None for all."""
    if dropout == 0 or query.device.type != "cpu" or torch.compiler.is_compiling():
        mask = None if real is None else real.unsqueeze(1)
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale)
    bias = None if real is None else query.new_zeros(real.shape).masked_fill_(~real, -torch.inf).unsqueeze(1)
    flat = [each.flatten(0, 1) for each in (query, key, value)]
    return blocked_attention(flat[0], flat[1], flat[2], bias, dropout, scale).view(*query.shape[:3], -1)


def _scattered(query: Tensor, key: Tensor, value: Tensor, packed: Packed, dropout: float, scale: float) -> Tensor:
    """Attention within packed rows on padded tensors: (heads, N, d) each -> (N, heads, d)."""
    query, key, value = (
        _Scatter.apply(each, packed).view(len(each), packed.rows, packed.longest, -1) for each in (query, key, value)
    )
    real = None
    if packed.shortest < packed.longest:
        real = torch.arange(packed.longest, device=query.device) < packed.offsets.diff().unsqueeze(1)
    gathered: Tensor = _Gather.apply(_within(query, key, value, real, dropout, scale).flatten(1, 2), packed)
    return gathered


def _jagged(query: Tensor, key: Tensor, value: Tensor, packed: Packed, dropout: float, scale: float) -> Tensor:
    """Attention within packed rows on jagged tensors, without padding: (heads, N, d) each -> (N, heads, d)."""
    query, key, value = (
        torch.nested.nested_tensor_from_jagged(
            each.transpose(0, 1).contiguous(), packed.offsets, min_seqlen=packed.shortest, max_seqlen=packed.longest
        ).transpose(1, 2)
        for each in (query, key, value)
    )
    return scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scale).transpose(1, 2).values()


class _Scatter(torch.autograd.Function):
    """Tokens to their places among zeros, (heads, N, d) -> (heads, B x L, d); nothing is summed in its gradient."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, packed: Packed) -> Tensor:
        ctx.packed = packed
        return _scatter(tokens, packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _gather(gradients[0], ctx.packed).transpose(0, 1), None


class _Gather(torch.autograd.Function):
    """Tokens from their places, (heads, B x L, d) -> (N, heads, d)."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, packed: Packed) -> Tensor:
        ctx.packed = packed
        return _gather(padded, packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _scatter(gradients[0].transpose(0, 1), ctx.packed), None


def _scatter(tokens: Tensor, packed: Packed) -> Tensor:
    padded = tokens.new_zeros(len(tokens), packed.rows * packed.longest, tokens.shape[-1])
    return padded.index_copy_(1, packed.places, tokens)


def _gather(padded: Tensor, packed: Packed) -> Tensor:
    if torch.compiler.is_compiling():
        return padded.index_select(1, packed.places).transpose(0, 1).contiguous()
    # written in the order of the tokens at once, which saves a copy
    found = padded.new_empty(len(packed.places), len(padded), padded.shape[-1])
    torch.index_select(padded, 1, packed.places, out=found.transpose(0, 1))
    return found
