"""Token vectors against sentence vectors (public code of DALR; no equation of the paper has it)."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.losses.precision import in_float32

#: lower bound of norms: a feature that a model does not use, about 1e-32 everywhere, stays near 0 instead of becoming
#: noise of norm 1
FLOOR = 1e-12


@in_float32
def over_tokens(tokens: Tensor) -> Tensor:
    """Divide each feature of each sentence by its norm over the tokens, padding included: (N, L, d) -> (N, L, d).

    The public code divides along this axis, not along the features.
    """
    norms: Tensor = tokens.norm(dim=1, keepdim=True)
    return tokens / norms.clamp_min(FLOOR)


@in_float32
def in_batch_g2l(local: Tensor, sentences: Tensor, temperature: float, mask: Tensor | None = None) -> Tensor:
    """InfoNCE of each token with its sentence: (N, L, d), (N, d), mask (N, L) of 1 for tokens -> scalar.

    Nothing is normalised. The negatives of a token of sentence i are the inner products of sentence i with the tokens
    of all other sentences. The mean over a sentence's tokens, then over sentences; a batch of one has no negatives and
    a loss of 0.
    """
    count, length, _ = local.shape
    real = torch.ones_like(local[..., 0]) if mask is None else mask.to(local.dtype)
    scores = torch.einsum("jnd,id->ijn", local, sentences) / temperature
    own = torch.eye(count, dtype=torch.bool, device=local.device)
    # a finite floor, since a row may have no negative at all
    lowest = torch.finfo(scores.dtype).min / 2
    negatives = scores.masked_fill(own[:, :, None] | (real == 0)[None], lowest).flatten(1).logsumexp(dim=1)
    positives = scores.diagonal(dim1=0, dim2=1).T
    losses = torch.logaddexp(positives, negatives[:, None].expand(count, length)) - positives
    return ((losses * real).sum(dim=1) / real.sum(dim=1).clamp_min(1)).mean()
