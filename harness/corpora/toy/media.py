"""Labelled pictures and tones of the toy world, which belong to no sentence."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from harness.corpora.base import Media
from harness.corpora.toy.generated import ToyCorpus
from harness.corpora.toy.render import render
from harness.corpora.toy.scenes import classes, draw_scenes
from harness.corpora.toy.tones import RATE, labelled_tones
from harness.encoders.audio import filterbank
from harness.encoders.vision import VERSION, Augmentation
from harness.seeds import generator
from harness.sources import digest

#: width and height, as the patch embedding of the toy CLIP needs them
SIZE = 32
#: a tone of half a second has 48 windows
FRAMES, BINS = 48, 32


class Pictures(Media):
    """Pictures in memory; crops are large and colours change little, since a class is a colour and a shape."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        self.labels, self._pixels = labels, pixels
        self._augmentation = Augmentation(SIZE, smallest=0.6, jitter=0.25, grey=0.0)

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """Two augmentations of each picture: (B, 2, 3, 32, 32) uint8."""
        return {"pixels": self._augmentation.views([Image.fromarray(self._pixels[row]) for row in rows], rng)}


class Tones(Media):
    """Filterbanks of tones, computed once."""

    def __init__(self, waves: np.ndarray, labels: np.ndarray) -> None:
        self.labels = labels
        self._banks = np.stack([filterbank(wave, RATE, bins=BINS, frames=FRAMES) for wave in waves])

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """Spectrograms (B, 48, 32), without randomness."""
        return {"spectrograms": torch.from_numpy(self._banks[rows])}


class ToyImages(ToyCorpus):
    """Labelled pictures."""

    stream = "images"

    def row_hash(self) -> str:
        """Hash of pixels, labels and the version of the augmentation."""
        pixels, labels = labelled_images(self.size, self.seed)
        return digest(VERSION, digest(hashlib.sha256(pixels.tobytes()).hexdigest(), labels.tolist()))

    def load(self, root: Path | None) -> Pictures:
        """Draw the pictures."""
        return Pictures(*labelled_images(self.size, self.seed))


class ToyTones(ToyCorpus):
    """Labelled tones."""

    stream = "audio"
    rows = 1024

    def row_hash(self) -> str:
        """Hash of the labels and of the waves at 16 bits: the last bits of a sine differ between processors."""
        waves, labels = labelled_tones(self.size, self.seed)
        return digest(hashlib.sha256(np.round(waves * 2**15).astype("<i4").tobytes()).hexdigest(), labels.tolist())

    def load(self, root: Path | None) -> Tones:
        """Generate the tones and compute their filterbanks."""
        return Tones(*labelled_tones(self.size, self.seed))


def labelled_images(size: int = 4096, seed: int = 0, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Pictures and their classes, colour x shape: (size, 32, 32, 3) uint8 and (size,) int64 below CLASSES."""
    rng = generator(world="toy", part="labelled images", split=split, seed=seed)
    scenes = draw_scenes(rng, size)
    return render(scenes, rng), classes(scenes)
