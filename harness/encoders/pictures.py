"""Image files: opening without decoding, decoding to RGB, describing errors, and images decoded on access."""

from __future__ import annotations

import io
import struct
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from harness.errors import first_line

#: raised when the pixels of `harness.encoders.vision` change; part of the fingerprint of labelled images
VIEWS_VERSION = 2
#: work on one image, (h, w, 3) uint8 in and out
OneImage = Callable[[np.ndarray], np.ndarray]
#: bytes or path of an image file
Encoded = bytes | Path
#: raised by Pillow for a file that it cannot decode
UNREADABLE = (
    *(OSError, EOFError, SyntaxError, ValueError, LookupError, ArithmeticError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)
#: pixels of the largest image that is decoded: 267 MB of RGB
LARGEST = 89_478_485


def opened(item: Encoded) -> Image.Image:
    """Open an image without decoding it. Raises one of UNREADABLE, also for more than LARGEST pixels."""
    image = Image.open(io.BytesIO(item) if isinstance(item, bytes) else item)
    width, height = image.size
    if width * height > LARGEST:
        raise ValueError(f"it has {width} x {height} pixels, more than {LARGEST:,}")
    return image


def rgb(image: Image.Image) -> Image.Image:
    """Decode to 8-bit RGB: palettes and CMYK converted, transparency dropped, 16 bits cut to 8."""
    if image.mode.startswith("I;16"):
        values = np.asarray(image, dtype=np.uint16) >> 8
        return Image.fromarray(values.astype(np.uint8)).convert("RGB")
    if image.mode in ("P", "PA") and "transparency" in image.info:
        return image.convert("RGBA").convert("RGB")
    return image.convert("RGB")


def decoded(item: Encoded) -> np.ndarray:
    """Decode an image file: (height, width, 3) uint8. Raises one of UNREADABLE."""
    return np.array(rgb(opened(item)))


def described(error: Exception) -> str:
    """Describe an error in one line, without the memory address in Pillow's message."""
    text = first_line(error)
    return "not an image format that Pillow supports" if "cannot identify image file" in text else text


class DecodedImages(Sequence[np.ndarray]):
    """Images that are decoded on access, each (h, w, 3) uint8."""

    @abstractmethod
    def worked(self, work: OneImage) -> Iterator[np.ndarray]:
        """Yield what `work` makes of each image, in order; the next ones are decoded and worked on meanwhile."""


def worked(images: Sequence[np.ndarray] | np.ndarray, work: OneImage) -> Iterator[np.ndarray]:
    """Yield what `work` makes of each image: by several workers for images decoded on access."""
    return images.worked(work) if isinstance(images, DecodedImages) else map(work, images)
