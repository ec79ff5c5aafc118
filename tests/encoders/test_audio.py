"""Filterbanks, against slow references."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from harness.encoders.media import compute_filterbank


def mel(hertz: float) -> float:
    return 1127.0 * math.log(1.0 + hertz / 700.0)


def triangle(hertz: float, number: int, bins: int, rate: int) -> float:
    """Weight of a frequency in a mel bin: a triangle whose corners lie evenly on the mel scale."""
    low, high = mel(20.0), mel(rate / 2)
    step = (high - low) / (bins + 1)
    left, top, right = (low + (number + corner) * step for corner in range(3))
    at = mel(hertz)
    return max(0.0, min((at - left) / (top - left), (right - at) / (right - top)))


def kaldi(wave: np.ndarray, rate: int, bins: int) -> np.ndarray:
    """Kaldi's filterbank as its documentation words it, one window and one frequency at a time, in
    float64.
    """
    wave = wave.astype(np.float64) - wave.astype(np.float64).mean()
    length, hop = int(0.025 * rate), int(0.010 * rate)
    size = 2 ** math.ceil(math.log2(length))
    hanning = [
        0.5 - 0.5 * math.cos(2 * math.pi * sample / (length - 1)) for sample in range(length)
    ]
    rows = []
    for start in range(0, len(wave) - length + 1, hop):
        window = wave[start : start + length]
        window = window - window.mean()
        raised = [window[sample] - 0.97 * window[max(sample - 1, 0)] for sample in range(length)]
        signal = np.array(raised) * hanning
        turns = [
            np.exp(-2j * np.pi * frequency * np.arange(length) / size)
            for frequency in range(size // 2)
        ]
        power = [abs((signal * turn).sum()) ** 2 for turn in turns]
        energies = [
            sum(triangle(k * rate / size, number, bins, rate) * power[k] for k in range(size // 2))
            for number in range(bins)
        ]
        rows.append([math.log(max(energy, 2.0**-23)) for energy in energies])
    return np.array(rows)


@pytest.mark.parametrize(("rate", "bins"), [(16000, 20), (8000, 64), (11025, 12)])
def test_a_filterbank_is_kaldis_by_slow_loops(rate: int, bins: int) -> None:
    time = np.arange(rate // 16) / rate
    random = np.random.default_rng(0)
    wave = (
        0.3 * np.sin(2 * np.pi * 440 * time) + 0.05 * random.standard_normal(len(time)) + 0.2
    ).astype(np.float32)
    expected = kaldi(wave, rate, bins)
    energies = compute_filterbank(wave, rate, bins=bins, frames=len(expected) + 3)
    np.testing.assert_allclose(energies[: len(expected)], expected, atol=1e-4)
    assert not energies[len(expected) :].any()


def test_a_long_recording_is_cut_at_its_end() -> None:
    wave = np.random.default_rng(0).standard_normal(16000).astype(np.float32)
    np.testing.assert_array_equal(
        compute_filterbank(wave, 16000, frames=30), compute_filterbank(wave, 16000, frames=98)[:30]
    )


def test_empty_filters_of_a_low_rate_warn_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(
            compute_filterbank(np.ones(801) * np.arange(801), 8000, bins=97, frames=8)
        ).all()
