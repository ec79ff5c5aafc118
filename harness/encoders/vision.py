"""Training augmentations of images, two views each, as in the public code of VisualCSE.

A resized random crop, a flip, colour jitter, sometimes grey; normalised by ImageNet's moments
(NonLing VisualCSE/src/trainers.py; the paper lists none). The distributions are those of
torchvision, computed faster; pixels differ slightly: crops are resized by torch (at most 1/255 from
Pillow's), colours are jittered in float32 and rounded once at the end, and a JPEG is decoded at a
half, a quarter or an eighth of its size where both crops remain at least as large as the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from harness.encoders.media import convert_to_rgb

#: mean and deviation of ImageNet's pixels: red, green, blue
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
#: strength of the jitter of brightness, contrast, saturation and hue, and its probability
JITTER = (0.4, 0.4, 0.4, 0.1)
JITTER_CHANCE = 0.8
#: smallest and largest ratio of a crop's width to its height
RATIO = (3 / 4, 4 / 3)
#: weights of red, green and blue in grey (ITU-R 601-2)
GREY = (0.2989, 0.587, 0.114)
#: Numbers of the views whose colours are changed together, which stay in the caches of a core.
_NUMBERS_AT_ONCE = 2**17


@dataclass(frozen=True)
class Crop:
    """A part of an image, in pixels."""

    left: int
    top: int
    width: int
    height: int

    def shrink(self, scale: float, width: int, height: int) -> Crop:
        """Return the same part of the image decoded at `scale`, which is then `width` x `height`."""
        left, crop_width = _shrink_side(self.left, self.width, scale, width)
        top, crop_height = _shrink_side(self.top, self.height, scale, height)
        return Crop(left, top, crop_width, crop_height)


def _shrink_side(start: int, length: int, scale: float, limit: int) -> tuple[int, int]:
    """Start and length of a crop in one dimension at `scale`, within `limit` pixels."""
    start = min(round(start * scale), limit - 1)
    length = min(round(length * scale), limit - start)
    return start, max(1, length)


@dataclass(frozen=True)
class DrawnView:
    """A view of an image, (3, size, size) uint8, with what was drawn for its colours: the number
    and the amount of each adjustment of the jitter, in order, none without jitter.
    """

    pixels: Tensor
    jitter: tuple[tuple[int, float], ...]
    is_grey: bool


class Augmentation:
    """Random views of images at a fixed size."""

    def __init__(
        self, size: int = 224, *, smallest: float = 0.2, jitter: float = 1.0, grey: float = 0.2
    ) -> None:
        """`smallest` is the smallest area of a crop, `jitter` scales the colour jitter, `grey` is a
        probability.
        """
        self.size = size
        self._smallest = smallest
        self._jitter = jitter
        self._grey = grey

    def draw_views(
        self, image: Image.Image | np.ndarray, rng: np.random.Generator
    ) -> list[DrawnView]:
        """Draw two views of an image, decoded once, or of pixels (h, w, 3) uint8, from `rng`. Raises
        Pillow's errors.
        """
        if isinstance(image, np.ndarray):
            height, width, _ = image.shape
            crops = [self._draw_crop(width, height, rng) for _ in range(2)]
            pixels = _make_tensor(image)
        else:
            crops = [self._draw_crop(*image.size, rng) for _ in range(2)]
            pixels, crops = _decode(image, crops, self.size)
        return [self._draw_view(pixels, crop, rng) for crop in crops]

    def change_colours(self, views: Sequence[DrawnView]) -> Tensor:
        """Change the colours of views as was drawn: (views, 3, size, size) uint8."""
        pixels = torch.stack([view.pixels for view in views])
        changed = [number for number, view in enumerate(views) if view.jitter or view.is_grey]

        views_at_once = max(1, _NUMBERS_AT_ONCE // pixels[0].numel())
        for start in range(0, len(changed), views_at_once):
            numbers = changed[start : start + views_at_once]
            # several times as fast as pixels[numbers]
            rows = torch.tensor(numbers)
            changed_views = [views[number] for number in numbers]
            pixels.index_copy_(
                0, rows, _change_colours(pixels.index_select(0, rows), changed_views)
            )
        return pixels

    def _draw_crop(self, width: int, height: int, rng: np.random.Generator) -> Crop:
        """Draw a crop as torchvision's RandomResizedCrop: ten trials, then a central crop."""
        for _ in range(10):
            area = width * height * rng.uniform(self._smallest, 1.0)
            ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
            crop_width = round(math.sqrt(area * ratio))
            crop_height = round(math.sqrt(area / ratio))
            if 0 < crop_width <= width and 0 < crop_height <= height:
                top = int(rng.integers(height - crop_height + 1))
                left = int(rng.integers(width - crop_width + 1))
                return Crop(left, top, crop_width, crop_height)

        crop_width = min(width, round(height * RATIO[1]))
        crop_height = min(height, round(width / RATIO[0]))
        left = (width - crop_width) // 2
        top = (height - crop_height) // 2
        return Crop(left, top, crop_width, crop_height)

    def _draw_view(self, pixels: Tensor, crop: Crop, rng: np.random.Generator) -> DrawnView:
        rows = slice(crop.top, crop.top + crop.height)
        columns = slice(crop.left, crop.left + crop.width)
        size = (self.size, self.size)
        part = pixels[:, :, rows, columns]
        view: Tensor = functional.interpolate(part, size, mode="bilinear", antialias=True)[0]

        # every result depends on the order of these draws
        if rng.random() < 0.5:
            view = view.flip(-1)
        has_jitter = self._jitter > 0 and rng.random() < JITTER_CHANCE
        order = rng.permutation(4).tolist()
        draws = rng.uniform(-1, 1, 4)
        is_grey = rng.random() < self._grey
        if not has_jitter:
            return DrawnView(view, (), is_grey)

        jitter = []
        for number in order:
            amount = float(self._jitter * JITTER[number] * draws[number])
            # the hue is shifted, the others are multiplied
            if _ADJUSTMENTS[number] is not _adjust_hue:
                amount = max(0.0, 1 + amount)
            jitter.append((number, amount))
        return DrawnView(view, tuple(jitter), is_grey)


def _change_colours(pixels: Tensor, views: Sequence[DrawnView]) -> Tensor:
    """Jitter and grey V views, (V, 3, H, W) uint8, as was drawn for each."""
    colours = pixels.float().div_(255)

    # in the order of each view, those with the same adjustment together
    for place in range(len(_ADJUSTMENTS)):
        numbers_by_adjustment: dict[int, list[int]] = {}
        for number, view in enumerate(views):
            if view.jitter:
                numbers_by_adjustment.setdefault(view.jitter[place][0], []).append(number)
        for adjustment, numbers in numbers_by_adjustment.items():
            adjust = _ADJUSTMENTS[adjustment]
            amounts = [views[number].jitter[place][1] for number in numbers]
            if len(numbers) == len(views):
                colours = adjust(colours, amounts)
            else:
                rows = torch.tensor(numbers)
                colours.index_copy_(0, rows, adjust(colours.index_select(0, rows), amounts))

    grey = [number for number, view in enumerate(views) if view.is_grey]
    if grey:
        rows = torch.tensor(grey)
        greys = _convert_to_grey(colours.index_select(0, rows)).expand(-1, 3, -1, -1)
        colours.index_copy_(0, rows, greys)
    return colours.mul_(255).add_(0.5).to(torch.uint8)


def normalise_pixels(pixels: Tensor) -> Tensor:
    """Normalise pixels (..., 3, H, W) uint8 by ImageNet's moments: float32."""
    mean = torch.tensor(MEAN, device=pixels.device).view(3, 1, 1)
    deviation = torch.tensor(DEVIATION, device=pixels.device).view(3, 1, 1)
    return pixels.float().div_(255).sub_(mean).div_(deviation)


def _decode(image: Image.Image, crops: list[Crop], size: int) -> tuple[Tensor, list[Crop]]:
    """Decode to (1, 3, h, w) uint8, a JPEG at reduced size if all crops stay >= `size`; return
    pixels and crops.
    """
    width, height = image.size
    shortest_side = min(min(crop.width, crop.height) for crop in crops)
    divisor = next((divisor for divisor in (8, 4, 2) if divisor <= shortest_side // size), 1)
    if divisor > 1:
        image.draft(None, (width // divisor, height // divisor))

    pixels = _make_tensor(np.array(convert_to_rgb(image)))
    decoded_height, decoded_width = pixels.shape[-2:]
    if decoded_width != width:
        scale = decoded_width / width
        crops = [crop.shrink(scale, decoded_width, decoded_height) for crop in crops]
    return pixels, crops


def _make_tensor(pixels: np.ndarray) -> Tensor:
    """Pixels (h, w, 3) uint8 as (1, 3, h, w), without a copy."""
    return torch.from_numpy(pixels).permute(2, 0, 1).unsqueeze(0)


# colours are (V, 3, H, W) float32 from 0 to 1, with an amount for each view


def _convert_to_grey(colours: Tensor) -> Tensor:
    red, green, blue = colours.chunk(3, dim=1)
    return red * GREY[0] + green * GREY[1] + blue * GREY[2]


def _make_column(amounts: Sequence[float]) -> Tensor:
    return torch.tensor(amounts, dtype=torch.float32).view(-1, 1, 1, 1)


def _adjust_brightness(colours: Tensor, factors: Sequence[float]) -> Tensor:
    return colours.mul(_make_column(factors)).clamp_(0, 1)


def _adjust_contrast(colours: Tensor, factors: Sequence[float]) -> Tensor:
    shifts = []
    for grey, factor in zip(_convert_to_grey(colours).numpy(), factors, strict=True):
        # numpy's mean: the last bits of torch's depend on the number of threads
        shifts.append((1 - factor) * float(grey.mean(dtype=np.float64)))
    return colours.mul(_make_column(factors)).add_(_make_column(shifts)).clamp_(0, 1)


def _adjust_saturation(colours: Tensor, factors: Sequence[float]) -> Tensor:
    adjusted = colours.mul(_make_column(factors))
    # one by one, since torch rounds a sum once only where its factor is a number
    for view, grey, factor in zip(adjusted, _convert_to_grey(colours), factors, strict=True):
        view.add_(grey, alpha=1 - factor)
    return adjusted.clamp_(0, 1)


def _adjust_hue(colours: Tensor, shifts: Sequence[float]) -> Tensor:
    """Rotate the hue by a fraction of the circle, keeping value and saturation of HSV.

    With value v, chroma c and hue h in sixths, a channel of HSV is v - c clamp(min(k, 4 - k), 0, 1)
    where k = (n + h) mod 6 and n = 5, 3, 1 for red, green, blue.
    """
    red, green, blue = colours.chunk(3, dim=1)
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)

    # (g - b, b - r, r - g) / chroma; without chroma the hue is arbitrary
    differences = colours.roll(-1, 1) - colours.roll(-2, 1)
    of_red, of_green, of_blue = differences.div_(chroma.clamp_min(1e-12)).chunk(3, dim=1)
    hue = torch.where(value == green, of_green + 2, of_blue + 4)
    sixths = _make_column([6 * shift for shift in shifts])
    hue = torch.where(value == red, of_red, hue).add_(sixths)

    k = torch.tensor([5.0, 3.0, 1.0]).view(3, 1, 1).add(hue).div_(6)
    k = k.sub_(k.floor()).mul_(6)
    # min(k, 4 - k) is 2 - |k - 2|
    share = k.sub_(2).abs_().neg_().add_(2).clamp_(0, 1)
    return torch.addcmul(value, chroma, share, value=-1)


_ADJUSTMENTS = (_adjust_brightness, _adjust_contrast, _adjust_saturation, _adjust_hue)
