"""Augmented images and filterbanks a second on one core.

OMP_NUM_THREADS=1 python benchmarks/media.py
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from harness.corpora.labelled_images import Images
from harness.encoders.audio import filterbank
from harness.encoders.vision import Augmentation
from harness.seeds import generator

BATCH, BATCHES = 48, 3
#: ImageNet's usual picture, and an utterance of the length that 1,024 frames hold
PICTURE, SECONDS, RATE = (500, 375), 10.2, 16_000


def photograph() -> bytes:
    """A JPEG with about as much detail as a photograph."""
    coarse = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(coarse).resize(PICTURE, Image.Resampling.BICUBIC).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def rate(work: Callable[[int], object], items: int) -> float:
    """Items a second, after one run that is not counted."""
    work(0)
    clock = time.perf_counter()
    for number in range(BATCHES):
        work(number)
    return items * BATCHES / (time.perf_counter() - clock)


def main() -> None:
    torch.set_num_threads(1)
    rows = np.arange(BATCH)
    for size in (32, 224):
        images = Images([photograph()] * BATCH, rows, Augmentation(size))
        speed = rate(lambda number, images=images: images.batch(rows, generator(step=number)), BATCH)
        print(f"two views at {size}: {speed:,.0f} images/s, a batch of {BATCH} in {BATCH / speed:.2f} s")
    wave = np.random.default_rng(0).standard_normal(int(SECONDS * RATE)).astype(np.float32)
    speed = rate(lambda number: [filterbank(wave, RATE) for _ in range(8)], 8)
    print(f"filterbanks of {SECONDS} s: {speed:,.0f} clips/s")


if __name__ == "__main__":
    main()
