"""The part of each loss term in a batch's gradient, measured at the vectors that the encoder
returned for the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def gradient_parts(
    weighted: Mapping[str, Tensor], vectors: Sequence[Tensor]
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Compute each weighted term's share of the gradient at all `vectors`, and its cosine with the
    whole, if defined.

    With g_t the gradient of term t and g their sum, the share is |g_t| / sum_u |g_u|, and the
    cosine g_t g / |g_t| |g|. No pass through the encoder is needed, graphs are kept, and no `.grad`
    changes. A common factor changes nothing.
    """
    nothing = (
        torch.stack([each.float().sum() for each in vectors]).sum() * 0
    )  # a term may not depend on all of them
    found = [
        torch.autograd.grad(term + nothing, vectors, retain_graph=True)
        for term in weighted.values()
    ]
    stacked = torch.stack(
        [torch.cat([part.flatten().float() for part in parts]) for parts in found]
    )
    stacked = stacked / stacked.abs().max()  # squares of small gradients would be 0
    whole = stacked.sum(0)
    measured = torch.stack(
        [stacked.norm(dim=1), (stacked * whole).sum(1), whole.norm().expand(len(found))]
    )
    norms, products, (size, *_) = measured.tolist()
    shares = [_quotient(norm, sum(norms)) for norm in norms]
    cosines = [
        _quotient(product, norm * size) for norm, product in zip(norms, products, strict=True)
    ]
    return dict(zip(weighted, shares, strict=True)), dict(zip(weighted, cosines, strict=True))


def _quotient(above: float, below: float) -> float | None:
    value = above / below if below else math.nan
    return float(f"{value:.6g}") if math.isfinite(value) else None
