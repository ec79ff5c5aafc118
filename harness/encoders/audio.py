"""Log mel filterbanks of recordings, as in the public code of AudioCSE.

Kaldi's filterbanks, HTK-compatible: mean of the wave removed, 25 ms Hanning windows every 10 ms, no energy, no dither;
cut or zero-padded at the end, not normalised (NonLing AudioCSE/src/audio_dataloader.py).
"""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np

WINDOW_MS, HOP_MS = 25, 10
LOWEST_HZ = 20.0
PREEMPHASIS = 0.97


def filterbank(wave: np.ndarray, rate: int, *, bins: int = 128, frames: int = 1024) -> np.ndarray:
    """Compute log mel energies of a mono wave (n,) at `rate` samples a second, padded: (frames, bins) float32."""
    return padded(energies(wave, rate, bins=bins, frames=frames), frames)


def padded(found: np.ndarray, frames: int) -> np.ndarray:
    """Pad (t, bins) with zeros at the end to (frames, bins)."""
    return np.concatenate([found, np.zeros((frames - len(found), found.shape[1]), dtype=found.dtype)])


def energies(wave: np.ndarray, rate: int, *, bins: int, frames: int) -> np.ndarray:
    """Compute log mel energies of at most `frames` windows of a wave, none if it is too short: (t, bins)."""
    length, hop = WINDOW_MS * rate // 1000, HOP_MS * rate // 1000
    if len(wave) < length:
        return np.zeros((0, bins), dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(wave, dtype=np.float64), length)[::hop][:frames]
    # subtracting each window's mean also removes the mean of the wave
    windows = windows - windows.mean(axis=1, keepdims=True)
    raised = windows - PREEMPHASIS * np.concatenate([windows[:, :1], windows[:, :-1]], axis=1)
    size = 1 << (length - 1).bit_length()
    power = np.abs(np.fft.rfft(raised * np.hanning(length), size)) ** 2
    found: np.ndarray = np.log(np.maximum(power @ _filters(size, bins, rate), np.finfo(np.float32).eps))
    return found.astype(np.float32)


@lru_cache(maxsize=4)
def _filters(size: int, bins: int, rate: int) -> np.ndarray:
    from transformers.audio_utils import mel_filter_bank

    with warnings.catch_warnings():
        # at a low rate the narrowest filters fall between two frequencies and are empty, as in Kaldi
        warnings.filterwarnings("ignore", message="At least one mel filter")
        filters: np.ndarray = mel_filter_bank(
            size // 2 + 1, bins, LOWEST_HZ, rate / 2, rate, mel_scale="kaldi", triangularize_in_mel_space=True
        )
    return filters


def masked(spectrograms: np.ndarray, rng: np.random.Generator, bins: int = 48, frames: int = 192) -> np.ndarray:
    """Apply the public code's SpecAugment: set up to `bins` bins and `frames` frames of each item (B, T, F) to 0."""
    out = spectrograms.copy()
    for item in out:
        for axis, widest in ((1, bins), (0, frames)):
            width = int(rng.integers(0, min(widest, item.shape[axis]) + 1))
            start = int(rng.integers(0, item.shape[axis] - width + 1))
            item[(slice(None), slice(start, start + width)) if axis else slice(start, start + width)] = 0
    return out
