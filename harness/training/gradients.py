"""The part of each loss term in a batch's gradient, measured at the vectors that the encoder returned for the batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.method import Encode
from harness.training.record import Parts

#: significant digits of what is kept
DIGITS = 6


@dataclass(frozen=True)
class Observed:
    """An `Encode` that passes its arguments and the vectors of another one on to `seen`."""

    encode: Encode
    seen: Callable[[Mapping[str, Tensor], int, Tensor], None]

    def __call__(self, inputs: Mapping[str, Tensor], views: int) -> Tensor:
        vectors = self.encode(inputs, views)
        self.seen(inputs, views, vectors)
        return vectors

    def states(self, inputs: Mapping[str, Tensor], views: int = 1) -> Tensor:
        states = self.encode.states(inputs, views)
        self.seen(inputs, views, states)
        return states


def gradient_parts(weighted: Mapping[str, Tensor], vectors: Sequence[Tensor]) -> tuple[Parts, Parts]:
    """Compute each weighted term's share of the gradient at all `vectors`, and its cosine with the whole.

    With g_t the gradient of term t and g their sum, the share is |g_t| / sum_u |g_u|, and the cosine g_t g / |g_t| |g|.
    No pass through the encoder is needed.
    Graphs are kept, and no `.grad` is changed. A common factor, such as that of a loss scaler, changes nothing.
    """
    reached = [each for each in vectors if each.requires_grad]
    if not reached:
        return dict.fromkeys(weighted), dict.fromkeys(weighted)
    zeros = [torch.zeros_like(each) for each in reached]
    rows = []
    for term in weighted.values():
        found = (
            torch.autograd.grad(term, reached, retain_graph=True, allow_unused=True) if term.requires_grad else zeros
        )
        each = [zero if part is None else part for part, zero in zip(found, zeros, strict=True)]
        rows.append(torch.cat([part.flatten().float() for part in each]))
    stacked = torch.stack(rows)
    stacked = stacked / stacked.abs().max()  # squares of small gradients would be 0
    whole = stacked.sum(0)
    measured = torch.stack([stacked.norm(dim=1), (stacked * whole).sum(1), whole.norm().expand(len(rows))])
    norms, products, (size, *_) = measured.tolist()
    shares = {name: _quotient(norm, sum(norms)) for name, norm in zip(weighted, norms, strict=True)}
    cosines = [_quotient(product, norm * size) for norm, product in zip(norms, products, strict=True)]
    return shares, dict(zip(weighted, cosines, strict=True))


def _quotient(above: float, below: float) -> float | None:
    value = above / below if below else math.nan
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
