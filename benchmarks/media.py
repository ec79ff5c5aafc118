"""Augmented images and filterbanks a second on one core, images through worker processes, and a
teacher's whole path.

Set OMP_NUM_THREADS=1 for rates of one core.

The path of a teacher is that of `harness run`: files of a folder, decoded and resized by threads,
through a ResNet-50 and a CLIP ViT-B/32 with random weights, into the file of features on disk.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from harness.corpora.labelled_images import AugmentedImages
from harness.encoders.features import load_cached_features
from harness.encoders.media import Pixels, compute_filterbank, open_image, process_images
from harness.encoders.teachers import Teacher, open_teacher
from harness.encoders.vision import DEVIATION, MEAN, Augmentation
from harness.seeds import make_generator
from harness.training.batching import Order
from harness.training.streams import MediaInputs, Prefetcher

BATCH = 48
#: ImageNet's usual picture, one of a modern camera, and an utterance of the length that 1,024
#: frames hold
PICTURES = {"500 x 375": (500, 375), "2000 x 1500": (2000, 1500)}
SECONDS = 10.2
RATE = 16_000


def make_photograph(size: tuple[int, int]) -> bytes:
    """A JPEG with about as much detail as a photograph."""
    width, height = size
    coarse = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    resized = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    fine = np.random.default_rng(1).normal(0, 6, (height, width, 1))
    pixels = (np.asarray(resized, dtype=float) + fine).clip(0, 255).astype(np.uint8)

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def measure_rate(work: Callable[[int], object], items: int, rounds: int) -> float:
    """Items a second, after one run that is not counted."""
    work(0)
    start = time.perf_counter()
    for number in range(1, 1 + rounds):
        work(number)
    return items * rounds / (time.perf_counter() - start)


def make_public_transform(size: int) -> Callable[[bytes], list[Tensor]]:
    """The public code's chain of transforms by torchvision, on Pillow images, twice an image."""
    from torchvision.transforms import v2

    crop = v2.RandomResizedCrop(size, scale=(0.2, 1.0), antialias=True)
    jitter = v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    chain = v2.Compose(
        [
            crop,
            v2.RandomHorizontalFlip(),
            jitter,
            v2.RandomGrayscale(0.2),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, DEVIATION),
        ]
    )

    def make_views(raw: bytes) -> list[Tensor]:
        image = open_image(raw).convert("RGB")
        return [chain(image) for _ in range(2)]

    return make_views


def make_random_teacher(kind: str, folder: Path, device: str) -> Teacher:
    """A teacher of full size with random weights, of timm or open_clip."""
    folder.mkdir()
    if kind == "timm":
        import timm

        model = timm.create_model("resnet50.tv_in1k")
        description = {
            "architecture": "resnet50",
            "num_classes": 1000,
            "pretrained_cfg": model.pretrained_cfg,
        }
        (folder / "config.json").write_text(json.dumps(description))
        save_file(model.state_dict(), folder / "model.safetensors")
    else:
        import open_clip

        name = "ViT-B-32-quickgelu"
        description = {
            "model_cfg": open_clip.get_model_config(name),
            "preprocess_cfg": {"size": 224},
        }
        (folder / "open_clip_config.json").write_text(json.dumps(description))
        weights = open_clip.create_model(name).state_dict()
        save_file(weights, folder / "open_clip_model.safetensors")
    return open_teacher(kind, folder, device=device)


def measure_teachers(raw: bytes, device: str, images: int) -> None:
    """Print the rate of each part of the path of a teacher, and of the whole."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARNESS_CACHE"] = folder
        files = [Path(folder) / f"{number}.jpg" for number in range(images)]
        for file in files:
            file.write_bytes(raw)

        def open_pixels() -> Pixels:
            return Pixels(files.__getitem__, str, images)

        start = time.perf_counter()
        decoded = sum(1 for _ in process_images(open_pixels(), lambda image: image))
        rate = decoded / (time.perf_counter() - start)
        threads = len(os.sched_getaffinity(0))
        print(f"decoded by {threads} thread(s): {rate:,.0f} images/s")

        for kind in ("timm", "open-clip"):
            teacher = make_random_teacher(kind, Path(folder) / kind, device)
            teacher.images(open_pixels()[:1])  # the first call is slower
            seconds = measure_features(teacher, kind, open_pixels())
            rate = images / seconds
            print(f"{kind} on {device}, from files to features: {rate:,.1f} images/s")


def measure_features(teacher: Teacher, name: str, pixels: Pixels) -> float:
    """Seconds until a teacher's features of all images are on disk."""

    def compute(start: int, stop: int) -> np.ndarray:
        return teacher.images(pixels[start:stop])

    clock = time.perf_counter()
    load_cached_features(name, len(pixels), compute, chunk=512)
    return time.perf_counter() - clock


@click.command(help=__doc__)
@click.option("--device", default="cpu", show_default=True)
@click.option("--images", default=256, show_default=True, help="Images of a teacher's whole path.")
@click.option(
    "--batch", default=BATCH, show_default=True, help="Images that are augmented together."
)
@click.option("--rounds", default=6, show_default=True, help="Batches that are timed.")
def main(device: str, images: int, batch: int, rounds: int) -> None:
    measure_teachers(make_photograph(PICTURES["500 x 375"]), device, images)
    torch.set_num_threads(1)  # what follows is the rate of a core
    for name, shape in PICTURES.items():
        measure_augmentation(name, make_photograph(shape), batch, rounds)

    wave = np.random.default_rng(0).standard_normal(int(SECONDS * RATE)).astype(np.float32)

    def compute_filterbanks(number: int) -> None:
        for _ in range(8):
            compute_filterbank(wave, RATE)

    rate = measure_rate(compute_filterbanks, 8, rounds)
    print(f"filterbanks of {SECONDS} s: {rate:,.0f} clips/s a core")


def measure_augmentation(name: str, raw: bytes, batch: int, rounds: int) -> None:
    """Print the rates of decoding a picture and of two augmented views of it."""

    def decode(number: int) -> None:
        for _ in range(batch):
            open_image(raw).convert("RGB")

    rate = measure_rate(decode, batch, rounds)
    print(f"JPEG {name}, {len(raw):,} bytes: decoding alone {rate:,.0f} images/s")

    for size in (32, 224):
        images = AugmentedImages([raw] * batch, np.arange(batch), Augmentation(size))
        public_rate = measure_public_rate(raw, size, batch, rounds)
        harness_rate = measure_harness_rate(images, batch, rounds)
        print(
            f"  two views at {size}: torchvision's chain {public_rate:,.0f} images/s a core, "
            f"here {harness_rate:,.0f}"
        )

    for workers in range(1, len(os.sched_getaffinity(0)) + 1):
        rate = measure_worker_rate(images, workers, batch, rounds)
        print(f"  two views at 224 through {workers} worker(s): {rate:,.0f} images/s")


def measure_public_rate(raw: bytes, size: int, batch: int, rounds: int) -> float:
    make_views = make_public_transform(size)

    def augment(number: int) -> None:
        for _ in range(batch):
            make_views(raw)

    return measure_rate(augment, batch, rounds)


def measure_harness_rate(images: AugmentedImages, batch: int, rounds: int) -> float:
    rows = np.arange(batch)
    return measure_rate(
        lambda number: images.batch(rows, make_generator(step=number)), batch, rounds
    )


def measure_worker_rate(images: AugmentedImages, workers: int, batch: int, rounds: int) -> float:
    inputs = MediaInputs(images, Order(batch, batch, 0, "benchmark", "images"), 0)
    prefetcher = Prefetcher(inputs, 1000, workers)
    # what was made while nobody asked is not counted
    first_step = 3 * workers
    for step in range(first_step):
        prefetcher.take(step)

    rate = measure_rate(lambda number: prefetcher.take(first_step + number), batch, rounds)
    prefetcher.close()
    return rate


if __name__ == "__main__":
    main()
