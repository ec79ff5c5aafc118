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


def photograph(size: tuple[int, int]) -> bytes:
    """A JPEG with about as much detail as a photograph."""
    coarse = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    fine = np.random.default_rng(1).normal(0, 6, (size[1], size[0], 1))
    smooth = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC), dtype=float)
    stream = io.BytesIO()
    Image.fromarray((smooth + fine).clip(0, 255).astype(np.uint8)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def rate(work: Callable[[int], object], items: int, rounds: int) -> float:
    """Items a second, after one run that is not counted."""
    work(0)
    clock = time.perf_counter()
    for number in range(1, 1 + rounds):
        work(number)
    return items * rounds / (time.perf_counter() - clock)


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
        image = open_image(raw).convert("RGB")
        return [chain(image) for _ in range(2)]

    return views


def random_teacher(kind: str, folder: Path, device: str) -> Teacher:
    """A teacher of full size with random weights."""
    folder.mkdir()
    if kind == "timm":
        import timm

        model = timm.create_model("resnet50.tv_in1k")
        described = {
            "architecture": "resnet50",
            "num_classes": 1000,
            "pretrained_cfg": model.pretrained_cfg,
        }
        (folder / "config.json").write_text(json.dumps(described))
        save_file(model.state_dict(), folder / "model.safetensors")
    else:
        import open_clip

        described = {
            "model_cfg": open_clip.get_model_config("ViT-B-32-quickgelu"),
            "preprocess_cfg": {"size": 224},
        }
        (folder / "open_clip_config.json").write_text(json.dumps(described))
        save_file(
            open_clip.create_model("ViT-B-32-quickgelu").state_dict(),
            folder / "open_clip_model.safetensors",
        )
    return open_teacher(kind, folder, device=device)


def teachers_path(raw: bytes, device: str, images: int) -> None:
    """Print the rate of each part of the path of a teacher, and of the whole."""
    with tempfile.TemporaryDirectory() as place:
        os.environ["HARNESS_CACHE"] = place
        files = [Path(place) / f"{number}.jpg" for number in range(images)]
        for file in files:
            file.write_bytes(raw)

        def pixels() -> Pixels:
            return Pixels(files.__getitem__, str, images)

        def features(teacher: Teacher, name: str) -> None:
            every = pixels()
            load_cached_features(
                name, images, lambda start, stop: teacher.images(every[start:stop]), chunk=512
            )

        clock = time.perf_counter()
        decoded = sum(1 for _ in process_images(pixels(), lambda image: image))
        threads = len(os.sched_getaffinity(0))
        print(
            f"decoded by {threads} thread(s): {decoded / (time.perf_counter() - clock):,.0f} images/s"
        )
        for kind in ("timm", "open-clip"):
            teacher = random_teacher(kind, Path(place) / kind, device)
            teacher.images(pixels()[:1])
            clock = time.perf_counter()
            features(teacher, kind)
            print(
                f"{kind} on {device}, from files to features: {images / (time.perf_counter() - clock):,.1f} images/s"
            )


@click.command(help=__doc__)
@click.option("--device", default="cpu", show_default=True)
@click.option("--images", default=256, show_default=True, help="Images of a teacher's whole path.")
@click.option(
    "--batch", default=BATCH, show_default=True, help="Images that are augmented together."
)
@click.option("--rounds", default=6, show_default=True, help="Batches that are timed.")
def main(device: str, images: int, batch: int, rounds: int) -> None:
    teachers_path(photograph(PICTURES["500 x 375"]), device, images)
    torch.set_num_threads(1)
    rows = np.arange(batch)
    for name, shape in PICTURES.items():
        raw = photograph(shape)
        decoding = rate(
            lambda number, raw=raw: [open_image(raw).convert("RGB") for _ in rows], batch, rounds
        )
        print(f"JPEG {name}, {len(raw):,} bytes: decoding alone {decoding:,.0f} images/s")
        for size in (32, 224):
            public = torchvisions(size)
            before = rate(
                lambda number, raw=raw, public=public: [public(raw) for _ in rows], batch, rounds
            )
            encoded = AugmentedImages([raw] * batch, rows, Augmentation(size))
            after = rate(
                lambda number, encoded=encoded: encoded.batch(rows, make_generator(step=number)),
                batch,
                rounds,
            )
            print(
                f"  two views at {size}: torchvision's chain {before:,.0f} images/s a core, here {after:,.0f}"
            )
        made = MediaInputs(encoded, Order(batch, batch, 0, "benchmark", "images"), 0)
        for workers in range(1, len(os.sched_getaffinity(0)) + 1):
            ahead = Prefetcher(made, 1000, workers)
            # what was made while nobody asked is not counted
            for step in range(3 * workers):
                ahead.take(step)
            through = rate(
                lambda number, ahead=ahead, first=3 * workers: ahead.take(first + number),
                batch,
                rounds,
            )
            ahead.close()
            print(f"  two views at 224 through {workers} worker(s): {through:,.0f} images/s")
    wave = np.random.default_rng(0).standard_normal(int(SECONDS * RATE)).astype(np.float32)
    speed = rate(lambda number: [compute_filterbank(wave, RATE) for _ in range(8)], 8, rounds)
    print(f"filterbanks of {SECONDS} s: {speed:,.0f} clips/s a core")


if __name__ == "__main__":
    main()
