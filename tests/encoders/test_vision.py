"""Augmented views of images, against torchvision and Pillow."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp

from harness.encoders import vision
from harness.encoders.vision import Augmentation
from harness.seeds import make_generator


@pytest.mark.parametrize(
    ("colour", "options", "share"),
    [
        ((220, 60, 20), {"jitter": 0, "grey": 0.0}, 0.0),
        ((220, 60, 20), {"jitter": 0, "grey": 1.0}, 1.0),
        ((220, 60, 20), {"jitter": 0, "grey": 0.2}, 0.2),
        ((120, 100, 80), {"grey": 0.0}, 0.8),
    ],
)
def test_colours_change_as_often_as_asked(
    colour: tuple[int, int, int], options: dict[str, float], share: float
) -> None:
    """Greys at the chance that is given, the jitter in four of five views."""
    augmentation, rng = Augmentation(8, **options), make_generator(seed=0)
    picture = Image.new("RGB", (9, 9), colour)
    drawn = [view for _ in range(200) for view in augmentation.draw_views(picture, rng)]
    views = augmentation.change_colours(drawn).numpy()
    assert views.dtype == np.uint8
    apart = np.abs(views / 255 - np.array(colour)[:, None, None] / 255).max(axis=(1, 2, 3))
    assert (apart > 1e-3).mean() == pytest.approx(share, abs=0.06)


def test_the_views_of_a_batch_are_those_of_each_image_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some have the same adjustment at the same place, some are not changed, and some are grey."""
    augmentation, rng = Augmentation(8, grey=0.5), make_generator(seed=0)
    drawn = []
    for number in range(30):
        picture = noise(9, 11, seed=number)
        drawn += augmentation.draw_views(picture, rng)
    together = augmentation.change_colours(drawn)
    alone = torch.cat([augmentation.change_colours([view]) for view in drawn])
    assert torch.equal(together, alone)
    monkeypatch.setattr(vision, "_NUMBERS_AT_ONCE", 7 * 3 * 8 * 8)
    assert torch.equal(augmentation.change_colours(drawn), alone)

    # pixels, and the same as a picture
    rows = [
        augmentation.draw_views(form, make_generator(seed=1))
        for form in (picture, Image.fromarray(picture))
    ]
    assert torch.equal(*map(augmentation.change_colours, rows))


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
@pytest.mark.parametrize("amount", [-0.1, 0.07])
def test_colours_are_shaken_as_torchvision_shakes_them(name: str, amount: float) -> None:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    grey = np.repeat(noise(8, 8)[:, :, :1], 3, axis=2)
    pixels = torch.from_numpy(np.concatenate([noise(40, 8), grey])).permute(2, 0, 1).float() / 255
    factor = amount if name == "hue" else 1 + 4 * amount
    expected = getattr(functional, f"adjust_{name}")(pixels, factor)
    (adjusted,) = getattr(vision, f"_adjust_{name}")(pixels.unsqueeze(0), [factor])
    torch.testing.assert_close(adjusted, expected, atol=3e-6, rtol=0)


@pytest.mark.parametrize(
    ("mine", "smallest"),
    [
        pytest.param(Augmentation(8), 0.2, marks=pytest.mark.long),
        (Augmentation(8, smallest=0.5), 0.5),
    ],
)
def test_crops_have_the_distribution_of_torchvision(mine: Augmentation, smallest: float) -> None:
    """Areas and places of 4,000 crops of a wide picture, against its RandomResizedCrop."""
    v2 = pytest.importorskip("torchvision.transforms.v2")
    theirs_crop = v2.RandomResizedCrop(8, scale=(smallest, 1.0), antialias=True)
    picture = Image.new("RGB", (500, 200))
    rng = make_generator(seed=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = [theirs_crop.make_params([picture]) for _ in range(4000)]
    theirs = np.array(
        [[each["left"], each["top"], each["width"], each["height"]] for each in drawn]
    )
    crops = [mine._draw_crop(500, 200, rng) for _ in range(4000)]
    ours = np.array([[crop.left, crop.top, crop.width, crop.height] for crop in crops])
    for column in range(4):
        assert ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3, column
    # no crop of the chosen shape fits: the middle of a strip, at the greatest ratio
    assert mine._draw_crop(900, 30, rng) == vision.Crop(430, 0, 40, 30)


def test_a_view_is_pillows_crop_resized_within_one_of_255_and_half_are_turned() -> None:
    picture, rng = Image.fromarray(noise(90, 120)), make_generator(seed=0)
    pixels, crops = vision._decode(picture, [vision.Crop(10, 5, 80, 60)], 48)
    expected = np.asarray(
        picture.crop((10, 5, 90, 65)).resize((48, 48), Image.Resampling.BILINEAR), dtype=int
    )
    turned = []
    for _ in range(200):
        view = (
            Augmentation(48, jitter=0, grey=0)
            ._draw_view(pixels, crops[0], rng)
            .pixels.permute(1, 2, 0)
            .numpy()
        )
        apart = [np.abs(view - each).max() for each in (expected, expected[:, ::-1])]
        assert min(apart) <= 1
        turned.append(apart[1] <= 1)
    assert np.mean(turned) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("side", "smaller"), [(95, 1), (96, 2), (191, 2), (192, 4), (400, 8)])
def test_a_large_jpeg_is_decoded_smaller_only_where_no_crop_falls_below_the_target(
    side: int, smaller: int
) -> None:
    stream = io.BytesIO()
    slope = np.linspace(0, 255, 640)[None, :, None] * np.ones((480, 1, 3))
    Image.fromarray(slope.astype(np.uint8)).save(stream, "JPEG", quality=95)
    crops = [vision.Crop(64, 40, side, side), vision.Crop(0, 0, 440, 440)]
    pixels, scaled = vision._decode(Image.open(stream), crops, 48)
    assert pixels.shape[-2:] == (480 // smaller, 640 // smaller)
    assert min(scaled[0].width, scaled[0].height) >= 48
    # the crop still shows the same part of the slope
    shown = pixels[0, 0, :, scaled[0].left : scaled[0].left + scaled[0].width].float()
    assert shown.mean() == pytest.approx((64 + side / 2) / 640 * 255, abs=2)
