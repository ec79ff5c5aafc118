"""The world's unpaired media: labelled pictures and labelled tones."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from harness.corpora.base import CorpusSource, Media
from harness.corpora.toy.remember import remembered
from harness.corpora.toy.sources import labelled_images
from harness.corpora.toy.tones import RATE, labelled_tones
from harness.encoders.audio import filterbank
from harness.encoders.vision import VERSION, Augmentation
from harness.sources import Missing, digest

#: pixels a side, as the patch embedding of the toy CLIP takes them
SIZE = 32
#: a tone of half a second has 48 windows
FRAMES, BINS = 48, 32


class Pictures(Media):
    """Pictures in memory; crops are wide and colours hardly shaken, since a class is a colour and a shape."""

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
        """Spectrograms; nothing is random."""
        return {"spectrograms": torch.from_numpy(self._banks[rows])}


class _Generated(CorpusSource):
    def __init__(self, seed: int, size: int) -> None:
        self.seed, self.size = seed, size

    def missing(self, root: Path | None) -> list[Missing]:
        """Nothing: the corpus is generated."""
        return []

    def _drawn(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def fingerprint(self, root: Path | None) -> str:
        """Hash of values and labels."""
        return remembered([self.stream, self.seed, self.size], self._hashed)

    def _hashed(self) -> str:
        values, labels = self._drawn()
        return digest(hashlib.sha256(values.tobytes()).hexdigest(), labels.tolist())


class ToyImages(_Generated):
    """Labelled pictures."""

    stream: Literal["sentences", "pairs", "triplets", "images", "audio"] = "images"

    def __init__(self, seed: int = 0, size: int = 4096) -> None:
        super().__init__(seed, size)

    def _drawn(self) -> tuple[np.ndarray, np.ndarray]:
        return labelled_images(self.size, self.seed)

    def fingerprint(self, root: Path | None) -> str:
        """Hash of values and labels, with the way of augmenting."""
        return digest(VERSION, super().fingerprint(root))

    def load(self, root: Path | None) -> Pictures:
        """Draw the pictures."""
        return Pictures(*self._drawn())


class ToyTones(_Generated):
    """Labelled tones."""

    stream: Literal["sentences", "pairs", "triplets", "images", "audio"] = "audio"

    def __init__(self, seed: int = 0, size: int = 1024) -> None:
        super().__init__(seed, size)

    def _drawn(self) -> tuple[np.ndarray, np.ndarray]:
        return labelled_tones(self.size, self.seed)

    def _hashed(self) -> str:
        """Of the waves at 16 bits and the labels: the last bits of a sine differ between processors."""
        waves, labels = self._drawn()
        return digest(hashlib.sha256(np.round(waves * 2**15).astype("<i4").tobytes()).hexdigest(), labels.tolist())

    def load(self, root: Path | None) -> Tones:
        """Draw the tones and compute their filterbanks."""
        return Tones(*self._drawn())
