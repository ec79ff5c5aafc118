"""Two augmentations of an image, as the public code of VisualCSE makes them for training.

A random crop resized, a flip, colours shaken, sometimes grey; ImageNet's moments (NonLing
VisualCSE/src/trainers.py). The paper says 'two sets of RGB augmentations' and lists none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

#: moments of ImageNet's pixels, red, green and blue
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Augmentation:
    """Random views of images at one size."""

    def __init__(self, size: int = 224, *, smallest: float = 0.2, jitter: float = 1.0, grey: float = 0.2) -> None:
        """`smallest` is the least area of a crop, `jitter` multiplies the colours' shaking, `grey` is a chance."""
        from torchvision.transforms import v2

        shaken = [v2.RandomApply([v2.ColorJitter(*(jitter * each for each in (0.4, 0.4, 0.4, 0.1)))], p=0.8)]
        self._transform = v2.Compose(
            [
                v2.RandomResizedCrop(size, scale=(smallest, 1.0), antialias=True),
                v2.RandomHorizontalFlip(),
                *(shaken if jitter else []),
                v2.RandomGrayscale(grey),
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(MEAN, DEVIATION),
            ]
        )

    def views(self, images: Sequence[Image.Image], rng: np.random.Generator, count: int = 2) -> Tensor:
        """`count` views of each of B images: (B, count, 3, size, size) float32, drawn from `rng` alone.

        torchvision draws from torch's global generator, which is seeded from `rng` and put back afterwards.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            return torch.stack([torch.stack([self._transform(image) for _ in range(count)]) for image in images])
