"""What images and recordings look like when they reach the encoder, against slow references."""

from __future__ import annotations

import io
import math
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp

from harness.encoders import vision
from harness.encoders.audio import filterbank, masked
from harness.encoders.vision import Augmentation
from harness.seeds import generator


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
    """Kaldi's filterbank as its documentation words it, one window and one frequency at a time, in float64."""
    wave = wave.astype(np.float64) - wave.astype(np.float64).mean()
    length, hop = int(0.025 * rate), int(0.010 * rate)
    size = 2 ** math.ceil(math.log2(length))
    hanning = [0.5 - 0.5 * math.cos(2 * math.pi * place / (length - 1)) for place in range(length)]
    rows = []
    for start in range(0, len(wave) - length + 1, hop):
        window = wave[start : start + length]
        window = window - window.mean()
        raised = [window[place] - 0.97 * window[max(place - 1, 0)] for place in range(length)]
        signal = np.array(raised) * hanning
        power = []
        for frequency in range(size // 2 + 1):
            turns = np.exp(-2j * np.pi * frequency * np.arange(length) / size)
            power.append(abs((signal * turns).sum()) ** 2)
        rows.append(
            [
                math.log(
                    max(
                        sum(triangle(k * rate / size, number, bins, rate) * power[k] for k in range(size // 2)),
                        2.0**-23,
                    )
                )
                for number in range(bins)
            ]
        )
    return np.array(rows)


@pytest.mark.parametrize(("rate", "bins"), [(16000, 20), (8000, 64), (11025, 12)])
def test_a_filterbank_is_kaldis_by_slow_loops(rate: int, bins: int) -> None:
    time = np.arange(rate // 16) / rate
    random = np.random.default_rng(0)
    wave = (0.3 * np.sin(2 * np.pi * 440 * time) + 0.05 * random.standard_normal(len(time)) + 0.2).astype(np.float32)
    expected = kaldi(wave, rate, bins)
    found = filterbank(wave, rate, bins=bins, frames=len(expected) + 3)
    np.testing.assert_allclose(found[: len(expected)], expected, atol=1e-4)
    assert not found[len(expected) :].any()


def test_a_long_recording_is_cut_at_its_end() -> None:
    wave = np.random.default_rng(0).standard_normal(16000).astype(np.float32)
    np.testing.assert_array_equal(filterbank(wave, 16000, frames=30), filterbank(wave, 16000, frames=98)[:30])


def test_a_constant_and_a_scale_do_what_they_should() -> None:
    """The mean of a wave is no sound, and twice the pressure is log 4 more energy in every bin."""
    wave = np.random.default_rng(0).standard_normal(1600)
    plain = filterbank(wave, 16000, bins=20, frames=8)
    np.testing.assert_allclose(filterbank(wave + 3, 16000, bins=20, frames=8), plain, atol=1e-5)
    np.testing.assert_allclose(filterbank(2 * wave, 16000, bins=20, frames=8), plain + math.log(4), atol=1e-5)


def test_empty_filters_of_a_low_rate_warn_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(filterbank(np.ones(801) * np.arange(801), 8000, bins=97, frames=8)).all()


def test_masks_are_the_same_for_the_same_generator_and_differ_between_items() -> None:
    ones = np.ones((8, 60, 40), dtype=np.float32)
    np.testing.assert_array_equal(masked(ones, generator(seed=1)), masked(ones, generator(seed=1)))
    assert len({item.tobytes() for item in masked(ones, generator(seed=1))}) == 8


def colours(images: np.ndarray) -> np.ndarray:
    """8 bits as (..., 3, H, W) within 0..1."""
    assert images.dtype == np.uint8
    return images / 255


@pytest.mark.parametrize(("grey", "share"), [(0.0, 0.0), (1.0, 1.0), (0.2, 0.2)])
def test_greys_come_as_often_as_asked(grey: float, share: float) -> None:
    picture = Image.new("RGB", (9, 9), (220, 60, 20))
    views = Augmentation(8, jitter=0, grey=grey).views([picture] * 200, generator(seed=0)).numpy()
    spread = colours(views).max(axis=2) - colours(views).min(axis=2)
    assert (spread.max(axis=(2, 3)) < 1e-3).mean() == pytest.approx(share, abs=0.06)


def test_four_of_five_views_have_their_colours_shaken() -> None:
    picture = Image.new("RGB", (9, 9), (120, 100, 80))
    views = colours(Augmentation(8, grey=0).views([picture] * 200, generator(seed=0)).numpy())
    same = np.abs(views - np.array([120, 100, 80])[:, None, None] / 255).max(axis=(2, 3, 4)) < 1e-3
    assert same.mean() == pytest.approx(0.2, abs=0.06)


def noise(height: int, width: int, low: int = 0, high: int = 256) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
@pytest.mark.parametrize("amount", [-0.1, 0.07])
def test_colours_are_shaken_as_torchvision_shakes_them(name: str, amount: float) -> None:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    grey = np.repeat(noise(8, 8)[:, :, :1], 3, axis=2)
    pixels = torch.from_numpy(np.concatenate([noise(40, 8), grey])).permute(2, 0, 1).float() / 255
    factor = amount if name == "hue" else 1 + 4 * amount
    expected = getattr(functional, f"adjust_{name}")(pixels, factor)
    torch.testing.assert_close(getattr(vision, f"_{name}")(pixels, factor), expected, atol=3e-6, rtol=0)


def test_crops_have_the_distribution_of_torchvision() -> None:
    """Areas and places of 4,000 crops of a wide picture, against its RandomResizedCrop."""
    v2 = pytest.importorskip("torchvision.transforms.v2")
    theirs_crop = v2.RandomResizedCrop(8, scale=(0.2, 1.0), antialias=True)
    picture, mine = Image.new("RGB", (500, 200)), Augmentation(8)
    rng = generator(seed=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = [theirs_crop.make_params([picture]) for _ in range(4000)]
    theirs = np.array([[each["left"], each["top"], each["width"], each["height"]] for each in drawn])
    crops = [mine._crop(500, 200, rng) for _ in range(4000)]
    ours = np.array([[crop.left, crop.top, crop.width, crop.height] for crop in crops])
    for column in range(4):
        assert ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3, column
    # no crop of the chosen shape fits: the middle of a strip, at the greatest ratio
    assert mine._crop(900, 30, rng) == vision.Crop(430, 0, 40, 30)


def test_a_view_is_pillows_crop_resized_within_one_of_255() -> None:
    picture = Image.fromarray(noise(90, 120))
    pixels, crops = vision._decoded(picture, [vision.Crop(10, 5, 80, 60)], 48)
    view = Augmentation(48, jitter=0, grey=0)._view(pixels, crops[0], generator(seed=0)).permute(1, 2, 0).numpy()
    expected = np.asarray(picture.crop((10, 5, 90, 65)).resize((48, 48), Image.Resampling.BILINEAR), dtype=int)
    apart = min(np.abs(view - each).max() for each in (expected, expected[:, ::-1]))
    assert apart <= 1


@pytest.mark.parametrize(("side", "smaller"), [(95, 1), (96, 2), (191, 2), (192, 4), (400, 8)])
def test_a_large_jpeg_is_decoded_smaller_only_where_no_crop_falls_below_the_target(side: int, smaller: int) -> None:
    stream = io.BytesIO()
    slope = np.linspace(0, 255, 640)[None, :, None] * np.ones((480, 1, 3))
    Image.fromarray(slope.astype(np.uint8)).save(stream, "JPEG", quality=95)
    crops = [vision.Crop(64, 40, side, side), vision.Crop(0, 0, 440, 440)]
    pixels, found = vision._decoded(Image.open(stream), crops, 48)
    assert pixels.shape[-2:] == (480 // smaller, 640 // smaller)
    assert min(found[0].width, found[0].height) >= 48
    # the crop still shows the same part of the slope
    shown = pixels[0, 0, :, found[0].left : found[0].left + found[0].width].float()
    assert shown.mean() == pytest.approx((64 + side / 2) / 640 * 255, abs=2)


def test_crops_are_as_large_as_asked_and_half_are_turned() -> None:
    """A slope of brightness tells which part of the picture a crop shows, and which way round."""
    side = 64
    slope = np.tile(np.arange(side, dtype=np.uint8) * 4, (side, 1))
    picture = Image.fromarray(np.stack([slope] * 3, axis=2))
    views = Augmentation(side, smallest=0.5, jitter=0, grey=0).views([picture] * 200, generator(seed=0)).numpy()
    rows = colours(views)[:, :, 0, side // 2].reshape(-1, side) * 255 / 4
    reach = rows[:, -1] - rows[:, 0]
    assert (reach < 0).mean() == pytest.approx(0.5, abs=0.08)
    # area at least a half and sides no more unlike than 3 to 4: no crop is narrower than 0.61 of the picture
    assert np.abs(reach).min() > (math.sqrt(0.5 * 3 / 4) - 0.05) * side - 2
    assert np.abs(reach).max() > 0.95 * side - 2
