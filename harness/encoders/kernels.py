"""Attention within packed rows, and dropout, faster than with torch's public operators.

CUDA's attention kernels without padding are private operators of torch. A kernel is used only if
its signature is as expected and a trial on the device matches the padded computation, output and
gradients. Attention on padded tensors works on every device.

On a CPU, dropout masks are drawn faster than by torch: each element takes 16 random bits of torch's
generator. Since 65,536 p need not be an integer, the threshold of a mask is drawn from the integers
below and above it, so that every element is dropped with probability exactly p. Attention with
dropout is computed on a CPU a few heads at a time, so that their scores stay in the processor's
cache. The backward pass recomputes the scores; the forward pass stores only which weights were
dropped, one byte each.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from harness.encoders.rows import Packed, TokenRows
from harness.errors import first_line

log = logging.getLogger(__name__)

#: packed rows; queries, keys and values, (N, heads, d) each; dropout and scale -> (N, heads, d)
Attention = Callable[[Packed, Tensor, Tensor, Tensor, float, float], Tensor]
_HALF = (torch.bfloat16, torch.float16)
#: The positional arguments of each operator. The keyword `scale` is passed too; any other argument
#: is optional.
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
#: largest difference of the trial, relative to the largest value: TF32 and the half types round at
#: 5e-4 and 4e-3
_CLOSE = 1e-2
_CLOSE_HALF = 5e-2


@cache
def attention_on(
    device: torch.device, dtype: torch.dtype, heads: int, size: int
) -> Attention | None:
    """Return the fastest attention that works on a device for `heads` heads of `size` dimensions;
    None if none does.
    """
    for attention, name, why in trials(device, dtype, heads, size):
        if why is None:
            return attention
        log.warning("%s attention is not used for %s on %s: %s", name, str(dtype)[6:], device, why)
    return None


def trials(
    device: torch.device, dtype: torch.dtype, heads: int, size: int
) -> Iterator[tuple[Attention, str, str | None]]:
    """Try each attention of a device, fastest first; yield it with its name and why it fails, None
    if it works.
    """
    for attention in _candidates(device, dtype):
        yield (
            attention,
            attention.__name__.strip("_"),
            _failure(attention, device, dtype, heads, size),
        )


def scattered(
    packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float
) -> Tensor:
    """Compute attention on padded tensors, on any device."""
    query, key, value = (
        _Moved.apply(each, packed, True).unflatten(1, (packed.rows, packed.longest))
        for each in (query, key, value)
    )
    real = None
    if packed.shortest < packed.longest:
        real = torch.arange(packed.longest, device=query.device) < packed.offsets.diff().unsqueeze(
            1
        )
    gathered: Tensor = _Moved.apply(
        within(query, key, value, real, dropout, scale).flatten(1, 2), packed, False
    )
    return gathered


def within(
    query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """Compute attention, (X, Y, L, d) three times -> (X, Y, L, d); `real`, (Y, L), are the keys
    that count.
    """
    if dropout == 0 or query.device.type != "cpu" or torch.compiler.is_compiling():
        mask = None if real is None else real.unsqueeze(1)
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale
        )
    bias = (
        None
        if real is None
        else query.new_zeros(real.shape).masked_fill_(~real, -torch.inf).unsqueeze(1)
    )
    flat = [each.flatten(0, 1) for each in (query, key, value)]
    return blocked_attention(flat[0], flat[1], flat[2], bias, dropout, scale).view(
        *query.shape[:3], -1
    )


def _flash(
    packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float
) -> Tensor:
    rows = packed.offsets
    longest = packed.longest
    attended: Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, rows, rows, longest, longest, dropout, False, False, scale=scale
    )[0]
    return attended


def _efficient(
    packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float
) -> Tensor:
    tokens = [each.unsqueeze(0) for each in (query, key, value)]
    rows = packed.offsets
    longest = packed.longest
    graph = query.requires_grad and torch.is_grad_enabled()
    attended: Tensor = torch.ops.aten._efficient_attention_forward(
        *tokens, None, rows, rows, longest, longest, dropout, 0, graph, scale=scale
    )[0]
    return attended.squeeze(0)


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


def _failure(
    attention: Attention, device: torch.device, dtype: torch.dtype, heads: int, size: int
) -> str | None:
    """Return why an attention cannot be used: its error, or how far its numbers are from the CPU's."""
    packed = TokenRows.listed([[0] * length for length in _TRIAL], 0).packed
    drawn = torch.randn(4, sum(_TRIAL), heads, size, generator=torch.Generator().manual_seed(0)).to(
        dtype
    )
    with torch.inference_mode(False), torch.enable_grad():
        wanted = _outcome(scattered, packed, drawn.float())
        try:
            outcome = _outcome(attention, packed.to(device), drawn.to(device))
        except torch.cuda.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:
            return first_line(error)
    far = _difference(outcome, wanted)
    return (
        None
        if far <= (_CLOSE_HALF if dtype in _HALF else _CLOSE)
        else f"its numbers differ by {far:.0%}"
    )


def _outcome(attention: Attention, packed: Packed, drawn: Tensor) -> Tensor:
    """Return the output for queries, keys and values, and their gradients under given weights: (4,
    N, heads, d).
    """
    inputs = drawn[:3].clone().requires_grad_()
    query, key, value = inputs.unbind()
    output = attention(packed, query, key, value, 0.0, drawn.shape[-1] ** -0.5)
    (gradients,) = torch.autograd.grad(output, inputs, drawn[3])
    return torch.cat([output.detach().unsqueeze(0), gradients])


def _difference(computed: Tensor, wanted: Tensor) -> float:
    """Return the largest difference of output and gradients, each relative to its largest value;
    infinite for NaN.
    """
    far = (computed.cpu().float() - wanted).abs().amax((1, 2, 3)) / wanted.abs().amax((1, 2, 3))
    return float(far.nan_to_num(torch.inf).max())


class _Moved(torch.autograd.Function):
    """Scatter tokens to their places among zeros, (N, heads, d) -> (heads, B x L, d), or gather
    them from there.

    The gradient of each is the other, without sums.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, packed: Packed, scatters: bool) -> Tensor:
        ctx.packed = packed
        ctx.scatters = scatters
        return _scatter(values, packed) if scatters else _gather(values, packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        values = gradients[0]
        return (
            (_gather(values, ctx.packed) if ctx.scatters else _scatter(values, ctx.packed)),
            None,
            None,
        )


def _scatter(tokens: Tensor, packed: Packed) -> Tensor:
    padded = tokens.new_zeros(tokens.shape[1], packed.rows * packed.longest, tokens.shape[-1])
    return padded.index_copy_(1, packed.places, tokens.transpose(0, 1))


def _gather(padded: Tensor, packed: Packed) -> Tensor:
    if torch.compiler.is_compiling():
        return padded.index_select(1, packed.places).transpose(0, 1).contiguous()
    # written in the order of the tokens at once, which saves a copy
    gathered = padded.new_empty(len(packed.places), len(padded), padded.shape[-1])
    torch.index_select(padded, 1, packed.places, out=gathered.transpose(0, 1))
    return gathered


#: values of 16 bits, and the smallest of them as a signed number
_VALUES = 2**16
_SMALLEST = -(2**15)


class Dropout(nn.Dropout):
    """`nn.Dropout` with masks that are drawn quickly on a CPU; the same elsewhere."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name that torch gives it
        return dropped(input, self.p) if self.training else input


def dropped(values: Tensor, chance: float) -> Tensor:
    """Set each element to 0 with probability `chance`, and divide the others by 1 - `chance`."""
    if chance == 0:
        return values
    if values.device.type != "cpu" or chance == 1 or torch.compiler.is_compiling():
        return torch.dropout(values, chance, train=True)
    return values * kept_at_random(tuple(values.shape), chance).to(values.dtype).mul_(
        1 / (1 - chance)
    )


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed dropout on one device; `torch.manual_seed` would seed every kind of device, which takes
    longer.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)


def quicken(model: nn.Module) -> None:
    """Replace the `nn.Dropout` modules of a model by `Dropout`."""
    for part in model.modules():
        for name, child in part.named_children():
            if type(child) is nn.Dropout:
                setattr(part, name, Dropout(child.p).train(child.training))


@torch.no_grad()
def kept_at_random(shape: tuple[int, ...], chance: float) -> Tensor:
    """Draw 0 with probability 0 < `chance` < 1, else 1, on the CPU, as int8, which torch multiplies
    quickly.
    """
    count = math.prod(shape)
    words = torch.empty(-(-count // 4) + 1, dtype=torch.int64).random_(-(2**63), None)
    # the last word settles how many of the 65,536 values drop: the integer below or above chance x
    # 65,536
    below = math.floor(chance * _VALUES + (int(words[-1]) + 2**63) / 2**64)
    return words.view(torch.int16)[:count].ge_(_SMALLEST + below).to(torch.int8).view(shape)


#: Bytes of scores at a time: with the weights and their mask they fit into the second cache of
#: current processors.
_BYTES = 2**20


def blocked_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """Attention with dropout of its weights, (X, L, d) three times -> (X, L, d).

    `bias`, (Y, 1, L) where Y divides X, is added to the scores: item x gets row x mod Y. The
    gradient of `bias` is not computed. Weights are float32 at least, products are computed in the
    type of `query`.
    """
    kept = kept_at_random((*query.shape[:2], key.shape[1]), dropout)
    attended: Tensor = _Blocked.apply(query, key, value, bias, kept, 1 / (1 - dropout), scale)
    return attended


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        kept: Tensor,
        raised: float,
        scale: float,
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, bias, kept)
        ctx.raised = raised
        ctx.scale = scale
        attended = torch.empty_like(query)
        with torch.autocast("cpu", enabled=False):
            for part in _parts(kept):
                weights = _weights(query[part], key[part], bias, part, scale)
                torch.bmm(
                    _drop(weights, kept[part], raised).to(value.dtype),
                    value[part],
                    out=attended[part],
                )
        return attended

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, kept = ctx.saved_tensors
        outer = gradients[0].contiguous()
        of_query, of_key, of_value = (torch.empty_like(each) for each in (query, key, value))
        with torch.autocast("cpu", enabled=False):
            for part in _parts(kept):
                weights = _weights(query[part], key[part], bias, part, ctx.scale)
                dropped = _drop(weights.clone(), kept[part], ctx.raised).to(value.dtype)
                torch.bmm(dropped.transpose(1, 2), outer[part], out=of_value[part])
                of_weights = torch.bmm(outer[part], value[part].transpose(1, 2)).to(weights.dtype)
                of_scores = torch._softmax_backward_data(
                    _drop(of_weights, kept[part], ctx.raised), weights, -1, weights.dtype
                ).to(query.dtype)
                torch.bmm(of_scores.mul_(ctx.scale), key[part], out=of_query[part])
                torch.bmm(of_scores.transpose(1, 2), query[part], out=of_key[part])
        return of_query, of_key, of_value, None, None, None, None


def _parts(kept: Tensor) -> list[slice]:
    count = max(1, _BYTES // (4 * kept.shape[1] * kept.shape[2]))
    return [slice(start, min(start + count, len(kept))) for start in range(0, len(kept), count)]


def _weights(query: Tensor, key: Tensor, bias: Tensor | None, part: slice, scale: float) -> Tensor:
    """The weights of attention before dropout: (x, L, d) twice -> (x, L, L)."""
    if bias is None:
        scores = torch.bmm(query, key.transpose(1, 2)).mul_(scale)
    else:
        rows = torch.arange(part.start, part.stop) % len(bias)
        scores = torch.baddbmm(bias[rows], query, key.transpose(1, 2), alpha=scale)
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def _drop(weights: Tensor, kept: Tensor, raised: float) -> Tensor:
    return weights.mul_(kept).mul_(raised)
