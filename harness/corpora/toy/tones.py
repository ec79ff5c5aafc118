"""Labelled tones: the colour of a class sets the pitch, the shape the timbre."""

from __future__ import annotations

import numpy as np

from harness.corpora.toy.scenes import LEXICON, classes, draw_scenes
from harness.seeds import generator

#: samples per second
RATE = 8000
SAMPLES = 4000
#: weights of the first four harmonics, one row per shape
_TIMBRES = np.array(
    [[1, 0, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1], [0, 1, 0, 1]], dtype=np.float64
)
_LOWEST_HZ = 220.0


def labelled_tones(size: int = 1024, seed: int = 0, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Tones at 8 kHz and their classes: (size, 4000) float32 in -1..1, and (size,) int64 below CLASSES.

    Pitches are three semitones apart; phase, detuning (up to a third of a semitone), loudness and noise are random.
    """
    rng = generator(world="toy", part="tones", split=split, seed=seed)
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
