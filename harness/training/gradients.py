"""The part of each loss term in a batch's gradient, measured at the vectors that the encoder
returned for the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def measure_gradient_parts(
    weighted: Mapping[str, Tensor], vectors: Sequence[Tensor]
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Compute each weighted term's share of the gradient at all `vectors`, and its cosine with the
    whole, if defined.

    With g_t the gradient of term t and g their sum, the share is |g_t| / sum_u |g_u|, and the
    cosine g_t g / |g_t| |g|. No pass through the encoder is needed, graphs are kept, and no `.grad`
    changes. A common factor changes nothing.
    """
    # a term may not depend on all of the vectors
    zero = torch.stack([part.float().sum() for part in vectors]).sum() * 0
    rows = []
    for term in weighted.values():
        parts = torch.autograd.grad(term + zero, vectors, retain_graph=True)
        rows.append(torch.cat([part.flatten().float() for part in parts]))

    gradients = torch.stack(rows)
    gradients = gradients / gradients.abs().max()  # squares of small gradients would be 0
    total = gradients.sum(0)

    norms_on_device = gradients.norm(dim=1)
    products_on_device = (gradients * total).sum(1)
    total_norms = total.norm().expand(len(rows))
    # one transfer from the device
    columns = torch.stack([norms_on_device, products_on_device, total_norms]).tolist()
    norms, products, (total_norm, *_) = columns

    shares = {}
    cosines = {}
    for name, norm, product in zip(weighted, norms, products, strict=True):
        shares[name] = _divide(norm, sum(norms))
        cosines[name] = _divide(product, norm * total_norm)
    return shares, cosines


def _divide(above: float, below: float) -> float | None:
    """A quotient to six digits, None if it is not defined."""
    value = above / below if below else math.nan
    return float(f"{value:.6g}") if math.isfinite(value) else None
