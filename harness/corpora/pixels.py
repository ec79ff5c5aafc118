"""Images of captions, decoded on access, several at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import overload

import numpy as np

from harness.datafiles import read_columns
from harness.encoders.media import UNREADABLE, DecodedImages, Encoded, OneImage, decoded, described
from harness.errors import UserError
from harness.processors import cores
from harness.sources import Missing, Source, digest, placed

#: images decoded ahead of the teacher
AHEAD = 512
#: endings tried after an image id
SUFFIXES = ("", ".jpg", ".jpeg", ".png")
#: the value of the option `images`, and the column, of images inside the captions' own Parquet file
COLUMN = "jpeg"


class Decoder:
    """Decodes images by number, in threads slightly ahead of the reader. Raises UserError naming the image."""

    def __init__(self, read: Callable[[int], Encoded], name: Callable[[int], str], count: int) -> None:
        """`read` and `name` return the encoded file and the name of an image number below `count`."""
        self._read, self._name, self.count = read, name, count
        self._waiting: dict[tuple[OneImage, int], Future[np.ndarray]] = {}

    def one(self, number: int) -> np.ndarray:
        """Decode an image: (h, w, 3) uint8."""
        try:
            return decoded(self._read(number))
        except UNREADABLE as error:
            raise UserError(
                f"the image {self._name(number)} cannot be decoded: {described(error)}; replace it or remove its row"
            ) from error

    def several(self, numbers: range, work: OneImage) -> Iterator[np.ndarray]:
        """Yield what `work` makes of images, in order, while threads decode the next ones and work on them."""
        for number in range(numbers.start, min(numbers.stop + AHEAD, self.count)):
            if (work, number) not in self._waiting:
                self._waiting[work, number] = self.pool.submit(self._worked, number, work)
        for done in [key for key in self._waiting if key[0] != work or key[1] < numbers.start]:
            self._waiting.pop(done).cancel()
        for number in numbers:
            yield self._waiting.pop((work, number)).result()

    def _worked(self, number: int, work: OneImage) -> np.ndarray:
        return work(self.one(number))

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """The threads, one a core; Pillow releases the interpreter's lock while it decodes and resizes."""
        return ThreadPoolExecutor(cores())


class Pixels(DecodedImages):
    """n images, each (h, w, 3) uint8. Slices are lazy; iterating over one decodes slightly ahead."""

    def __init__(self, decoder: Decoder, content: Callable[[], str] = str, numbers: range | None = None) -> None:
        """`content` returns the fingerprint of images that are not part of the fingerprint of the captions."""
        self.decoder, self.content = decoder, content
        self._numbers = range(decoder.count) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.worked(_unchanged)

    def worked(self, work: OneImage) -> Iterator[np.ndarray]:
        return self.decoder.several(self._numbers, work)

    @overload
    def __getitem__(self, place: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, place: slice) -> Pixels: ...

    def __getitem__(self, place: int | slice) -> np.ndarray | Pixels:
        if isinstance(place, slice):
            return Pixels(self.decoder, self.content, self._numbers[place])
        return self.decoder.one(self._numbers[place])


def _unchanged(image: np.ndarray) -> np.ndarray:
    return image


class CaptionImages(Source):
    """The images of a captions file: files of a folder named by image_id, or the column `jpeg` of the file.

    The fingerprint covers names and sizes: hashing 80,000 files before every command would take minutes.
    """

    def __init__(
        self,
        captions: str,
        images: str,
        how: str,
        ids: Callable[[Path | None], list[str] | None],
        named: Source | None = None,
    ) -> None:
        """`named` is the file with the ids, if the captions file has none."""
        self.captions, self.images, self.how, self._ids, self._named = captions, images, how, ids, named

    def missing(self, root: Path | None) -> list[Missing]:
        absent = self._named.missing(root) if self._named else []
        if self.images == COLUMN or placed(root, self.images).is_dir():
            return absent
        return [*absent, Missing(self.images, f"{self.how}; this teacher needs the image files")]

    def fingerprint(self, root: Path | None) -> str:
        """Hash of names and sizes of the images; the column is covered by the fingerprint of the captions."""
        if self.images == COLUMN:
            return digest("images", COLUMN)
        return digest("images", [[file.name, file.stat().st_size] for file in self._files(root)])

    def pixels(self, root: Path | None, count: int) -> Pixels:
        names = cache(lambda: self._names(root))
        decoder = Decoder(self._reader(root), lambda number: names()[number], count)
        return Pixels(decoder, lambda: self.fingerprint(root))

    def _names(self, root: Path | None) -> list[str]:
        """The ids of the images. Raises UserError if the captions file has none."""
        ids = self._ids(root)
        if ids is None:
            raise UserError(
                f"{self.captions} has no image_id to find images by; use a Parquet file with image_id, a table with "
                "the images' file names, or a matched file"
            )
        return ids

    def _reader(self, root: Path | None) -> Callable[[int], Encoded]:
        if self.images != COLUMN:
            files = cache(lambda: self._files(root))
            return lambda number: files()[number]
        column = cache(lambda: read_columns(placed(root, self.captions), COLUMN).column(COLUMN))
        return lambda number: column()[number].as_py() or b""

    def _files(self, root: Path | None) -> list[Path]:
        folder, files = self.require(root) / self.images, []
        there = {entry.name for entry in os.scandir(folder) if (Path(entry) if entry.is_symlink() else entry).is_file()}
        for name in self._names(root):
            found = next((name + suffix for suffix in SUFFIXES if name + suffix in there), None)
            if found is None:
                raise UserError(
                    f"{folder} has no image {name} ({', '.join(SUFFIXES[1:])}), which {self.captions} names; add the "
                    "image, or remove its captions"
                )
            files.append(folder / found)
        return files
