"""CIFAR, LibriSpeech, ImageNet and CC12M as their publishers lay them out."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from counts import Counts
from words import Writer, pictures

from harness import fetching

SPEAKERS = 251


def add(packed: tarfile.TarFile, name: str, content: bytes) -> None:
    """Put a file into an archive."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    packed.addfile(member, io.BytesIO(content))


def cifar(path: Path, counts: Counts, name: str) -> None:
    """The archive of binary files of CIFAR-10 or CIFAR-100."""
    options = fetching.entry(name).options
    rng = np.random.default_rng(20)
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        names = "".join(f"class{number}\n" for number in range(10))
        add(packed, f"{options['folder']}/{options['names']}", names.encode())
        for files, total in zip(options["splits"].values(), counts.cifar, strict=True):
            for file in files:
                rows = rng.integers(0, 256, (total // len(files), options["labels"] + 3 * 32 * 32), np.uint8)
                rows[:, : options["labels"]] %= 10
                add(packed, f"{options['folder']}/{file}", rows.tobytes())


def librispeech(path: Path, counts: Counts) -> None:
    """The archive of utterances SPEAKER/CHAPTER/SPEAKER-CHAPTER-NUMBER.flac; their content is no sound."""
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        for number in range(counts.recordings):
            speaker = 19 + number % SPEAKERS
            file = f"{speaker}/198/{speaker}-198-{number // SPEAKERS:04}.flac"
            add(packed, f"LibriSpeech/train-clean-100/{file}", b"fLaC" + number.to_bytes(4, "big"))


def _imagenet(counts: Counts) -> list[str]:
    classes = [f"n{1_440_764 + 997 * number:08}" for number in range(counts.classes)]
    return [f"{name}/{name}_{number}.JPEG" for name in classes for number in range(counts.a_class)]


def imagenet_list(path: Path, counts: Counts) -> None:
    """NonLing's list of images."""
    path.write_text("".join(f"/data/ImageNet/train/{name}\n" for name in _imagenet(counts)))


def imagenet_folder(folder: Path, counts: Counts) -> None:
    """ImageNet's training folder, with an image that is not in the list."""
    for name, content in zip([*_imagenet(counts), "n09999999/n09999999_0.JPEG"], pictures(), strict=False):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def shards(folder: Path, seed: int, pairs: int) -> None:
    """A folder of img2dataset's shards, KEY.jpg beside KEY.txt."""
    folder.mkdir(parents=True)
    with tarfile.open(folder / "00000.tar", "w") as packed:
        texts = Writer(21, seed).sentences(pairs, 12)
        for number, (text, content) in enumerate(zip(texts, pictures(), strict=False)):
            add(packed, f"{number:09}.jpg", content)
            add(packed, f"{number:09}.txt", text.encode())
