"""Attention within packed rows: kernels of CUDA without padding, and one on padded tensors for every device.

The kernels are private operators of torch. One is used where its signature is the expected one and a trial on the
device gives the numbers of the padded computation, forward and gradient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from harness.encoders.dropout import blocked_attention
from harness.encoders.rows import Packed, TokenRows
from harness.errors import first_line

log = logging.getLogger(__name__)

#: packed rows; queries, keys and values, (N, heads, d) each; dropout and scale -> (N, heads, d)
Attention = Callable[[Packed, Tensor, Tensor, Tensor, float, float], Tensor]
_HALF = (torch.bfloat16, torch.float16)
#: The arguments that are given to each operator by position. It also takes `scale`, and needs no other.
_ARGUMENTS = {
    "_flash_attention_forward": (
        "Tensor query, Tensor key, Tensor value, Optional[Tensor] cum_seq_q, Optional[Tensor] cum_seq_k, int max_q, "
        "int max_k, float dropout_p, bool is_causal, bool return_debug_mask"
    ),
    "_efficient_attention_forward": (
        "Tensor query, Tensor key, Tensor value, Optional[Tensor] bias, Optional[Tensor] cu_seqlens_q, "
        "Optional[Tensor] cu_seqlens_k, Optional[int] max_seqlen_q, Optional[int] max_seqlen_k, float dropout_p, "
        "int custom_mask_type, bool compute_log_sumexp"
    ),
}
#: tokens of the rows of the trial: one, a few, and more than a block of the kernels
_TRIAL = (1, 3, 70, 2, 17)
#: largest difference of the trial, relative to the largest value: TF32 and the half types round at 5e-4 and 4e-3
_CLOSE, _CLOSE_HALF = 1e-2, 5e-2


@cache
def attention_on(device: torch.device, dtype: torch.dtype, heads: int, size: int) -> Attention | None:
    """Return the fastest attention that works on a device for `heads` heads of `size` dimensions; None if none does."""
    for attention, name, why in trials(device, dtype, heads, size):
        if why is None:
            return attention
        log.warning("%s attention is not used for %s on %s: %s", name, str(dtype)[6:], device, why)
    return None


def trials(
    device: torch.device, dtype: torch.dtype, heads: int, size: int
) -> Iterator[tuple[Attention, str, str | None]]:
    """Try each attention of a device, fastest first, and say why it cannot be used; None where it can."""
    for attention in _candidates(device, dtype):
        yield attention, attention.__name__.strip("_"), _failure(attention, device, dtype, heads, size)


def scattered(packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float) -> Tensor:
    """Compute attention on padded tensors, on any device."""
    query, key, value = (
        _Scatter.apply(each, packed).unflatten(1, (packed.rows, packed.longest)) for each in (query, key, value)
    )
    real = None
    if packed.shortest < packed.longest:
        real = torch.arange(packed.longest, device=query.device) < packed.offsets.diff().unsqueeze(1)
    gathered: Tensor = _Gather.apply(within(query, key, value, real, dropout, scale).flatten(1, 2), packed)
    return gathered


def within(query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, dropout: float, scale: float) -> Tensor:
    """Compute attention, (X, Y, L, d) three times -> (X, Y, L, d); `real`, (Y, L), are the keys that count."""
    if dropout == 0 or query.device.type != "cpu" or torch.compiler.is_compiling():
        mask = None if real is None else real.unsqueeze(1)
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale)
    bias = None if real is None else query.new_zeros(real.shape).masked_fill_(~real, -torch.inf).unsqueeze(1)
    flat = [each.flatten(0, 1) for each in (query, key, value)]
    return blocked_attention(flat[0], flat[1], flat[2], bias, dropout, scale).view(*query.shape[:3], -1)


def _flash(packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float) -> Tensor:
    rows, longest = packed.offsets, packed.longest
    found: Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, rows, rows, longest, longest, dropout, False, False, scale=scale
    )[0]
    return found


def _efficient(packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float) -> Tensor:
    tokens = [each.unsqueeze(0) for each in (query, key, value)]
    rows, longest, graph = packed.offsets, packed.longest, query.requires_grad and torch.is_grad_enabled()
    found: Tensor = torch.ops.aten._efficient_attention_forward(
        *tokens, None, rows, rows, longest, longest, dropout, 0, graph, scale=scale
    )[0]
    return found.squeeze(0)


def _candidates(device: torch.device, dtype: torch.dtype) -> Iterator[Attention]:
    if device.type == "cuda":
        flash = dtype in _HALF and torch.cuda.get_device_capability(device) >= (8, 0)
        if flash and _as_expected("_flash_attention_forward"):
            yield _flash
        if dtype in (*_HALF, torch.float32) and _as_expected("_efficient_attention_forward"):
            yield _efficient
    yield scattered


def _as_expected(operator: str) -> bool:
    """Whether this torch has an operator with the signature that is used here."""
    try:
        given = getattr(torch.ops.aten, operator).default._schema.arguments
    except AttributeError:
        return False
    expected = _ARGUMENTS[operator].split(", ")
    rest = given[len(expected) :]
    return (
        [f"{each.type} {each.name}" for each in given[: len(expected)]] == expected
        and any(each.name == "scale" for each in rest)
        and all(each.has_default_value() for each in rest)
    )


def _failure(attention: Attention, device: torch.device, dtype: torch.dtype, heads: int, size: int) -> str | None:
    """Say why an attention cannot be used: what it raises, or how far its numbers are from those of a CPU."""
    packed = TokenRows.listed([[0] * length for length in _TRIAL], 0).packed
    drawn = torch.randn(4, sum(_TRIAL), heads, size, generator=torch.Generator().manual_seed(0)).to(dtype)
    with torch.inference_mode(False), torch.enable_grad():
        wanted = _outcome(scattered, packed, drawn.float())
        try:
            found = _outcome(attention, packed.to(device), drawn.to(device))
        except torch.cuda.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:
            return first_line(error)
    far = _difference(found, wanted)
    return None if far <= (_CLOSE_HALF if dtype in _HALF else _CLOSE) else f"its numbers differ by {far:.0%}"


def _outcome(attention: Attention, packed: Packed, drawn: Tensor) -> Tensor:
    """Return the output for queries, keys and values, and their gradients under given weights: (4, N, heads, d)."""
    inputs = drawn[:3].clone().requires_grad_()
    query, key, value = inputs.unbind()
    output = attention(packed, query, key, value, 0.0, drawn.shape[-1] ** -0.5)
    (gradients,) = torch.autograd.grad(output, inputs, drawn[3])
    return torch.cat([output.detach().unsqueeze(0), gradients])


def _difference(found: Tensor, wanted: Tensor) -> float:
    """Return the largest difference of output and gradients, each relative to its largest value; infinite for NaN."""
    far = (found.cpu().float() - wanted).abs().amax((1, 2, 3)) / wanted.abs().amax((1, 2, 3))
    return float(far.nan_to_num(torch.inf).max())


class _Scatter(torch.autograd.Function):
    """Tokens to their places among zeros, (N, heads, d) -> (heads, B x L, d); nothing is summed in its gradient."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, packed: Packed) -> Tensor:
        ctx.packed = packed
        return _scatter(tokens, packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _gather(gradients[0], ctx.packed), None


class _Gather(torch.autograd.Function):
    """Tokens from their places, (heads, B x L, d) -> (N, heads, d)."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, packed: Packed) -> Tensor:
        ctx.packed = packed
        return _gather(padded, packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _scatter(gradients[0], ctx.packed), None


def _scatter(tokens: Tensor, packed: Packed) -> Tensor:
    padded = tokens.new_zeros(tokens.shape[1], packed.rows * packed.longest, tokens.shape[-1])
    return padded.index_copy_(1, packed.places, tokens.transpose(0, 1))


def _gather(padded: Tensor, packed: Packed) -> Tensor:
    if torch.compiler.is_compiling():
        return padded.index_select(1, packed.places).transpose(0, 1).contiguous()
    # written in the order of the tokens at once, which saves a copy
    found = padded.new_empty(len(packed.places), len(padded), padded.shape[-1])
    torch.index_select(padded, 1, packed.places, out=found.transpose(0, 1))
    return found
