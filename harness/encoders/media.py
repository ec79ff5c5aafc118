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
from itertools import product
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
from harness.processors import count_cores

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


def open_image(item: Encoded) -> Image.Image:
    """Open an image without decoding it. Raises one of UNREADABLE, for more than LARGEST pixels
    too.
    """
    image = Image.open(io.BytesIO(item) if isinstance(item, bytes) else item)
    width, height = image.size
    if width * height > LARGEST:
        raise ValueError(f"it has {width} x {height} pixels, more than {LARGEST:,}")
    return image


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """Decode to 8-bit RGB: palettes and CMYK converted, transparency dropped, 16 bits cut to 8.

    Of several pictures the first is taken, and none is turned as its Exif data say, as in the
    public code. Raises one of UNREADABLE, for a truncated file and for pixels whose range no format
    defines too.
    """
    # other libraries set it, and what is missing would be black
    ImageFile.LOAD_TRUNCATED_IMAGES = False

    is_grey_of_16_bits = image.mode == "I" and image.format in ("PNG", "PPM")
    has_16_bits = is_grey_of_16_bits or image.mode.startswith("I;16")
    is_odd_tiff = isinstance(image, TiffImageFile) and _is_odd(image, has_16_bits)
    if is_odd_tiff or (image.mode in ("I", "F") and not has_16_bits):
        raise ValueError(
            f"its pixels ({image.mode}) have no known range; convert it to 8 bits or to PNG of 16 bits"
        )

    if has_16_bits:
        values = np.asarray(image, dtype=np.uint16) >> 8
        return Image.fromarray(values.astype(np.uint8)).convert("RGB")
    if image.mode in ("P", "PA") and "transparency" in image.info:
        return image.convert("RGBA").convert("RGB")
    return image.convert("RGB")


def _is_odd(image: TiffImageFile, has_16_bits: bool) -> bool:
    """Whether a TIFF has signed samples, or wide ones that Pillow does not scale: 12 bits, or white
    as 0.
    """
    tags = image.tag_v2
    if set(tags.get(SAMPLEFORMAT, (1,))) != {1}:
        return True
    is_scaled = tags.get(BITSPERSAMPLE) == (16,) and tags.get(PHOTOMETRIC_INTERPRETATION) == 1
    return has_16_bits and not is_scaled


def decode_image(item: Encoded) -> np.ndarray:
    """Decode an image file: (height, width, 3) uint8. Raises one of UNREADABLE."""
    image = open_image(item)
    pixels = np.array(convert_to_rgb(image))
    if image.format == "JPEG" and _is_cut(image, item, pixels):
        raise OSError("image file is truncated, though it has an end mark")
    return pixels


def _is_cut(image: Image.Image, item: Encoded, pixels: np.ndarray) -> bool:
    """Whether a JPEG lacks data before its end mark, where its pixels alone do not exclude it."""
    is_progressive = "progressive" in image.info
    last: Any = image.getpixel((image.width - 1, image.height - 1))
    is_grey = set(np.ravel(last)) <= {127, 128}
    if not (is_progressive or is_grey):
        return False

    content = item if isinstance(item, bytes) else item.read_bytes()
    return _lacks_scans(content, pixels) if is_progressive else _lacks_blocks(content)


def _lacks_blocks(content: bytes) -> bool:
    """Whether a sequential JPEG ends before its last block: libjpeg makes the missing ones grey,
    without an error.
    """
    # without the mark, a file with data for its last block can still be decoded, and another one
    # cannot
    without_mark = content[: content.rfind(_END)] + bytes(16)
    try:
        Image.open(io.BytesIO(without_mark)).load()
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
    return not np.array_equal(pixels, np.asarray(convert_to_rgb(open_image(longer))))


def _has_all_scans(frame: bytes) -> bool:
    """Whether the scans of a progressive frame give every coefficient of every component to its
    last bit.
    """
    complete = set[tuple[int, int]]()
    for mark in re.finditer(rb"\xff\xda", frame):
        header = frame[mark.end() + 2 :]
        end_of_components = 1 + 2 * header[0]
        first, last, bits = header[end_of_components : end_of_components + 3]
        is_to_last_bit = bits % 16 == 0
        if is_to_last_bit:
            components = header[1 : end_of_components - 1 : 2]
            complete.update(product(components, range(first, last + 1)))

    component_count = frame[9]
    return len(complete) == 64 * component_count


def describe_image_error(error: Exception) -> str:
    """Describe an error in one line, without the memory address in Pillow's message."""
    text = first_line(error)
    if "cannot identify image file" in text:
        return "not an image format that Pillow supports"
    return text


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
        #: the numbers of all images, and of those in this slice
        self._all_numbers = range(count)
        self._numbers = self._all_numbers
        #: of all slices: one thread per core, since Pillow releases the interpreter's lock, and
        #: what they are to make
        self._pool = ThreadPoolExecutor(count_cores())
        self._waiting: dict[tuple[OneImage, int], Future[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.process(_keep_image)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, index: slice) -> Pixels: ...

    def __getitem__(self, index: int | slice) -> np.ndarray | Pixels:
        if isinstance(index, slice):
            part = copy(self)
            part._numbers = self._numbers[index]
            return part
        return self._process_image(self._numbers[index], _keep_image)

    def process(self, work: OneImage) -> Iterator[np.ndarray]:
        """Yield `work` of each image, in order, while threads decode and process the next images."""
        first = self._numbers.start
        for number in self._all_numbers[first : self._numbers.stop + AHEAD]:
            if (work, number) not in self._waiting:
                self._waiting[work, number] = self._pool.submit(self._process_image, number, work)

        # what nobody will ask for
        for other_work, number in list(self._waiting):
            if other_work != work or number < first:
                self._waiting.pop((other_work, number)).cancel()

        for number in self._numbers:
            yield self._waiting.pop((work, number)).result()

    def _process_image(self, number: int, work: OneImage) -> np.ndarray:
        try:
            image = decode_image(self._read(number))
        except UNREADABLE as error:
            raise UserError(
                f"the image {self._name(number)} cannot be decoded: {describe_image_error(error)}; "
                "replace it or remove its row"
            ) from error
        return work(image)


def _keep_image(image: np.ndarray) -> np.ndarray:
    return image


def process_images(
    images: Sequence[np.ndarray] | np.ndarray, work: OneImage
) -> Iterator[np.ndarray]:
    """Yield `work` of each image, in order; by several threads for images decoded on access."""
    return images.process(work) if isinstance(images, Pixels) else map(work, images)


WINDOW_MS = 25
HOP_MS = 10
LOWEST_HZ = 20.0
PREEMPHASIS = 0.97
#: widest masks, as parts of the bins and of the frames
MASKED_BINS = 48 / 128
MASKED_FRAMES = 192 / 1024


def compute_filterbank(
    wave: np.ndarray, rate: int, *, bins: int = 128, frames: int = 1024
) -> np.ndarray:
    """Compute log mel energies of a mono wave (n,) at `rate` samples a second, padded: (frames,
    bins) float32.
    """
    return pad_frames(compute_energies(wave, rate, bins=bins, frames=frames), frames)


def pad_frames(bank: np.ndarray, frames: int) -> np.ndarray:
    """Pad (t, bins) with zeros at the end to (frames, bins)."""
    padding = np.zeros((frames - len(bank), bank.shape[1]), dtype=bank.dtype)
    return np.concatenate([bank, padding])


def compute_energies(wave: np.ndarray, rate: int, *, bins: int, frames: int) -> np.ndarray:
    """Compute log mel energies of at most `frames` windows of a wave, none if it is too short: (t,
    bins).
    """
    length = WINDOW_MS * rate // 1000
    hop = HOP_MS * rate // 1000

    if len(wave) < length:
        return np.zeros((0, bins), dtype=np.float32)

    samples = np.asarray(wave, dtype=np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(samples, length)[::hop][:frames]
    # subtracting each window's mean also removes the mean of the wave
    windows = windows - windows.mean(axis=1, keepdims=True)
    previous = np.concatenate([windows[:, :1], windows[:, :-1]], axis=1)
    emphasised = windows - PREEMPHASIS * previous

    power_of_2 = 1 << (length - 1).bit_length()
    spectrum = np.fft.rfft(emphasised * np.hanning(length), power_of_2)
    energies = np.abs(spectrum) ** 2 @ _make_filters(power_of_2, bins, rate)
    logs: np.ndarray = np.log(np.maximum(energies, np.finfo(np.float32).eps))
    return logs.astype(np.float32)


@lru_cache(maxsize=4)
def _make_filters(size: int, bins: int, rate: int) -> np.ndarray:
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


def mix_waves(own: np.ndarray, other: np.ndarray, weight: float) -> np.ndarray:
    """Mix two waves less their means, as AudioCSE's public code does; the second is cut or
    zero-padded: (n,).
    """
    centred = own - own.mean()
    fitted = np.zeros_like(own)
    fitted[: len(other)] = (other - other.mean())[: len(own)]
    wave: np.ndarray = weight * centred + (1 - weight) * fitted
    return wave


def mask_bands(spectrograms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Set a band of bins and a band of frames of each item (B, T, F) to 0, as AudioCSE's public
    code.

    Widths are uniform below MASKED_BINS of F and MASKED_FRAMES of T, which are 48 bins and 192
    frames at 1,024 x 128, rounded down as in torchaudio's FrequencyMasking and TimeMasking.
    """
    masked = spectrograms.copy()
    for item in masked:
        frames, bins = item.shape
        item[:, _draw_band(bins, MASKED_BINS, rng)] = 0
        item[_draw_band(frames, MASKED_FRAMES, rng)] = 0
    return masked


def _draw_band(size: int, most: float, rng: np.random.Generator) -> slice:
    width = rng.random() * most * size
    start = int(rng.random() * (size - width))
    return slice(start, start + int(width))
