"""Attention within packed rows, and dropout, faster than with torch's public operators.

CUDA's attention kernels without padding are private operators of torch. A kernel is used only if
its signature is as expected and a trial on the device matches the padded computation, output and
gradients. Attention on padded tensors works on every device.

On a CPU, dropout masks are drawn faster than by torch: each element takes 16 random bits of torch's
generator. Since 65,536 p need not be an integer, the threshold of a mask is drawn from the integers
below and above it, so that every element is dropped with probability exactly p. Attention is
computed on a CPU a few heads at a time, so that their scores stay in the processor's cache. The
backward pass recomputes scores that did not fit there at once: of these, the forward pass stores
only which weights were dropped, one byte each.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
def find_attention(
    device: torch.device, dtype: torch.dtype, heads: int, size: int
) -> Attention | None:
    """Return the fastest attention that works on a device for `heads` heads of `size` dimensions;
    None if none does.
    """
    for attention, name, failure in try_attentions(device, dtype, heads, size):
        if failure is None:
            return attention
        type_name = str(dtype).removeprefix("torch.")
        log.warning("%s attention is not used for %s on %s: %s", name, type_name, device, failure)
    return None


def try_attentions(
    device: torch.device, dtype: torch.dtype, heads: int, size: int
) -> Iterator[tuple[Attention, str, str | None]]:
    """Try each attention of a device, fastest first; yield it with its name and why it fails, None
    if it works.
    """
    for attention, name in _list_attentions(device, dtype):
        yield attention, name, _find_failure(attention, device, dtype, heads, size)


def compute_scattered_attention(
    packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float
) -> Tensor:
    """Compute attention on padded tensors, on any device."""
    places = _find_head_places(packed, query.shape[1])
    padded_shape = (query.shape[1], packed.rows, packed.longest, query.shape[2])
    query = _Padded.apply(query, places).view(padded_shape)
    key = _Padded.apply(key, places).view(padded_shape)
    value = _Padded.apply(value, places).view(padded_shape)

    is_token = None
    if packed.shortest < packed.longest:
        columns = torch.arange(packed.longest, device=query.device)
        is_token = columns < packed.offsets.diff().unsqueeze(1)

    attended = compute_attention(query, key, value, is_token, dropout, scale)
    tokens: Tensor = _Unpadded.apply(attended.flatten(0, 2), places)
    return tokens


def compute_attention(
    query: Tensor, key: Tensor, value: Tensor, is_token: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """Compute attention, (X, Y, L, d) three times -> (X, Y, L, d); `is_token`, (Y, L), says which
    keys count, None for all.
    """
    if query.device.type != "cpu" or torch.compiler.is_compiling():
        mask = None if is_token is None else is_token.unsqueeze(1)
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale
        )

    bias = None
    if is_token is not None:
        bias = query.new_zeros(is_token.shape).masked_fill_(~is_token, -torch.inf).unsqueeze(1)
    attended = compute_blocked_attention(
        query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1), bias, dropout, scale
    )
    return attended.view(*query.shape[:3], -1)


def _compute_flash_attention(
    packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float
) -> Tensor:
    offsets = packed.offsets
    longest = packed.longest
    attended: Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, offsets, offsets, longest, longest, dropout, False, False, scale=scale
    )[0]
    return attended


def _compute_efficient_attention(
    packed: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float
) -> Tensor:
    tokens = [part.unsqueeze(0) for part in (query, key, value)]
    offsets = packed.offsets
    longest = packed.longest
    needs_gradient = query.requires_grad and torch.is_grad_enabled()
    attended: Tensor = torch.ops.aten._efficient_attention_forward(
        *tokens, None, offsets, offsets, longest, longest, dropout, 0, needs_gradient, scale=scale
    )[0]
    return attended.squeeze(0)


def _list_attentions(device: torch.device, dtype: torch.dtype) -> Iterator[tuple[Attention, str]]:
    """Yield the attentions that a device may have, with their names, fastest first."""
    if device.type == "cuda":
        has_flash = dtype in _HALF and torch.cuda.get_device_capability(device) >= (8, 0)
        if has_flash and _has_expected_arguments("_flash_attention_forward"):
            yield _compute_flash_attention, "flash"

        has_efficient = dtype in (*_HALF, torch.float32)
        if has_efficient and _has_expected_arguments("_efficient_attention_forward"):
            yield _compute_efficient_attention, "efficient"

    yield compute_scattered_attention, "scattered"


def _has_expected_arguments(operator: str) -> bool:
    """Whether this torch has an operator with the signature that is used here."""
    try:
        arguments = getattr(torch.ops.aten, operator).default._schema.arguments
    except AttributeError:
        return False

    expected = _ARGUMENTS[operator].split(", ")
    first = [f"{argument.type} {argument.name}" for argument in arguments[: len(expected)]]
    rest = arguments[len(expected) :]
    takes_scale = any(argument.name == "scale" for argument in rest)
    has_defaults = all(argument.has_default_value() for argument in rest)
    return first == expected and takes_scale and has_defaults


def _find_failure(
    attention: Attention, device: torch.device, dtype: torch.dtype, heads: int, size: int
) -> str | None:
    """Return why an attention cannot be used: its error, or how far its numbers are from the CPU's."""
    packed = TokenRows.from_lists([[0] * length for length in _TRIAL], 0).packed
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4, sum(_TRIAL), heads, size, generator=generator).to(dtype)

    with torch.inference_mode(False), torch.enable_grad():
        expected = _compute_outcome(compute_scattered_attention, packed, drawn.float())
        try:
            outcome = _compute_outcome(attention, packed.to(device), drawn.to(device))
        except torch.cuda.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:
            return first_line(error)

    difference = _measure_difference(outcome, expected)
    allowed = _CLOSE_HALF if dtype in _HALF else _CLOSE
    return None if difference <= allowed else f"its numbers differ by {difference:.0%}"


def _compute_outcome(attention: Attention, packed: Packed, drawn: Tensor) -> Tensor:
    """Return the output for queries, keys and values, and their gradients under given weights: (4,
    N, heads, d).
    """
    inputs = drawn[:3].clone().requires_grad_()
    query, key, value = inputs.unbind()
    output = attention(packed, query, key, value, 0.0, drawn.shape[-1] ** -0.5)
    (gradients,) = torch.autograd.grad(output, inputs, drawn[3])
    return torch.cat([output.detach().unsqueeze(0), gradients])


def _measure_difference(computed: Tensor, expected: Tensor) -> float:
    """Return the largest difference of output and gradients, each relative to its largest value;
    infinite for NaN.
    """
    differences = (computed.cpu().float() - expected).abs().amax((1, 2, 3))
    largest = expected.abs().amax((1, 2, 3))
    return float((differences / largest).nan_to_num(torch.inf).max())


@dataclass(frozen=True)
class _HeadPlaces:
    """Where the vectors of N tokens' heads stand among the padded ones, head after head, and back.

    `of_padded`, (heads x B x L,), is the place of each padded vector among those of the tokens, (N x
    heads, d); padding has that of a token, since its attention is masked or not read. `of_tokens`,
    (N, heads), is the place of each token's vector among the padded ones.
    """

    of_padded: Tensor
    of_tokens: Tensor


def _find_head_places(packed: Packed, heads: int) -> _HeadPlaces:
    tokens = torch.arange(len(packed.places), device=packed.places.device)
    token_of_place = tokens.new_zeros(packed.rows * packed.longest)
    token_of_place = token_of_place.index_copy(0, packed.places, tokens)

    head_numbers = torch.arange(heads, device=tokens.device)
    of_padded = token_of_place * heads + head_numbers.unsqueeze(1)
    of_tokens = packed.places.unsqueeze(1) + head_numbers * len(token_of_place)
    return _HeadPlaces(of_padded.flatten(), of_tokens)


class _Padded(torch.autograd.Function):
    """Vectors of tokens' heads at their padded places: (N, heads, d) -> (heads x B x L, d).

    The gradient is read at the tokens' places, without sums: that of padding is 0.
    """

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, places: _HeadPlaces) -> Tensor:
        ctx.places = places
        return tokens.flatten(0, 1).index_select(0, places.of_padded)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _select_tokens(gradients[0], ctx.places), None


class _Unpadded(torch.autograd.Function):
    """Vectors of tokens' heads from their padded places: (heads x B x L, d) -> (N, heads, d).

    The gradient of padding is 0.
    """

    @staticmethod
    def forward(ctx: Any, padded: Tensor, places: _HeadPlaces) -> Tensor:
        ctx.places = places
        return _select_tokens(padded, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        tokens = gradients[0].flatten(0, 1)
        padded = tokens.new_zeros(len(ctx.places.of_padded), tokens.shape[-1])
        return padded.index_copy_(0, ctx.places.of_tokens.flatten(), tokens), None


def _select_tokens(padded: Tensor, places: _HeadPlaces) -> Tensor:
    selected = padded.index_select(0, places.of_tokens.flatten())
    return selected.view(*places.of_tokens.shape, -1)


#: values of 16 bits, and the smallest of them as a signed number
_VALUES = 2**16
_SMALLEST = -(2**15)


class Dropout(nn.Dropout):
    """`nn.Dropout` with masks that are drawn quickly on a CPU; the same elsewhere."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name that torch gives it
        return apply_dropout(input, self.p) if self.training else input


def apply_dropout(values: Tensor, chance: float) -> Tensor:
    """Set each element to 0 with probability `chance`, and divide the others by 1 - `chance`."""
    if chance == 0:
        return values
    if values.device.type != "cpu" or chance == 1 or torch.compiler.is_compiling():
        return torch.dropout(values, chance, train=True)

    mask = draw_mask(tuple(values.shape), chance).to(values.dtype)
    return values * mask.mul_(1 / (1 - chance))


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed dropout on one device; `torch.manual_seed` would seed every kind of device, which takes
    longer.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)


def replace_dropout(model: nn.Module) -> None:
    """Replace the `nn.Dropout` modules of a model by `Dropout`."""
    for module in model.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p).train(child.training))


@torch.no_grad()
def draw_mask(shape: tuple[int, ...], chance: float) -> Tensor:
    """Draw 0 with probability 0 < `chance` < 1, else 1, on the CPU, as int8, which torch multiplies
    quickly.
    """
    count = math.prod(shape)
    word_count = math.ceil(count / 4) + 1
    words = torch.empty(word_count, dtype=torch.int64).random_(-(2**63), None)

    # the last word settles how many of the 65,536 values drop: the integer below or above chance x
    # 65,536
    fraction = (int(words[-1]) + 2**63) / 2**64
    dropped_values = math.floor(chance * _VALUES + fraction)

    values = words.view(torch.int16)[:count]
    return values.ge_(_SMALLEST + dropped_values).to(torch.int8).view(shape)


#: Bytes of scores at a time: with the weights and their mask they fit into the second cache of
#: current processors.
_BYTES = 2**20


def compute_blocked_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """Attention with dropout of its weights, if any: (X, L, d) three times -> (X, L, d).

    `bias`, (Y, 1, L) where Y divides X, is added to the scores: item x gets row x mod Y. The
    gradient of `bias` is not computed. Weights are float32 at least, products are computed in the
    type of `query`.
    """
    mask = draw_mask((*query.shape[:2], key.shape[1]), dropout) if dropout else None
    attended: Tensor = _Blocked.apply(query, key, value, bias, mask, 1 / (1 - dropout), scale)
    return attended


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        keep_scale: float,
        scale: float,
    ) -> Tensor:
        parts = _split_items(query, key)
        attended = torch.empty_like(query)
        with torch.autocast("cpu", enabled=False):
            for part in parts:
                weights = _compute_weights(query[part], key[part], bias, part, scale)
                dropped = _apply_mask(weights, mask, part, keep_scale)
                torch.bmm(dropped.to(value.dtype), value[part], out=attended[part])

        # weights of a single block are stored, those of more are computed again
        stored = (weights, dropped) if len(parts) == 1 else (None, None)
        ctx.save_for_backward(query, key, value, bias, mask, *stored)
        ctx.keep_scale = keep_scale
        ctx.scale = scale
        return attended

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, mask, weights, dropped = ctx.saved_tensors
        outer = gradients[0].contiguous()
        of_query = torch.empty_like(query)
        of_key = torch.empty_like(key)
        of_value = torch.empty_like(value)
        parts = _split_items(query, key)

        with torch.autocast("cpu", enabled=False):
            for part in parts:
                if len(parts) > 1:
                    weights = _compute_weights(query[part], key[part], bias, part, ctx.scale)
                    dropped = _apply_mask(weights, mask, part, ctx.keep_scale)
                transposed = dropped.to(value.dtype).transpose(1, 2)
                torch.bmm(transposed, outer[part], out=of_value[part])

                of_dropped = torch.bmm(outer[part], value[part].transpose(1, 2))
                of_dropped = of_dropped.to(weights.dtype)
                of_weights = _apply_mask(of_dropped, mask, part, ctx.keep_scale)
                of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)

                of_scores = of_scores.to(query.dtype).mul_(ctx.scale)
                torch.bmm(of_scores, key[part], out=of_query[part])
                torch.bmm(of_scores.transpose(1, 2), query[part], out=of_key[part])
        return of_query, of_key, of_value, None, None, None, None


def _split_items(query: Tensor, key: Tensor) -> list[slice]:
    """Slices of the first dimension whose scores, (x, L, L), take up to _BYTES."""
    items = len(query)
    count = max(1, _BYTES // (4 * query.shape[1] * key.shape[1]))
    return [slice(start, min(start + count, items)) for start in range(0, items, count)]


def _compute_weights(
    query: Tensor, key: Tensor, bias: Tensor | None, part: slice, scale: float
) -> Tensor:
    """The weights of attention before dropout: (x, L, d) twice -> (x, L, L)."""
    if bias is None:
        scores = torch.bmm(query, key.transpose(1, 2)).mul_(scale)
    else:
        rows = torch.arange(part.start, part.stop) % len(bias)
        scores = torch.baddbmm(bias[rows], query, key.transpose(1, 2), alpha=scale)

    # in float32, since rounded weights would not sum to 1
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def _apply_mask(weights: Tensor, mask: Tensor | None, part: slice, keep_scale: float) -> Tensor:
    """Weights of a part with 0 where the mask has 0, and the others multiplied."""
    if mask is None:
        return weights
    return (weights * mask[part]).mul_(keep_scale)
