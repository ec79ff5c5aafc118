"""A batch that does not fit: encoded in pieces, with the gradient of the whole batch (Gao et al. 2021, GradCache).

A first pass encodes the pieces without a graph, so that a loss sees the vectors of all rows. In the backward pass each
piece is encoded once more, under the same dropout masks, and its rows of the vectors' gradient go on to the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from harness.encoders.rows import TokenRows
from harness.method import Encode


@dataclass(frozen=True)
class Chunked:
    """An `Encode` that passes another one `size` rows at a time: sentences, images or recordings.

    Its gradient is that of the whole batch under the same dropout masks. Masks are drawn piece by piece, so that the
    random numbers of a batch depend on `size`, as they do on the device.
    """

    encode: Encode
    size: int

    def __call__(self, inputs: Mapping[str, Tensor], views: int) -> Tensor:
        rows = len(next(iter(inputs.values())))
        if rows <= self.size:
            return self.encode(inputs, views)
        parts = [_part(inputs, start, min(rows, start + self.size)) for start in range(0, rows, self.size)]
        # the inputs have no gradient and the parameters are no inputs: a scalar makes the result have one
        found: Tensor = _TwoPasses.apply(self.encode, parts, views, torch.zeros((), requires_grad=True))
        return found


def _part(inputs: Mapping[str, Tensor], start: int, stop: int) -> Mapping[str, Tensor]:
    if isinstance(inputs, TokenRows):
        return inputs.part(start, stop)
    return {name: value[start:stop] for name, value in inputs.items()}


@dataclass(frozen=True)
class _Piece:
    """Some rows of a batch, with the random states under which they are encoded."""

    inputs: Mapping[str, Tensor]
    cpu: Tensor
    cuda: Tensor | None

    @classmethod
    def now(cls, inputs: Mapping[str, Tensor]) -> _Piece:
        device = next(iter(inputs.values())).device
        return cls(inputs, torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None)

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, next(iter(self.inputs.values())).device)


class _TwoPasses(torch.autograd.Function):
    """Encodes parts of a batch without a graph, and each of them again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, encode: Encode, parts: Sequence[Mapping[str, Tensor]], views: int, anchor: Tensor) -> Tensor:
        """Compute (B, views, d) from parts of B rows together. `anchor` is a scalar that requires a gradient."""
        ctx.encode, ctx.views, ctx.pieces = encode, views, []
        found = []
        for part in parts:
            ctx.pieces.append(_Piece.now(part))
            found.append(encode(part, views))
        ctx.sizes = [len(each) for each in found]
        kind = ctx.device = found[0].device.type
        ctx.autocast = torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
        return torch.cat(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        """Add the parameters' gradients, piece by piece; a backward pass runs within this one."""
        dtype, enabled = ctx.autocast
        with torch.random.fork_rng(devices=[gradient.device] if ctx.device == "cuda" else []), torch.enable_grad():
            for piece, share in zip(ctx.pieces, torch.split(gradient, ctx.sizes), strict=True):
                piece.restore()
                # a context for each piece: the weights that autocast casts are kept to its end, with their graph
                with torch.autocast(ctx.device, dtype, enabled):
                    found = ctx.encode(piece.inputs, ctx.views)
                torch.autograd.backward(found, share)
        return None, None, None, None
