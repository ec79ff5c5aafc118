"""Recordings as spectrograms, plain or augmented as in the public code of AudioCSE."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from harness.corpora.base import Media
from harness.encoders.audio import filterbank, masked, mixed

if TYPE_CHECKING:
    from torch import Tensor

#: the augmentation of the public code: mix-up of waves, then masks over bins and frames
MIXUP_AND_MASKS = "mixup+masks"


class Recordings(Media):
    """Recordings of labelled sources; a subclass gives the filterbank and the wave of each."""

    _augments = False

    def __init__(self, labels: np.ndarray, *, bins: int, frames: int) -> None:
        self.labels, self.bins, self.frames = labels, bins, frames

    @abstractmethod
    def bank(self, row: int) -> np.ndarray:
        """The filterbank of a recording: (frames, bins) float32."""

    @abstractmethod
    def wave(self, row: int) -> tuple[int, np.ndarray]:
        """Samples per second, and the samples, (n,). Raises UserError for an unreadable recording."""

    def augmented(self, how: str) -> Media:
        """The same recordings under 'mixup+masks'. Raises UserError for another augmentation."""
        if how != MIXUP_AND_MASKS:
            return super().augmented(how)
        found = copy(self)
        found._augments = found.costly = True
        return found

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """Spectrograms (B, frames, bins); the two views of an item differ only by the encoder's dropout."""
        import torch

        if not self._augments:
            return {"spectrograms": torch.from_numpy(np.stack([self.bank(int(row)) for row in rows]))}
        banks, sources = zip(*(self._mixed(int(row), rng) for row in rows), strict=True)
        spectrograms = torch.from_numpy(masked(np.stack(banks), rng))
        return {"spectrograms": spectrograms, "labels": torch.from_numpy(self.labels[list(sources)])}

    def _mixed(self, row: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """A filterbank and the recording whose class it has.

        With probability one half, the wave is mixed with another by a weight from Beta(10, 10), and the heavier of the
        two gives the class (NonLing AudioCSE/src/audio_dataloader.py and trainers.py).
        """
        if rng.random() >= 0.5:
            return self.bank(row), row
        partner, weight = int(rng.integers(len(self))), float(rng.beta(10, 10))
        (rate, own), (_, other) = self.wave(row), self.wave(partner)
        bank = filterbank(mixed(own, other, weight), rate, bins=self.bins, frames=self.frames)
        return bank, row if weight >= 0.5 else partner
