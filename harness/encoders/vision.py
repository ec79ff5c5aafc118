"""Training augmentations of images, two views each, as in the public code of VisualCSE.

A resized random crop, a flip, colour jitter, sometimes grey; normalised by ImageNet's moments
(NonLing VisualCSE/src/trainers.py; the paper lists none). The distributions are those of
torchvision, computed faster; pixels differ slightly: crops are resized by torch (at most 1/255 from
Pillow's), colours are jittered in float32 and rounded once at the end, and a JPEG is decoded at a
half, a quarter or an eighth of its size where both crops remain at least as large as the target.
"""

from __future__ import annotations

import math
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

    def apply(self, image: Image.Image, rng: np.random.Generator) -> Tensor:
        """Draw two views of an image from `rng`, decoded once: (2, 3, size, size) uint8. Raises
        Pillow's errors.
        """
        crops = [self._draw_crop(*image.size, rng) for _ in range(2)]
        pixels, crops = _decode(image, crops, self.size)
        return torch.stack([self._draw_view(pixels, crop, rng) for crop in crops])

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

    def _draw_view(self, pixels: Tensor, crop: Crop, rng: np.random.Generator) -> Tensor:
        rows = slice(crop.top, crop.top + crop.height)
        columns = slice(crop.left, crop.left + crop.width)
        size = (self.size, self.size)
        part = pixels[:, :, rows, columns]
        view: Tensor = functional.interpolate(part, size, mode="bilinear", antialias=True)[0]

        # every result depends on the order of these draws
        if rng.random() < 0.5:
            view = view.flip(-1)
        has_jitter = self._jitter > 0 and rng.random() < JITTER_CHANCE
        order = rng.permutation(4)
        draws = rng.uniform(-1, 1, 4)
        is_grey = rng.random() < self._grey
        if not (has_jitter or is_grey):
            return view

        colours = view.contiguous().float().div_(255)
        if has_jitter:
            colours = self._apply_jitter(colours, order, draws)
        if is_grey:
            colours = _convert_to_grey(colours).expand(3, -1, -1)
        return colours.mul(255).add_(0.5).to(torch.uint8)

    def _apply_jitter(self, colours: Tensor, order: np.ndarray, draws: np.ndarray) -> Tensor:
        """Jitter brightness, contrast, saturation and hue in random order, as torchvision's
        ColorJitter.
        """
        for number in order:
            amount = float(self._jitter * JITTER[number] * draws[number])
            adjust = _ADJUSTMENTS[number]
            # the hue is shifted, the others are multiplied
            if adjust is not _adjust_hue:
                amount = max(0.0, 1 + amount)
            colours = adjust(colours, amount)
        return colours


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

    pixels = torch.from_numpy(np.array(convert_to_rgb(image))).permute(2, 0, 1).unsqueeze(0)
    decoded_height, decoded_width = pixels.shape[-2:]
    if decoded_width != width:
        scale = decoded_width / width
        crops = [crop.shrink(scale, decoded_width, decoded_height) for crop in crops]
    return pixels, crops


def _convert_to_grey(colours: Tensor) -> Tensor:
    red, green, blue = colours
    grey: Tensor = red * GREY[0] + green * GREY[1] + blue * GREY[2]
    return grey.unsqueeze(0)


def _adjust_brightness(colours: Tensor, factor: float) -> Tensor:
    return colours.mul(factor).clamp_(0, 1)


def _adjust_contrast(colours: Tensor, factor: float) -> Tensor:
    # numpy's mean: the last bits of torch's depend on the number of threads
    mean = float(_convert_to_grey(colours).numpy().mean(dtype=np.float64))
    return colours.mul(factor).add_((1 - factor) * mean).clamp_(0, 1)


def _adjust_saturation(colours: Tensor, factor: float) -> Tensor:
    return colours.mul(factor).add_(_convert_to_grey(colours), alpha=1 - factor).clamp_(0, 1)


def _adjust_hue(colours: Tensor, shift: float) -> Tensor:
    """Rotate the hue by a fraction of the circle, keeping value and saturation of HSV.

    With value v, chroma c and hue h in sixths, a channel of HSV is v - c clamp(min(k, 4 - k), 0, 1)
    where k = (n + h) mod 6 and n = 5, 3, 1 for red, green, blue.
    """
    red, green, blue = colours
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)

    # (g - b, b - r, r - g) / chroma; without chroma the hue is arbitrary
    turned = (colours.roll(-1, 0) - colours.roll(-2, 0)).div_(chroma.clamp_min(1e-12))
    hue = torch.where(value == green, turned[1] + 2, turned[2] + 4)
    hue = torch.where(value == red, turned[0], hue).add_(6 * shift)

    k = torch.tensor([5.0, 3.0, 1.0]).view(3, 1, 1).add(hue).div_(6)
    k = k.sub_(k.floor()).mul_(6)
    # min(k, 4 - k) is 2 - |k - 2|
    share = k.sub_(2).abs_().neg_().add_(2).clamp_(0, 1)
    return torch.addcmul(value, chroma, share, value=-1)


_ADJUSTMENTS = (_adjust_brightness, _adjust_contrast, _adjust_saturation, _adjust_hue)
