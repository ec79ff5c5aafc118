"""Labelled pictures and tones of the toy world, which belong to no sentence; a class is a colour and a shape."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from harness.corpora.base import Media
from harness.corpora.recordings import Recordings
from harness.corpora.toy.corpora import ToyCorpus
from harness.corpora.toy.render import SIDE, render
from harness.corpora.toy.scenes import LEXICON, classes, draw_scenes
from harness.encoders.audio import filterbank
from harness.encoders.pictures import VIEWS_VERSION
from harness.seeds import generator
from harness.sources import digest

if TYPE_CHECKING:
    from torch import Tensor

#: samples per second, and samples of a tone
RATE, SAMPLES = 8000, 4000
#: a tone of half a second has 48 windows
FRAMES, BINS = 48, 32
#: weights of the first four harmonics, one row per shape
_TIMBRES = np.array(
    [[1, 0, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1], [0, 1, 0, 1]], dtype=np.float64
)
_LOWEST_HZ = 220.0


class Pictures(Media):
    """Pictures in memory; crops are large and colours change little, since they define the class."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        from harness.encoders.vision import Augmentation  # imports torch, which planning does without

        self.labels, self._pixels = labels, pixels
        self._augmentation = Augmentation(SIDE, smallest=0.6, jitter=0.25, grey=0.0)

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """Two augmentations of each picture: (B, 2, 3, 32, 32) uint8."""
        return {"pixels": self._augmentation.views([Image.fromarray(self._pixels[row]) for row in rows], rng)}


class Tones(Recordings):
    """Tones in memory with their filterbanks."""

    def __init__(self, waves: np.ndarray, labels: np.ndarray) -> None:
        super().__init__(labels, bins=BINS, frames=FRAMES)
        self._waves = waves
        self._banks = np.stack([filterbank(wave, RATE, bins=BINS, frames=FRAMES) for wave in waves])

    def bank(self, row: int) -> np.ndarray:
        """The filterbank of a tone: (48, 32)."""
        bank: np.ndarray = self._banks[row]
        return bank

    def wave(self, row: int) -> tuple[int, np.ndarray]:
        """The tone's samples at 8 kHz."""
        return RATE, self._waves[row]


class ToyImages(ToyCorpus):
    """Labelled pictures."""

    stream = "images"

    def row_hash(self) -> str:
        """Hash of pixels, labels and the version of the augmentation."""
        pixels, labels = labelled_pictures(self.size, self.seed)
        return digest(VIEWS_VERSION, digest(hashlib.sha256(pixels.tobytes()).hexdigest(), labels.tolist()))

    def load(self, root: Path | None) -> Pictures:
        """Draw the pictures."""
        return Pictures(*labelled_pictures(self.size, self.seed))


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


def labelled_pictures(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and their classes: (size, 32, 32, 3) uint8 and (size,) int64 below CLASSES."""
    rng = generator(world="toy", part="labelled images", split="train", seed=seed)
    scenes = draw_scenes(rng, size)
    return render(scenes, rng), classes(scenes)


def labelled_tones(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tones at 8 kHz and their classes: (size, 4000) float32 in -1..1, and (size,) int64 below CLASSES.

    The colour of a class sets the pitch, in steps of three semitones, and the shape the timbre. Phase, detuning (up to
    a third of a semitone), loudness and noise are random.
    """
    rng = generator(world="toy", part="tones", split="train", seed=seed)
    labels = classes(draw_scenes(rng, size))
    colour, shape = np.divmod(labels, len(LEXICON["shape"]))
    pitch = _LOWEST_HZ * 2 ** ((3 * colour + rng.uniform(-1 / 3, 1 / 3, size)) / 12)
    phases = rng.uniform(0, 2 * np.pi, (size, 4))
    time = np.arange(SAMPLES) / RATE
    wave = np.zeros((size, SAMPLES))
    for harmonic in range(4):
        angle = 2 * np.pi * (harmonic + 1) * pitch[:, None] * time + phases[:, harmonic, None]
        wave += _TIMBRES[shape, harmonic, None] * np.sin(angle)
    wave *= rng.uniform(0.5, 1, (size, 1)) * 0.9 / _TIMBRES.sum(axis=1)[shape, None]
    wave += rng.uniform(-0.05, 0.05, wave.shape)
    return wave.astype(np.float32), labels
