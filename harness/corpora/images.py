"""The images of captions: files, decoded on access by several threads, and stored features, as MCSE publishes.

A file of features is Parquet (columns image_id and feature), HDF5 (data set `features`), .npy, or safetensors (tensor
`features`), with one row per image.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np

from harness.encoders.media import UNREADABLE, DecodedImages, Encoded, OneImage, decoded, described
from harness.errors import RESTORE, UserError, first_line
from harness.processors import cores
from harness.sources import OWN_FILE, FileSource, Missing, Source, digest, placed
from harness.tables import check_columns, read_columns

#: images decoded ahead of the teacher
AHEAD = 512
#: endings tried after an image id
ENDINGS = ("", ".jpg", ".jpeg", ".png")
#: value of the option `images` for images inside the captions' Parquet file, and the name of that column
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
        """Yield `work` of each image, in order, while threads decode and process the next images."""
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
        """The threads, one per core; Pillow releases the interpreter's lock while it decodes and resizes."""
        return ThreadPoolExecutor(cores())


class Pixels(DecodedImages):
    """n images, each (h, w, 3) uint8. Slices are lazy; iterating over one decodes slightly ahead."""

    def __init__(self, decoder: Decoder, content: Callable[[], str] = str, numbers: range | None = None) -> None:
        """`content` returns the fingerprint of images that the fingerprint of the captions does not cover."""
        self.decoder, self.content = decoder, content
        self._numbers = range(decoder.count) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.worked(_unchanged)

    def worked(self, work: OneImage) -> Iterator[np.ndarray]:
        return self.decoder.several(self._numbers, work)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, index: slice) -> Pixels: ...

    def __getitem__(self, index: int | slice) -> np.ndarray | Pixels:
        if isinstance(index, slice):
            return Pixels(self.decoder, self.content, self._numbers[index])
        return self.decoder.one(self._numbers[index])


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
        return Pixels(decoder, lambda: digest(self.fingerprint(root), *self._times(root)))

    def _times(self, root: Path | None) -> list[int]:
        """The modification times of the image files: one that was replaced may have the same size."""
        return [] if self.images == COLUMN else [file.stat().st_mtime_ns for file in self._files(root)]

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
            file = next((name + suffix for suffix in ENDINGS if name + suffix in there), None)
            if file is None:
                raise UserError(
                    f"{folder} has no image {name} ({', '.join(ENDINGS[1:])}), which {self.captions} names; add the "
                    "image, or remove its captions"
                )
            files.append(folder / file)
        return files


#: transforms of stored features, and endings of their files
TRANSFORMS = ("none", "sqrt-standardise")
FORMATS = (".h5", ".hdf5", ".npy", ".parquet", ".safetensors")
#: image ids, or None if the file has none, and features (images, f) float32
IdsAndFeatures = tuple[list[str] | None, np.ndarray]


class FeatureFile(FileSource):
    """Stored features of one teacher.

    The transform `sqrt-standardise` takes the signed square root and standardises each dimension over the file
    (mean 0, standard deviation 1), since averages of ReLU outputs are skewed and never negative.
    """

    def __init__(self, file: str, how: str = OWN_FILE, transform: str = "none") -> None:
        super().__init__([file], how)
        if transform not in TRANSFORMS:
            raise UserError(f"transform = '{transform}' is unknown; write one of {', '.join(TRANSFORMS)}")
        self.transform = transform

    @classmethod
    def of(cls, table: Mapping[str, str]) -> FeatureFile:
        """Make a feature file from its table in a profile. Raises UserError for a missing or unknown key."""
        try:
            return cls(**table)
        except TypeError as error:
            raise UserError(f"a table of features needs file, and may have how and transform: {error}") from error

    def fingerprint(self, root: Path | None) -> str:
        return digest(super().fingerprint(root), self.transform)

    def rows(self, root: Path | None) -> tuple[bool, int]:
        """Whether the rows have ids, and the number of rows; features are not read. Raises UserError."""
        path = self._path(root)
        with _plain_errors(path):
            if path.suffix == ".parquet":
                return True, check_columns(path, "image_id", "feature")
            with _matrix(path) as (rows, _):
                return False, rows

    def read(self, root: Path | None) -> IdsAndFeatures:
        path, ids = self._path(root), None
        with _plain_errors(path):
            if path.suffix == ".parquet":
                table = read_columns(path, "image_id", "feature")
                ids = [str(name) for name in table.column("image_id").to_pylist()]
                values = np.stack(table.column("feature").to_numpy()).astype(np.float32)
            else:
                with _matrix(path) as (_, stored):
                    values = _numbers(stored[:])
        if values.ndim != 2 or not values.size or not np.isfinite(values).all():
            raise UserError(f"{path} is not a matrix of finite numbers; {RESTORE}")
        return ids, standardised(values, values) if self.transform == "sqrt-standardise" else values

    def _path(self, root: Path | None) -> Path:
        path = self.paths(root)[0]
        if path.suffix not in FORMATS:
            raise UserError(f"{path} is not a feature file; convert it to one of {', '.join(FORMATS)}")
        return path


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, TypeError, RuntimeError, LookupError, MemoryError) as error:
        raise UserError(f"the feature file {path} cannot be read: {first_line(error)}; {RESTORE}") from error


class StoredFeatures(Mapping[str, np.ndarray]):
    """Features of the images of a corpus by teacher, (images, f); a file is read on access."""

    def __init__(
        self, files: Mapping[str, FeatureFile], root: Path | None, ids: Callable[[], list[str] | None], images: int
    ) -> None:
        """`ids` returns the ids of the images in order, or None if they have none."""
        self.files, self.root, self.ids, self.images = files, root, ids, images

    def __getitem__(self, teacher: str) -> np.ndarray:
        """Features of the images, (m, f). Raises KeyError, or UserError if the file does not match the images."""
        file = self.files[teacher]
        ids, values = file.read(self.root)
        if ids is not None and (wanted := self.ids()) is not None:
            values = values[_rows_of(file, ids, wanted)]
        else:
            self._check_count(file, len(values))
        return values

    def check(self, teacher: str) -> None:
        """Compare a file's columns and number of rows with the images; its features are not read. Raises UserError."""
        file = self.files[teacher]
        has_ids, rows = file.rows(self.root)
        if not has_ids or self.ids() is None:
            self._check_count(file, rows)

    def _check_count(self, file: FeatureFile, rows: int) -> None:
        if rows != self.images:
            raise UserError(
                f"{file.files[0]} has {rows} rows for {self.images} captioned images; "
                "use files made from the same list of images"
            )

    def __contains__(self, teacher: object) -> bool:
        return teacher in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def standardised(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The signed square root of features (n, f), standardised by mean and deviation of other features (m, f).

    The moments are float64: in float32, rounding errors of the mean would look like the deviation of a constant
    dimension.
    """
    known = _rooted(like)
    mean, spread = known.mean(axis=0, dtype=np.float64), known.std(axis=0, dtype=np.float64)
    centred: np.ndarray = _rooted(values) - mean.astype(np.float32)
    return centred / np.where(spread > 0, spread, 1).astype(np.float32)


def _rooted(values: np.ndarray) -> np.ndarray:
    rooted: np.ndarray = np.sign(values) * np.sqrt(np.abs(values))
    return rooted


def _rows_of(file: FeatureFile, ids: list[str], wanted: list[str]) -> np.ndarray:
    rows = {name: row for row, name in enumerate(ids)}
    if len(rows) != len(ids):
        raise UserError(f"{file.files[0]} has an image_id twice; {RESTORE}")
    try:
        return np.array([rows[name] for name in wanted])
    except KeyError as error:
        raise UserError(
            f"{file.files[0]} has no features of the image {error.args[0]}; use files made from the same list of images"
        ) from error


@contextmanager
def _matrix(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number of rows of a file without ids, and its features, read from disk when sliced."""
    if path.suffix == ".npy":
        values = _mapped(path)
        yield len(values), values
    elif path.suffix == ".safetensors":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                _check_entries(list(file.keys()))
                values = file.get_slice("features")
                yield values.get_shape()[0], values
        except SafetensorError as error:
            raise ValueError(str(error)) from error
    else:
        import h5py

        with h5py.File(path) as file:
            _check_entries(list(file))
            yield len(file["features"]), file["features"]


def _mapped(path: Path) -> np.ndarray:
    """Map a .npy file, so that a wrong shape in its header cannot allocate memory. Raises ValueError."""
    try:
        mapped: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError("it is no .npy file of numbers, or shorter than its shape says") from error
    return mapped


def _check_entries(names: Sequence[str]) -> None:
    if "features" not in names:
        raise ValueError(f"no 'features' among {', '.join(sorted(names)) or 'no entries'}")


def _numbers(values: np.ndarray) -> np.ndarray:
    """Convert to float32. Raises ValueError for texts, complex numbers and objects."""
    if values.dtype.kind not in "fiub":
        raise ValueError(f"it holds {values.dtype}, not real numbers")
    return np.asarray(values, dtype=np.float32)
