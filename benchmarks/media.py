"""Augmented images and filterbanks a second on one core, and images through worker processes.

OMP_NUM_THREADS=1 python benchmarks/media.py
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from harness.corpora.labelled_images import EncodedImages
from harness.encoders.audio import filterbank
from harness.encoders.pictures import opened
from harness.encoders.vision import DEVIATION, MEAN, Augmentation
from harness.seeds import generator
from harness.training.batching import Order
from harness.training.prefetch import MediaInputs, Prefetcher

BATCH, BATCHES = 48, 6
#: ImageNet's usual picture, one of a modern camera, and an utterance of the length that 1,024 frames hold
PICTURES = {"500 x 375": (500, 375), "2000 x 1500": (2000, 1500)}
SECONDS, RATE = 10.2, 16_000


def photograph(size: tuple[int, int]) -> bytes:
    """A JPEG with about as much detail as a photograph."""
    coarse = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    fine = np.random.default_rng(1).normal(0, 6, (size[1], size[0], 1))
    smooth = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC), dtype=float)
    stream = io.BytesIO()
    Image.fromarray((smooth + fine).clip(0, 255).astype(np.uint8)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def rate(work: Callable[[int], object], items: int) -> float:
    """Items a second, after one run that is not counted."""
    work(0)
    clock = time.perf_counter()
    for number in range(1, 1 + BATCHES):
        work(number)
    return items * BATCHES / (time.perf_counter() - clock)


def torchvisions(size: int) -> Callable[[bytes], object]:
    """The public code's chain of transforms, on Pillow images, twice an image."""
    from torchvision.transforms import v2

    chain = v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=(0.2, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            v2.RandomGrayscale(0.2),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, DEVIATION),
        ]
    )

    def views(raw: bytes) -> object:
        image = opened(raw).convert("RGB")
        return [chain(image) for _ in range(2)]

    return views


def main() -> None:
    torch.set_num_threads(1)
    rows = np.arange(BATCH)
    for name, shape in PICTURES.items():
        raw = photograph(shape)
        decoding = rate(lambda number, raw=raw: [opened(raw).convert("RGB") for _ in rows], BATCH)
        print(f"JPEG {name}, {len(raw):,} bytes: decoding alone {decoding:,.0f} images/s")
        for size in (32, 224):
            public = torchvisions(size)
            before = rate(lambda number, raw=raw, public=public: [public(raw) for _ in rows], BATCH)
            images = EncodedImages([raw] * BATCH, rows, Augmentation(size))
            after = rate(lambda number, images=images: images.batch(rows, generator(step=number)), BATCH)
            print(f"  two views at {size}: torchvision's chain {before:,.0f} images/s a core, here {after:,.0f}")
        made = MediaInputs(images, Order(BATCH, BATCH, 0, "benchmark", "images"), 0)
        for workers in range(1, len(os.sched_getaffinity(0)) + 1):
            ahead = Prefetcher(made, 1000, workers)
            # what was made while nobody asked is not counted
            for step in range(3 * workers):
                ahead.of(step)
            through = rate(lambda number, ahead=ahead, first=3 * workers: ahead.of(first + number), BATCH)
            ahead.close()
            print(f"  two views at 224 through {workers} worker(s): {through:,.0f} images/s")
    wave = np.random.default_rng(0).standard_normal(int(SECONDS * RATE)).astype(np.float32)
    speed = rate(lambda number: [filterbank(wave, RATE) for _ in range(8)], 8)
    print(f"filterbanks of {SECONDS} s: {speed:,.0f} clips/s a core")


if __name__ == "__main__":
    main()
