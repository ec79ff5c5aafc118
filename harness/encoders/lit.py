"""A substitute for CLIP: a linear layer each over the features of an independent image network and sentence encoder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harness.encoders.features import Stacked
from harness.errors import UserError

#: rows read at a time for the moments
CHUNK = 4096
#: CLIP's upper bound of 1 / temperature
LARGEST_SCALE = 100.0


@dataclass(frozen=True)
class Tower:
    """Standardise by the moments of the training rows, project and normalise."""

    mean: np.ndarray
    spread: np.ndarray
    weight: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        projected: np.ndarray = ((np.asarray(features, dtype=np.float32) - self.mean) / self.spread) @ self.weight.T
        projected /= np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), np.float32(1e-12))
        return projected


@dataclass(frozen=True)
class Projections:
    """The fitted towers; their vectors have norm 1, so a dot product is a cosine."""

    images: Tower
    captions: Tower


def fit(
    images: np.ndarray | Stacked,
    texts: np.ndarray | Stacked,
    *,
    width: int = 256,
    steps: int = 600,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    dropout: float = 0.2,
    seed: int = 0,
) -> Projections:
    """Fit both towers to n pairs of rows, (n, f) and (n, g), by InfoNCE in both directions.

    CLIP's loss (Radford et al. 2021, Figure 3) with a learnable temperature, over standardised features of frozen
    models as in LiT (Zhai et al. 2022). Deterministic on one machine and number of threads. Raises UserError for fewer
    than two pairs.
    """
    if len(images) != len(texts):
        raise ValueError(f"{len(images)} images for {len(texts)} captions")
    if len(images) < 2:
        raise UserError("fitting a dual encoder needs at least two pairs; use a larger corpus")
    random = torch.Generator().manual_seed(seed)
    sides = [_Side(values, width, random) for values in (images, texts)]
    log_scale = torch.tensor(np.log(1 / 0.07), dtype=torch.float32, requires_grad=True)
    learnt = [*(side.weight for side in sides), log_scale]
    optimizer = torch.optim.AdamW(learnt, lr=learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        # distinct rows in file order, for features mapped from disk
        rows = np.sort(torch.randperm(len(images), generator=random)[:batch_size].numpy())
        first, second = (side.project(rows, dropout, random) for side in sides)
        loss = _loss(first, second, log_scale)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return Projections(*(Tower(side.mean, side.spread, side.weight.detach().numpy()) for side in sides))


class _Side:
    """One tower during the fit; features may be mapped from disk."""

    def __init__(self, features: np.ndarray | Stacked, width: int, random: torch.Generator) -> None:
        self.features = features
        self.mean, self.spread = _moments(features)
        wide = len(self.mean)
        self.weight = (torch.randn(width, wide, generator=random) / wide**0.5).requires_grad_()

    def project(self, rows: np.ndarray, dropout: float, random: torch.Generator) -> Tensor:
        """Project some rows with dropout, norm 1: (B, width); a cosine needs no rescaling for dropout."""
        values = (np.asarray(self.features[rows], dtype=np.float32) - self.mean) / self.spread
        kept = torch.rand(values.shape, generator=random) >= dropout
        return functional.normalize((torch.from_numpy(values) * kept) @ self.weight.T, dim=1)


def _loss(first: Tensor, second: Tensor, log_scale: Tensor) -> Tensor:
    logits = first @ second.T * log_scale.exp().clamp(max=LARGEST_SCALE)
    target = torch.arange(len(logits))
    return (functional.cross_entropy(logits, target) + functional.cross_entropy(logits.T, target)) / 2


def _moments(features: np.ndarray | Stacked) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean and deviation of each dimension, in float64 and by chunks; constant dimensions have deviation 1."""
    total = squares = np.zeros(features.shape[1])
    for start in range(0, len(features), CHUNK):
        values = np.asarray(features[np.arange(start, min(start + CHUNK, len(features)))], dtype=np.float64)
        total, squares = total + values.sum(0), squares + (values**2).sum(0)
    mean = total / len(features)
    variance = squares / len(features) - mean**2
    constant = variance <= 1e-12 * np.maximum(mean**2, np.finfo(np.float64).tiny)
    return mean.astype(np.float32), np.sqrt(np.where(constant, 1, variance)).astype(np.float32)
