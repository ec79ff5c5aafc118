"""Dropout on a CPU: of values by masks that are drawn faster than torch's, and of the weights of attention.

A mask takes 16 random bits an element from torch's generator. A probability p is no multiple of 1/65536, so that the
number of values that drop is drawn too, once a mask: every element is dropped with probability p exactly.

Attention is computed a few heads at a time, whose scores stay in the processor's cache. The backward pass computes them
anew and keeps of the forward pass which weights were dropped, one byte a weight.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

#: values of 16 bits, and the smallest of them as a signed number
_VALUES, _SMALLEST = 2**16, -(2**15)


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
    return values * kept_at_random(tuple(values.shape), chance).to(values.dtype).mul_(1 / (1 - chance))


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed what dropout on a device draws from; `torch.manual_seed` asks every kind of device, which takes longer."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)


def quicken(model: nn.Module) -> None:
    """Replace the dropout of a model's parts."""
    for part in model.modules():
        for name, child in part.named_children():
            if type(child) is nn.Dropout:
                setattr(part, name, Dropout(child.p).train(child.training))


@torch.no_grad()
def kept_at_random(shape: tuple[int, ...], chance: float) -> Tensor:
    """Draw 0 with probability 0 < `chance` < 1, else 1, on the CPU, as int8, which torch multiplies quickly."""
    count = math.prod(shape)
    words = torch.empty(-(-count // 4) + 1, dtype=torch.int64).random_(-(2**63), None)
    # the last word settles how many of the 65,536 values drop: the integer below or above chance x 65,536
    below = math.floor(chance * _VALUES + (int(words[-1]) + 2**63) / 2**64)
    return words.view(torch.int16)[:count].ge_(_SMALLEST + below).to(torch.int8).view(shape)


#: Bytes of scores at a time: with the weights and their mask they fit into the second cache of current processors.
_BYTES = 2**20


def blocked_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """Attention with dropout of its weights, (X, L, d) three times -> (X, L, d).

    `bias`, (Y, 1, L) where Y divides X, is added to the scores of X = 0, 1, ... by turns. The gradient of `bias` is not
    computed. Weights are float32 at least, products are computed in the type of `query`.
    """
    kept = kept_at_random((*query.shape[:2], key.shape[1]), dropout)
    found: Tensor = _Blocked.apply(query, key, value, bias, kept, 1 / (1 - dropout), scale)
    return found


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
        ctx.raised, ctx.scale = raised, scale
        found = torch.empty_like(query)
        with torch.autocast("cpu", enabled=False):
            for part in _parts(kept):
                weights = _weights(query[part], key[part], bias, part, scale)
                torch.bmm(_drop(weights, kept[part], raised).to(value.dtype), value[part], out=found[part])
        return found

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
