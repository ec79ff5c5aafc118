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
    # a term may not depend on all of the vectors
    zero = torch.stack([part.float().sum() for part in vectors]).sum() * 0
    rows = []
    for term in weighted.values():
        parts = torch.autograd.grad(term + zero, vectors, retain_graph=True)
        rows.append(torch.cat([part.flatten().float() for part in parts]))

    gradients = torch.stack(rows)
    gradients = gradients / gradients.abs().max()  # squares of small gradients would be 0
    whole = gradients.sum(0)

    # one transfer from the device
    norms, products, whole_norms = torch.stack(
        [gradients.norm(dim=1), (gradients * whole).sum(1), whole.norm().expand(len(rows))]
    ).tolist()

    shares = {}
    cosines = {}
    for name, norm, product, whole_norm in zip(weighted, norms, products, whole_norms, strict=True):
        shares[name] = _divide(norm, sum(norms))
        cosines[name] = _divide(product, norm * whole_norm)
    return shares, cosines


def _divide(above: float, below: float) -> float | None:
    """A quotient to six digits, None if it is not defined."""
    value = above / below if below else math.nan
    return float(f"{value:.6g}") if math.isfinite(value) else None
