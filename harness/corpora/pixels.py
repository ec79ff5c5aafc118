"""Images of captions, decoded on access."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import overload

import numpy as np

from harness.encoders.pictures import UNREADABLE, Encoded, decoded, described
from harness.errors import UserError
from harness.parquet import read_columns
from harness.sources import Missing, Source, digest

#: images decoded ahead of the teacher
AHEAD = 64
#: endings tried after an image id
SUFFIXES = ("", ".jpg", ".jpeg", ".png")
#: the value of the option `images`, and the column, of images inside the captions' own Parquet file
COLUMN = "jpeg"


class Pixels(Sequence[np.ndarray]):
    """n images, each (h, w, 3) uint8. Slices are lazy; iterating over one decodes in threads, slightly ahead."""

    def __init__(
        self,
        read: Callable[[int], Encoded],
        name: Callable[[int], str],
        rows: np.ndarray | range,
        content: Callable[[], str] = str,
    ) -> None:
        """`read` and `name` return the encoded file and the name of an image number, `rows` lists the numbers.

        `content` returns the fingerprint of images that are not part of the fingerprint of the captions.
        """
        self._read, self._name, self._rows, self.content = read, name, rows, content
        self._waiting: dict[int, Future[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, place: slice) -> SomePixels: ...

    def __getitem__(self, place: int | slice) -> np.ndarray | SomePixels:
        """An image, or a lazy slice. Raises UserError for an image that cannot be decoded."""
        return SomePixels(self, range(len(self))[place]) if isinstance(place, slice) else self._decoded(place)

    def ahead(self, places: range) -> Iterator[np.ndarray]:
        """Yield the images of a range while the next ones are decoded."""
        for place in range(places.start, min(places.stop + AHEAD, len(self))):
            if place not in self._waiting:
                self._waiting[place] = self._pool.submit(self._decoded, place)
        for place in [place for place in self._waiting if place < places.start]:
            self._waiting.pop(place).cancel()
        for place in places:
            yield self._waiting.pop(place).result()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        # Pillow releases the interpreter's lock
        return ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def _decoded(self, place: int) -> np.ndarray:
        number = int(self._rows[place])
        try:
            return decoded(self._read(number))
        except UNREADABLE as error:
            raise UserError(
                f"the image {self._name(number)} cannot be decoded: {described(error)}; replace it or remove its row"
            ) from error


class SomePixels(Sequence[np.ndarray]):
    """A range of `Pixels`."""

    def __init__(self, whole: Pixels, places: range) -> None:
        self._whole, self._places = whole, places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self._whole.ahead(self._places)

    @overload
    def __getitem__(self, place: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, place: slice) -> SomePixels: ...

    def __getitem__(self, place: int | slice) -> np.ndarray | SomePixels:
        if isinstance(place, slice):
            return SomePixels(self._whole, self._places[place])
        return self._whole[self._places[place]]


class CaptionImages(Source):
    """The images of a captions file: files of a folder named by image_id, or the column `jpeg` of the file.

    The fingerprint covers names and sizes: hashing 80,000 files before every command would take minutes.
    """

    def __init__(self, captions: str, images: str, how: str, ids: Callable[[Path | None], list[str] | None]) -> None:
        self.captions, self.images, self.how, self._ids = captions, images, how, ids

    def missing(self, root: Path | None) -> list[Missing]:
        """The folder; nothing if the images are in the captions file."""
        if self.images == COLUMN or (root is not None and (root / self.images).is_dir()):
            return []
        return [Missing(self.images, f"{self.how}; this teacher needs the images themselves")]

    def fingerprint(self, root: Path | None) -> str:
        """Hash of names and sizes of the images; the column is covered by the fingerprint of the captions."""
        if self.images == COLUMN:
            return digest("images", COLUMN)
        return digest("images", [[file.name, file.stat().st_size] for file in self._files(root)])

    def pixels(self, root: Path | None, rows: np.ndarray) -> Pixels:
        """The images with these numbers in the captions file. Files are located on access."""
        names = cache(lambda: self.names(root))
        return Pixels(self._reader(root), lambda number: names()[number], rows, lambda: self.fingerprint(root))

    def names(self, root: Path | None) -> list[str]:
        """The ids of the images. Raises UserError if the captions file has none."""
        ids = self._ids(root)
        if ids is None:
            raise UserError(f"{self.captions} has no image_id to find images by; use a Parquet file with image_id")
        return ids

    def _reader(self, root: Path | None) -> Callable[[int], Encoded]:
        if self.images != COLUMN:
            files = cache(lambda: self._files(root))
            return lambda number: files()[number]
        column = cache(lambda: read_columns((root or Path()) / self.captions, COLUMN).column(COLUMN))
        return lambda number: column()[number].as_py() or b""

    def _files(self, root: Path | None) -> list[Path]:
        folder, files = self.require(root) / self.images, []
        there = {entry.name for entry in os.scandir(folder)}
        for name in self.names(root):
            found = next((name + suffix for suffix in SUFFIXES if name + suffix in there), None)
            if found is None:
                raise UserError(f"{folder} has no image {name} ({', '.join(SUFFIXES[1:])}); fetch the images again")
            files.append(folder / found)
        return files
