"""The images of captions: files, decoded on access by several threads, and stored features, as MCSE
publishes.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, Self
from unicodedata import normalize

import numpy as np

from harness.arrays import check_features, read_features
from harness.encoders.media import Encoded, Pixels
from harness.errors import RESTORE, UserError
from harness.formatting import first_of
from harness.sources import OWN_FILE, FileSource, Missing, Source, digest, hashes_within, placed
from harness.tables import read_columns

log = logging.getLogger(__name__)
#: endings tried after an image id
ENDINGS = ("", ".jpg", ".jpeg", ".png")
#: value of the option `images` for images inside the captions' Parquet file, and the name of that
#: column
COLUMN = "jpeg"


class CaptionImages(Source):
    """The images of a captions file: files of a folder named by image_id, or the column `jpeg` of
    the file.
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
        self.files = (images,)
        self.captions, self.images, self.how, self._ids, self._named = (
            captions,
            images,
            how,
            ids,
            named,
        )

    def missing(self, root: Path | None) -> list[Missing]:
        absent = self._named.missing(root) if self._named else []
        if self.images == COLUMN or placed(root, self.images).is_dir():
            return absent
        return [*absent, Missing(self.images, f"{self.how}; this teacher needs the image files")]

    def fingerprint(self, root: Path | None) -> str:
        """Hash of names and contents of the images; the column is covered by the fingerprint of the
        captions.
        """
        if self.images == COLUMN:
            return digest("images", COLUMN)

        folder, files = placed(root, self.images), self._files(root)
        names = [path.relative_to(folder).as_posix() for path in files]
        contents = hashes_within(folder, files)
        return digest("images", [list(pair) for pair in zip(names, contents, strict=True)])

    def pixels(self, root: Path | None, count: int) -> Pixels:
        names = cache(lambda: self._names(root))
        return Pixels(self._reader(root), lambda number: names()[number], count)

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
        folder, names = self.require(root) / self.images, self._names(root)
        files = _named(folder, names)
        if absent := [name for name, file in zip(names, files, strict=True) if file is None]:
            stem = _folded(Path(absent[0]).stem)
            similar = [
                file for file in _listed(folder, deep=True) if _folded(Path(file).stem) == stem
            ]
            others = f" and {len(absent) - 1} others of {len(names)}" if absent[1:] else ""
            raise UserError(
                f"{folder} has no image {absent[0]} ({', '.join(ENDINGS[1:])}){others}, which {self.captions} names; "
                f"{f'it has {first_of(similar, 3)}; ' if similar else ''}add the image, or remove its captions"
            )
        return [folder / file for file in files if file is not None]


def _named(folder: Path, names: Sequence[str]) -> list[str | None]:
    """The file of each image, relative to the folder; None if none fits. Raises UserError if
    several do.

    Names may differ in the normal form of Unicode and in capitals.
    """
    files = list(_listed(folder, deep=any("/" in name for name in names)))
    grouped = cache(lambda form: _grouped(files, form))

    def found(name: str) -> str | None:
        for form in (str, _composed, _folded):
            for endings in (ENDINGS[:1], ENDINGS[1:]):
                fits = [
                    file
                    for ending in endings
                    for file in grouped(form).get(form(name + ending), ())
                ]
                if len(fits) > 1:
                    raise UserError(
                        f"{folder} has {' and '.join(fits)} for the image {name}; remove or rename one"
                    )
                if fits:
                    return fits[0]
        return None

    return [found(name) for name in names]


def _grouped(names: Sequence[str], form: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(form(name), []).append(name)
    return groups


def _composed(name: str) -> str:
    return normalize("NFC", name)


def _folded(name: str) -> str:
    return _composed(name).casefold()


def _listed(folder: Path, *, deep: bool) -> Iterator[str]:
    """Paths of the files of a folder, and of its own sub-folders if `deep`; links to other folders
    are not followed.
    """
    for parent, folders, files in os.walk(folder):
        if not deep:
            folders.clear()
        paths = (Path(parent, name) for name in files)
        yield from (path.relative_to(folder).as_posix() for path in paths if path.is_file())


#: transforms of stored features
TRANSFORMS = ("none", "sqrt-standardise")
#: ids, or None if the file has none, and features (rows, f) float32
IdsAndFeatures = tuple[list[str] | None, np.ndarray]


class FeatureFile(FileSource):
    """Stored features of one teacher, of images or captions (`harness.arrays`).

    `ids` is a text file with the id of each row on a line, for a file that has none. The transform
    `sqrt-standardise` takes the signed square root and standardises each dimension over the file
    (mean 0, standard deviation 1), since averages of ReLU outputs are skewed and never negative. Of
    captions, these are the ids of the rows: equal captions have equal features.
    """

    of: Literal["image", "caption"] = "image"

    def __init__(
        self, file: str, how: str = OWN_FILE, transform: str = "none", ids: str | None = None
    ) -> None:
        super().__init__([file, ids] if ids else [file], how)
        if transform not in TRANSFORMS:
            raise UserError(
                f"transform = '{transform}' is unknown; write one of {', '.join(TRANSFORMS)}"
            )
        self.transform = transform

    @classmethod
    def of_tables(
        cls,
        tables: Mapping[str, Mapping[str, str]] | None,
        of: Literal["image", "caption"] = "image",
    ) -> dict[str, Self]:
        """Make feature files from their tables in a profile. Raises UserError for a missing or
        unknown key.
        """
        try:
            files = {name: cls(**table) for name, table in (tables or {}).items()}
        except TypeError as error:
            raise UserError(
                f"a table of features needs file, and may have how, transform and ids: {error}"
            ) from error
        for file in files.values():
            file.of = of
        return files

    def fingerprint(self, root: Path | None) -> str:
        return digest(super().fingerprint(root), self.transform)

    def rows(self, root: Path | None) -> tuple[list[str] | None, int]:
        """Ids and number of the rows of a sound file. Raises UserError."""
        return check_features(self.paths(root)[0], self.of, *self.paths(root)[1:])

    def read(self, root: Path | None) -> IdsAndFeatures:
        ids, values = read_features(self.paths(root)[0], self.of, *self.paths(root)[1:])
        return ids, standardised(values, values) if self.transform == "sqrt-standardise" else values


class StoredFeatures(Mapping[str, np.ndarray]):
    """Features of the images or captions of a corpus by teacher, (rows, f); a file is read on
    access.
    """

    def __init__(
        self,
        files: Mapping[str, FeatureFile],
        root: Path | None,
        ids: Callable[[], Sequence[str] | None],
        images: int = 0,
    ) -> None:
        """`ids` returns the ids of the images in order, or None if they have none; or the captions."""
        self.files, self.root, self.ids, self.images = files, root, ids, images

    def __getitem__(self, teacher: str) -> np.ndarray:
        """Features of the images, (m, f). Raises KeyError, or UserError if the file does not match
        the images.
        """
        ids, values = self.files[teacher].read(self.root)
        rows = self._rows(self.files[teacher], ids, len(values))
        return values if rows is None else values[rows]

    def check(self, teacher: str) -> None:
        """Check a file's features, and its rows against the images. Raises UserError."""
        ids, count = self.files[teacher].rows(self.root)
        rows = self._rows(self.files[teacher], ids, count)
        if self.images and rows is not None and (spare := count - len({*rows.tolist()})):
            log.info(
                "%s: %d of %d rows belong to no captioned image",
                self.files[teacher].files[0],
                spare,
                count,
            )

    def _rows(self, file: FeatureFile, ids: list[str] | None, count: int) -> np.ndarray | None:
        """The row of each image; None if the rows are in the order of the images, which then need
        no ids.
        """
        wanted, name, what = self.ids(), file.files[0], file.of
        if ids is None and what == "image":
            if count != self.images:
                raise UserError(
                    f"{name} has {count} rows for {self.images} captioned images; "
                    "use files made from the same list of images"
                )
            return None
        if ids is None or wanted is None:
            lacks, other = (
                (name, "a file with the caption of each row")
                if wanted
                else ("their captions file", "it")
            )
            raise UserError(
                f"rows of {name} are matched by {what}, which {lacks} does not name; give ids = {other}"
            )
        return _rows_of(file, ids, wanted)

    def __contains__(self, teacher: object) -> bool:
        return teacher in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def standardised(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The signed square root of features (n, f), standardised by mean and deviation of other
    features (m, f).

    The moments are float64: in float32, rounding errors of the mean would look like the deviation
    of a constant dimension.
    """
    known = _rooted(like)
    mean, spread = known.mean(axis=0, dtype=np.float64), known.std(axis=0, dtype=np.float64)
    centred: np.ndarray = _rooted(values) - mean.astype(np.float32)
    return centred / np.where(spread > 0, spread, 1).astype(np.float32)


def _rooted(values: np.ndarray) -> np.ndarray:
    rooted: np.ndarray = np.sign(values) * np.sqrt(np.abs(values))
    return rooted


def _rows_of(file: FeatureFile, ids: list[str], wanted: Sequence[str]) -> np.ndarray:
    """The row of each wanted id. Raises UserError that counts the ids without a row, and images
    with two.
    """
    if file.of == "caption":
        ids, wanted = ([" ".join(text.split()) for text in texts] for texts in (ids, wanted))
    rows = {name: row for row, name in reversed(list(enumerate(ids)))}
    if file.of == "image" and len(rows) < len(ids):
        twice = [name for name, count in Counter(ids).items() if count > 1]
        raise UserError(
            f"{file.files[0]} has {len(twice)} of {len(rows)} image ids twice: {first_of(twice, 3)}; {RESTORE}"
        )
    if absent := [name for name in dict.fromkeys(wanted) if name not in rows]:
        raise UserError(
            f"{file.files[0]} has no features of the {file.of} {absent[0]}, and of {len(absent)} of {len(set(wanted))} "
            f"{file.of}s in all; its ids are {first_of(ids, 3)}; use files made from the same list of {file.of}s"
        )
    return np.array([rows[name] for name in wanted])
