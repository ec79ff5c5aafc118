"""Image files as pixels: opened without decoding, decoded to RGB, and one error for whatever is wrong with one."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

#: bytes of an image file, or where it lies
Encoded = bytes | Path
#: what Pillow raises for a file that it cannot decode
UNREADABLE = (
    OSError,
    EOFError,
    SyntaxError,
    ValueError,
    LookupError,
    ArithmeticError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
#: pixels of the largest image that is decoded: 267 MB of RGB, far above any photograph of these corpora
LARGEST = 89_478_485


def opened(item: Encoded) -> Image.Image:
    """An image of which the header alone has been read. Raises one of UNREADABLE.

    A file of more than LARGEST pixels is refused before it is decoded.
    """
    image = Image.open(io.BytesIO(item) if isinstance(item, bytes) else item)
    width, height = image.size
    if width * height > LARGEST:
        raise ValueError(f"it has {width} x {height} pixels, more than {LARGEST:,}")
    return image


def rgb(image: Image.Image) -> Image.Image:
    """The image decoded to 8 bits a channel: palettes looked up, CMYK converted, transparency dropped, 16 bits cut."""
    if image.mode.startswith("I;16"):
        values = np.asarray(image, dtype=np.uint16) >> 8
        return Image.fromarray(values.astype(np.uint8)).convert("RGB")
    if image.mode in ("P", "PA") and "transparency" in image.info:
        return image.convert("RGBA").convert("RGB")
    return image.convert("RGB")


def decoded(item: Encoded) -> np.ndarray:
    """Pixels of an image file, (height, width, 3) uint8. Raises one of UNREADABLE."""
    return np.array(rgb(opened(item)))


def described(error: Exception) -> str:
    """What an error says, in one line and without the object at an address that Pillow names."""
    text = next(iter(str(error).splitlines()), "") or type(error).__name__
    return "it is no image that Pillow knows" if "cannot identify image file" in text else text
