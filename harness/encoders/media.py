"""Images: opening without decoding, RGB, errors, decoding on access; and recordings: log mel
filterbanks.

The filterbanks are those of AudioCSE's public code (NonLing AudioCSE/src/audio_dataloader.py):
Kaldi's, HTK-compatible, mean of the wave removed, 25 ms Hanning windows every 10 ms, no energy, no
dither; cut or zero-padded at the end, not normalised.
"""

from __future__ import annotations

import io
import re
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
from PIL import Image, ImageFile
from PIL.TiffImagePlugin import (
    BITSPERSAMPLE,
    PHOTOMETRIC_INTERPRETATION,
    SAMPLEFORMAT,
    TiffImageFile,
)

from harness.errors import UserError, first_line
from harness.files import open_regular
from harness.processors import cores

#: version of the pixels of `harness.encoders.vision`, part of the fingerprint of labelled images
VIEWS_VERSION = 2
#: Increased when an image file is decoded otherwise: teachers' features are then computed again.
DECODING = 2
#: processing of one image, (h, w, 3) uint8 in and out
OneImage = Callable[[np.ndarray], np.ndarray]
#: bytes or path of an image file
Encoded = bytes | Path
#: suffixes of the names of image files
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
#: how image files begin
_IMAGE_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")
#: errors of Pillow for a file that cannot be decoded
UNREADABLE = (
    *(OSError, EOFError, SyntaxError, ValueError, LookupError, ArithmeticError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)
#: images decoded ahead of the teacher
AHEAD = 512
#: the end mark of a JPEG
_END = b"\xff\xd9"
#: pixels of the largest image that is decoded: 267 MB of RGB
LARGEST = 89_478_485


def is_image_file(path: Path) -> bool:
    """Whether a file is an image, by its name or else by its first bytes."""
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return True
    try:
        with open_regular(path) as stream:
            start = stream.read(12)
    except OSError:
        return False
    is_webp = start[:4] == b"RIFF" and start[8:] == b"WEBP"
    return is_webp or start.startswith(_IMAGE_STARTS)


def opened(item: Encoded) -> Image.Image:
    """Open an image without decoding it. Raises one of UNREADABLE, for more than LARGEST pixels
    too.
    """
    image = Image.open(io.BytesIO(item) if isinstance(item, bytes) else item)
    width, height = image.size
    if width * height > LARGEST:
        raise ValueError(f"it has {width} x {height} pixels, more than {LARGEST:,}")
    return image


def rgb(image: Image.Image) -> Image.Image:
    """Decode to 8-bit RGB: palettes and CMYK converted, transparency dropped, 16 bits cut to 8.

    Of several pictures the first is taken, and none is turned as its Exif data say, as in the
    public code. Raises one of UNREADABLE, for a truncated file and for pixels whose range no format
    defines too.
    """
    ImageFile.LOAD_TRUNCATED_IMAGES = (
        False  # other libraries set it, and what is missing would be black
    )
    sixteen = image.mode.startswith("I;16") or (
        image.mode == "I" and image.format in ("PNG", "PPM")
    )
    if (image.mode in ("I", "F") and not sixteen) or (
        isinstance(image, TiffImageFile) and _is_odd(image, sixteen)
    ):
        raise ValueError(
            f"its pixels ({image.mode}) have no known range; convert it to 8 bits or to PNG of 16 bits"
        )
    if sixteen:
        values = np.asarray(image, dtype=np.uint16) >> 8
        return Image.fromarray(values.astype(np.uint8)).convert("RGB")
    if image.mode in ("P", "PA") and "transparency" in image.info:
        return image.convert("RGBA").convert("RGB")
    return image.convert("RGB")


def _is_odd(image: TiffImageFile, sixteen: bool) -> bool:
    """Whether a TIFF has signed samples, or wide ones that Pillow does not scale: 12 bits, or white
    as 0.
    """
    tags = image.tag_v2
    unscaled = sixteen and (
        tags.get(BITSPERSAMPLE) != (16,) or tags.get(PHOTOMETRIC_INTERPRETATION) != 1
    )
    return unscaled or set(tags.get(SAMPLEFORMAT, (1,))) != {1}


def decoded(item: Encoded) -> np.ndarray:
    """Decode an image file: (height, width, 3) uint8. Raises one of UNREADABLE."""
    image = opened(item)
    pixels = np.array(rgb(image))
    if image.format == "JPEG":
        last: Any = image.getpixel((image.width - 1, image.height - 1))
        progressive = "progressive" in image.info
        if progressive or set(np.ravel(last)) <= {127, 128}:
            content = item if isinstance(item, bytes) else item.read_bytes()
            if _lacks_scans(content, pixels) if progressive else _lacks_blocks(content):
                raise OSError("image file is truncated, though it has an end mark")
    return pixels


def _lacks_blocks(content: bytes) -> bool:
    """Whether a sequential JPEG ends before its last block: libjpeg makes the missing ones grey,
    without an error.
    """
    try:
        # without the mark, a file with data for its last block can still be decoded, and another
        # one cannot
        Image.open(io.BytesIO(content[: content.rfind(_END)] + bytes(16))).load()
    except OSError:
        return True
    return False


def _lacks_scans(content: bytes, pixels: np.ndarray) -> bool:
    """Whether a progressive JPEG lacks scans or ends within one: libjpeg leaves out what is
    missing, without an error.

    More data before the end mark change the pixels of a file that ends within a scan; in a whole
    one they are skipped.
    """
    if b"\xff\xc4" not in content:
        return False  # in arithmetic coding, whose encoders leave zeros out
    if not _has_all_scans(content[content.rfind(b"\xff\xc2") :]):
        return True
    end = content.rfind(_END)
    longer = content[:end] + bytes(range(255)) * 8 + content[end:]
    return not np.array_equal(pixels, np.asarray(rgb(opened(longer))))


def _has_all_scans(frame: bytes) -> bool:
    """Whether the scans of a progressive frame give every coefficient of every component to its
    last bit.
    """
    given = set[tuple[int, int]]()
    for start in re.finditer(rb"\xff\xda", frame):
        header = frame[start.end() + 2 :]
        first, last, bits = header[1 + 2 * header[0] :][:3]
        if bits % 16 == 0:
            components = header[1 : 2 * header[0] : 2]
            given |= {
                (component, each) for component in components for each in range(first, last + 1)
            }
    return len(given) == 64 * frame[9]


def described(error: Exception) -> str:
    """Describe an error in one line, without the memory address in Pillow's message."""
    text = first_line(error)
    return (
        "not an image format that Pillow supports" if "cannot identify image file" in text else text
    )


class Pixels(Sequence[np.ndarray]):
    """n images, each (h, w, 3) uint8, decoded on access. Slices are lazy; iterating over one
    decodes slightly ahead.

    Access to one that cannot be decoded raises UserError naming it.
    """

    def __init__(
        self,
        read: Callable[[int], Encoded],
        name: Callable[[int], str],
        count: int,
    ) -> None:
        """`read` and `name` return the encoded file and the name of an image number below `count`."""
        self._read = read
        self._name = name
        self._every = self._numbers = range(count)
        #: of all slices: one thread per core, since Pillow releases the interpreter's lock, and
        #: what they are to make
        self._pool = ThreadPoolExecutor(cores())
        self._waiting: dict[tuple[OneImage, int], Future[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.worked(_unchanged)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, index: slice) -> Pixels: ...

    def __getitem__(self, index: int | slice) -> np.ndarray | Pixels:
        if isinstance(index, slice):
            part = copy(self)
            part._numbers = self._numbers[index]
            return part
        return self._made(self._numbers[index], _unchanged)

    def worked(self, work: OneImage) -> Iterator[np.ndarray]:
        """Yield `work` of each image, in order, while threads decode and process the next images."""
        for number in self._every[self._numbers.start : self._numbers.stop + AHEAD]:
            if (work, number) not in self._waiting:
                self._waiting[work, number] = self._pool.submit(self._made, number, work)
        for done in [
            key for key in self._waiting if key[0] != work or key[1] < self._numbers.start
        ]:
            self._waiting.pop(done).cancel()
        for number in self._numbers:
            yield self._waiting.pop((work, number)).result()

    def _made(self, number: int, work: OneImage) -> np.ndarray:
        try:
            image = decoded(self._read(number))
        except UNREADABLE as error:
            raise UserError(
                f"the image {self._name(number)} cannot be decoded: {described(error)}; replace it or remove its row"
            ) from error
        return work(image)


def _unchanged(image: np.ndarray) -> np.ndarray:
    return image


def worked(images: Sequence[np.ndarray] | np.ndarray, work: OneImage) -> Iterator[np.ndarray]:
    """Yield `work` of each image, in order; by several threads for images decoded on access."""
    return images.worked(work) if isinstance(images, Pixels) else map(work, images)


WINDOW_MS = 25
HOP_MS = 10
LOWEST_HZ = 20.0
PREEMPHASIS = 0.97
#: widest masks, as parts of the bins and of the frames
MASKED_BINS = 48 / 128
MASKED_FRAMES = 192 / 1024


def filterbank(wave: np.ndarray, rate: int, *, bins: int = 128, frames: int = 1024) -> np.ndarray:
    """Compute log mel energies of a mono wave (n,) at `rate` samples a second, padded: (frames,
    bins) float32.
    """
    return padded(energies(wave, rate, bins=bins, frames=frames), frames)


def padded(bank: np.ndarray, frames: int) -> np.ndarray:
    """Pad (t, bins) with zeros at the end to (frames, bins)."""
    return np.concatenate([bank, np.zeros((frames - len(bank), bank.shape[1]), dtype=bank.dtype)])


def energies(wave: np.ndarray, rate: int, *, bins: int, frames: int) -> np.ndarray:
    """Compute log mel energies of at most `frames` windows of a wave, none if it is too short: (t,
    bins).
    """
    length = WINDOW_MS * rate // 1000
    hop = HOP_MS * rate // 1000
    if len(wave) < length:
        return np.zeros((0, bins), dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(wave, dtype=np.float64), length)[
        ::hop
    ][:frames]
    # subtracting each window's mean also removes the mean of the wave
    windows = windows - windows.mean(axis=1, keepdims=True)
    raised = windows - PREEMPHASIS * np.concatenate([windows[:, :1], windows[:, :-1]], axis=1)
    size = 1 << (length - 1).bit_length()
    power = np.abs(np.fft.rfft(raised * np.hanning(length), size)) ** 2
    logs: np.ndarray = np.log(
        np.maximum(power @ _filters(size, bins, rate), np.finfo(np.float32).eps)
    )
    return logs.astype(np.float32)


@lru_cache(maxsize=4)
def _filters(size: int, bins: int, rate: int) -> np.ndarray:
    from transformers.audio_utils import mel_filter_bank

    with warnings.catch_warnings():
        # at a low sampling rate the narrowest filters fall between two frequencies and are empty,
        # as in Kaldi
        warnings.filterwarnings("ignore", message="At least one mel filter")
        filters: np.ndarray = mel_filter_bank(
            size // 2 + 1,
            bins,
            LOWEST_HZ,
            rate / 2,
            rate,
            mel_scale="kaldi",
            triangularize_in_mel_space=True,
        )
    return filters


def mixed(own: np.ndarray, other: np.ndarray, weight: float) -> np.ndarray:
    """Mix two waves less their means, as AudioCSE's public code does; the second is cut or
    zero-padded: (n,).
    """
    fitted = np.zeros_like(own)
    fitted[: len(other)] = (other - other.mean())[: len(own)]
    wave: np.ndarray = weight * (own - own.mean()) + (1 - weight) * fitted
    return wave


def masked(spectrograms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Set a band of bins and a band of frames of each item (B, T, F) to 0, as AudioCSE's public
    code.

    Widths are uniform below MASKED_BINS of F and MASKED_FRAMES of T, which are 48 bins and 192
    frames at 1,024 x 128, rounded down as in torchaudio's FrequencyMasking and TimeMasking.
    """
    out = spectrograms.copy()
    for item in out:
        item[:, _band(item.shape[1], MASKED_BINS, rng)] = 0
        item[_band(item.shape[0], MASKED_FRAMES, rng)] = 0
    return out


def _band(size: int, most: float, rng: np.random.Generator) -> slice:
    width = rng.random() * most * size
    start = int(rng.random() * (size - width))
    return slice(start, start + int(width))
