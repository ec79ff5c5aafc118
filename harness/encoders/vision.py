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

from harness.encoders.media import rgb

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

    def shrunk(self, scale: float, width: int, height: int) -> Crop:
        """Return the same part of the image decoded at `scale`, which is then `width` x `height`."""
        left, top = (
            min(round(at * scale), most - 1)
            for at, most in ((self.left, width), (self.top, height))
        )
        wide = round(self.width * scale)
        high = round(self.height * scale)
        return Crop(left, top, max(1, min(wide, width - left)), max(1, min(high, height - top)))


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

    def of(self, image: Image.Image, rng: np.random.Generator) -> Tensor:
        """Draw two views of an image from `rng`, decoded once: (2, 3, size, size) uint8. Raises
        Pillow's errors.
        """
        crops = [self._crop(*image.size, rng) for _ in range(2)]
        pixels, crops = _decoded(image, crops, self.size)
        return torch.stack([self._view(pixels, crop, rng) for crop in crops])

    def _crop(self, width: int, height: int, rng: np.random.Generator) -> Crop:
        """Draw a crop as torchvision's RandomResizedCrop: ten trials, then a central crop."""
        for _ in range(10):
            area = width * height * rng.uniform(self._smallest, 1.0)
            ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
            wide = round(math.sqrt(area * ratio))
            high = round(math.sqrt(area / ratio))
            if 0 < wide <= width and 0 < high <= height:
                top = int(rng.integers(height - high + 1))
                left = int(rng.integers(width - wide + 1))
                return Crop(left, top, wide, high)
        wide = min(width, round(height * RATIO[1]))
        high = min(height, round(width / RATIO[0]))
        return Crop((width - wide) // 2, (height - high) // 2, wide, high)

    def _view(self, pixels: Tensor, crop: Crop, rng: np.random.Generator) -> Tensor:
        part = pixels[:, :, crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
        size = (self.size, self.size)
        view = torch.nn.functional.interpolate(part, size, mode="bilinear", antialias=True)[0]
        if rng.random() < 0.5:
            view = view.flip(-1)
        jittered = self._jitter > 0 and rng.random() < JITTER_CHANCE
        orders = rng.permutation(4), rng.uniform(-1, 1, 4)
        grey = rng.random() < self._grey
        if not (jittered or grey):
            return view
        colours = view.contiguous().float().div_(255)
        if jittered:
            colours = self._jittered(colours, *orders)
        if grey:
            colours = _grey(colours).expand(3, -1, -1)
        return colours.mul(255).add_(0.5).to(torch.uint8)

    def _jittered(self, colours: Tensor, order: np.ndarray, draws: np.ndarray) -> Tensor:
        """Jitter brightness, contrast, saturation and hue in random order, as torchvision's
        ColorJitter.
        """
        for which in order:
            amount = float(self._jitter * JITTER[which] * draws[which])
            colours = _CHANGES[which](colours, amount if which == 3 else max(0.0, 1 + amount))
        return colours


def normalised(pixels: Tensor) -> Tensor:
    """Normalise pixels (..., 3, H, W) uint8 by ImageNet's moments: float32."""
    mean, deviation = (
        torch.tensor(each, device=pixels.device).view(3, 1, 1) for each in (MEAN, DEVIATION)
    )
    return pixels.float().div_(255).sub_(mean).div_(deviation)


def _decoded(image: Image.Image, crops: list[Crop], size: int) -> tuple[Tensor, list[Crop]]:
    """Decode to (1, 3, h, w) uint8, a JPEG at reduced size if all crops stay >= `size`; return
    pixels and crops.
    """
    width, height = image.size
    spare = min(min(crop.width, crop.height) for crop in crops) // size
    scale = next((scale for scale in (8, 4, 2) if scale <= spare), 1)
    if scale > 1:
        image.draft(None, (width // scale, height // scale))
    pixels = torch.from_numpy(np.array(rgb(image))).permute(2, 0, 1).unsqueeze(0)
    channels = pixels.shape[-1]
    if channels != width:
        crops = [crop.shrunk(channels / width, channels, pixels.shape[-2]) for crop in crops]
    return pixels, crops


def _grey(colours: Tensor) -> Tensor:
    red, green, blue = colours
    grey: Tensor = red * GREY[0] + green * GREY[1] + blue * GREY[2]
    return grey.unsqueeze(0)


def _brightness(colours: Tensor, factor: float) -> Tensor:
    return colours.mul(factor).clamp_(0, 1)


def _contrast(colours: Tensor, factor: float) -> Tensor:
    # numpy's mean: the last bits of torch's depend on the number of threads
    mean = float(_grey(colours).numpy().mean(dtype=np.float64))
    return colours.mul(factor).add_((1 - factor) * mean).clamp_(0, 1)


def _saturation(colours: Tensor, factor: float) -> Tensor:
    return colours.mul(factor).add_(_grey(colours), alpha=1 - factor).clamp_(0, 1)


def _hue(colours: Tensor, shift: float) -> Tensor:
    """Rotate the hue by a fraction of the circle, keeping value and saturation of HSV.

    With value v, chroma c and hue h in sixths, a channel of HSV is v - c clamp(min(k, 4 - k), 0, 1)
    where k = (n + h) mod 6 and n = 5, 3, 1 for red, green, blue.
    """
    red, green, blue = colours
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    # (g - b, b - r, r - g) / chroma; without chroma the hue is arbitrary
    turned = (colours.roll(-1, 0) - colours.roll(-2, 0)).div_(chroma.clamp_min(1e-12))
    hue = torch.where(
        value == red, turned[0], torch.where(value == green, turned[1] + 2, turned[2] + 4)
    )
    sixths = torch.tensor([5.0, 3.0, 1.0]).view(3, 1, 1).add(hue.add_(6 * shift)).div_(6)
    sixths = sixths.sub_(sixths.floor()).mul_(6)
    # min(k, 4 - k) is 2 - |k - 2|
    share = sixths.sub_(2).abs_().neg_().add_(2).clamp_(0, 1)
    return torch.addcmul(value, chroma, share, value=-1)


_CHANGES = (_brightness, _contrast, _saturation, _hue)
