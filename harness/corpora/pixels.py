"""Images of captions, decoded when a teacher comes to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np

from harness.corpora.features import first_line
from harness.encoders.pictures import UNREADABLE, Encoded, decoded, described
from harness.errors import MissingData, UserError
from harness.sources import Missing, Source, digest

#: images that are decoded while the teacher looks at those before them
AHEAD = 64
#: what an image file is called where its id has no such ending
SUFFIXES = ("", ".jpg", ".jpeg", ".png")
#: name of the option and the column that means images inside the captions' own Parquet file
COLUMN = "jpeg"


class Pixels(Sequence[np.ndarray]):
    """n images, each (h, w, 3) uint8; a slice is as lazy, and iterating decodes in threads, a little ahead."""

    def __init__(
        self,
        read: Callable[[int], Encoded],
        names: Sequence[str],
        rows: np.ndarray | range,
        content: Callable[[], str] = str,
    ) -> None:
        """`read` gives the file of image `number`, `names` say what it is called, `rows` their numbers in order.

        `content` gives the fingerprint of images that are not part of the captions' own.
        """
        self._read, self._names, self._rows, self.content = read, names, rows, content
        self._waiting: dict[int, Future[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, place: slice) -> Part: ...

    def __getitem__(self, place: int | slice) -> np.ndarray | Part:
        """An image, or some of them. Raises UserError for one that cannot be decoded."""
        return Part(self, range(len(self))[place]) if isinstance(place, slice) else self._decoded(place)

    def ahead(self, places: range) -> Iterator[np.ndarray]:
        """The images of these places; those after them are decoded meanwhile."""
        for place in range(places.start, min(places.stop + AHEAD, len(self))):
            if place not in self._waiting:
                self._waiting[place] = self._pool.submit(self._decoded, place)
        for place in [place for place in self._waiting if place < places.start]:
            self._waiting.pop(place).cancel()
        for place in places:
            yield self._waiting.pop(place).result()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        # Pillow decodes without the interpreter's lock
        return ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def _decoded(self, place: int) -> np.ndarray:
        number = int(self._rows[place])
        try:
            return decoded(self._read(number))
        except UNREADABLE as error:
            raise UserError(
                f"the image {self._names[number]} cannot be decoded: {described(error)}; replace it or remove its row"
            ) from error


class Part(Sequence[np.ndarray]):
    """Consecutive images of a `Pixels`."""

    def __init__(self, whole: Pixels, places: range) -> None:
        self._whole, self._places = whole, places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self._whole.ahead(self._places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Part(self._whole, self._places[place])
        return self._whole[self._places[place]]


class CaptionImages(Source):
    """The images of a captions file: a folder with files named by image_id, or the file's own column `jpeg`.

    Its fingerprint is of names and sizes: hashing 80,000 files before every command would take minutes.
    """

    def __init__(self, captions: str, images: str, how: str, ids: Callable[[Path | None], list[str] | None]) -> None:
        self.captions, self.images, self.how, self._ids = captions, images, how, ids

    def missing(self, root: Path | None) -> list[Missing]:
        """The folder; nothing where the captions file has the images itself."""
        if self.images == COLUMN or (root is not None and (root / self.images).is_dir()):
            return []
        return [Missing(self.images, f"{self.how}; the images themselves are read by this teacher")]

    def fingerprint(self, root: Path | None) -> str:
        """Names and sizes of the captions' images; the column is part of a file that counts already."""
        if self.images == COLUMN:
            return digest("images", COLUMN)
        return digest("images", [[file.name, file.stat().st_size] for file in self._files(root)])

    def pixels(self, root: Path | None, rows: np.ndarray) -> Pixels:
        """The image of each row, of which `rows` gives the number in the file. Files are looked for when asked for."""
        reader = _Column(self, root) if self.images == COLUMN else _Folder(self, root)
        return Pixels(reader, _Names(self, root), rows, lambda: self.fingerprint(root))

    def names(self, root: Path | None) -> list[str]:
        """The images' ids. Raises UserError where the captions file has none."""
        ids = self._ids(root)
        if ids is None:
            raise UserError(f"{self.captions} has no image_id, so its images cannot be told; give a Parquet file")
        return ids

    def _files(self, root: Path | None) -> list[Path]:
        absent = self.missing(root)
        if absent or root is None:
            raise MissingData("; ".join(map(str, absent)))
        folder, files = root / self.images, []
        there = {entry.name for entry in os.scandir(folder)}
        for name in self.names(root):
            found = next((name + suffix for suffix in SUFFIXES if name + suffix in there), None)
            if found is None:
                raise UserError(f"{folder} has no image {name} ({', '.join(SUFFIXES[1:])}); fetch the images again")
            files.append(folder / found)
        return files


class _Names(Sequence[str]):
    def __init__(self, source: CaptionImages, root: Path | None) -> None:
        self._source, self._root = source, root

    @cached_property
    def _names(self) -> list[str]:
        return self._source.names(self._root)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, number: Any) -> Any:
        return self._names[number]


class _Folder:
    def __init__(self, source: CaptionImages, root: Path | None) -> None:
        self._source, self._root = source, root

    @cached_property
    def _files(self) -> list[Path]:
        return self._source._files(self._root)

    def __call__(self, number: int) -> Path:
        return self._files[number]


class _Column:
    def __init__(self, source: CaptionImages, root: Path | None) -> None:
        self._path = (root or Path()) / source.captions

    @cached_property
    def _values(self) -> Any:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException

        try:
            return parquet.read_table(self._path, columns=[COLUMN]).column(COLUMN)
        except (ArrowException, OSError, KeyError) as error:
            raise UserError(f"{self._path} has no column {COLUMN} with images: {first_line(error)}") from error

    def __call__(self, number: int) -> bytes:
        return self._values[number].as_py() or b""
