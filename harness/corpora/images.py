"""The images of captions: files, decoded on access by several threads, and stored features, as MCSE
publishes.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, Self
from unicodedata import normalize

import numpy as np

from harness.arrays import account_for_arrays, check_features, read_features
from harness.caches import read_or_make_note
from harness.census import account_for
from harness.columnar import read_columns
from harness.corpora.caption_layouts import ReadCaptions
from harness.datafiles import list_parts
from harness.encoders.media import (
    IMAGE_SUFFIXES,
    UNREADABLE,
    Encoded,
    Pixels,
    describe_image_error,
    open_image,
)
from harness.errors import RESTORE, UserError
from harness.formatting import first_of
from harness.sources import (
    OWN_FILE,
    FileSource,
    Findings,
    Missing,
    Source,
    digest,
    hash_file,
    hash_files_within,
    hash_named_files,
    resolve_path,
)

#: endings tried after an image id
ENDINGS = ("", *IMAGE_SUFFIXES)
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
        read: Callable[[Path | None], ReadCaptions],
        named: Source | None = None,
    ) -> None:
        """`read` reads the captions with the ids of their images; `named` is the file with the ids,
        if the captions file has none.
        """
        self.files = (images,)
        self.captions = captions
        self.images = images
        self.how = how
        self._read = read
        self._named = named

    def missing(self, root: Path | None) -> list[Missing]:
        absent = self._named.missing(root) if self._named else []
        if self.images == COLUMN or resolve_path(root, self.images).is_dir():
            return absent
        return [*absent, Missing(self.images, f"{self.how}; this teacher needs the image files")]

    def fingerprint(self, root: Path | None) -> str:
        """Hash of names and contents of the images; the column is covered by the fingerprint of the
        captions.
        """
        if self.images == COLUMN:
            return digest("images", COLUMN)
        folder = resolve_path(root, self.images)
        return digest("images", hash_named_files(folder, self._find_image_files(root)))

    def examined(self, root: Path | None) -> Findings:
        """Count the images, and the other files of their folder."""
        if self.images == COLUMN:
            return Findings()

        folder = resolve_path(root, self.images)
        files = self._find_image_files(root)
        names = {path.relative_to(folder).as_posix() for path in files}
        unread = sorted(name for name in _list_paths(folder, deep=True) if name not in names)
        accounts = account_for("files", sorted(names), "read")
        accounts += account_for("files", unread, "left out", "no caption names them")
        return Findings(images=len(files), accounts=accounts)

    def hash_contents(self, root: Path | None) -> list[str]:
        """SHA-256 (hex) of the bytes of each image."""
        if self.images != COLUMN:
            return hash_files_within(resolve_path(root, self.images), self._find_image_files(root))

        path = resolve_path(root, self.captions)
        key = digest("contents of images", *map(hash_file, list_parts(path)))

        def compute() -> dict[str, list[str]]:
            cells = read_columns(path, COLUMN).column(COLUMN)
            return {"sha256": [hashlib.sha256(cell.as_py() or b"").hexdigest() for cell in cells]}

        note = read_or_make_note(f"images/{key}.json", "the images will be hashed again", compute)
        return list(note["sha256"])

    def measure_sizes(self, root: Path | None) -> list[tuple[int, int]]:
        """Width and height of each image in pixels, kept by the contents of all. Raises UserError
        for one that cannot be opened.
        """

        def compute() -> dict[str, list[tuple[int, int]]]:
            return {"sizes": [_measure_size(file) for file in self._find_image_files(root)]}

        key = digest("sizes of images", self.fingerprint(root))
        note = read_or_make_note(f"images/{key}.json", "the images will be opened again", compute)
        return [(width, height) for width, height in note["sizes"]]

    def pixels(self, root: Path | None, count: int) -> Pixels:
        names = cache(lambda: self._require_ids(self._read(root)))
        return Pixels(self._make_image_reader(root), lambda number: names()[number], count)

    def exclude_missing(self, root: Path | None, read: ReadCaptions) -> ReadCaptions:
        """The captions of images that have a file, with an account of the others. Raises UserError
        if none has.
        """
        ids = self._require_ids(read)
        if self.images == COLUMN:
            return read

        folder = resolve_path(root, self.images)
        present = []
        absent = []
        texts = []
        files = find_files(folder, ids, read.stated_paths)
        for name, captions, file in zip(ids, read.texts, files, strict=True):
            if file is None:
                absent.append(name)
            else:
                present.append(name)
                texts.append(captions)

        if not present:
            raise UserError(
                f"{folder} has none of the {len(ids)} images that {self.captions} "
                f"names, such as {ids[0]}; correct the folder, or the column of the images"
            )

        why = "no such file, missing_images = 'skip'"
        accounts = read.accounts + account_for("images", absent, "left out", why)
        return replace(read, ids=present, texts=texts, accounts=accounts)

    def _require_ids(self, read: ReadCaptions) -> list[str]:
        """The ids of the images. Raises UserError if the captions file has none."""
        if read.ids is None:
            raise UserError(
                f"{self.captions} has no image_id to find images by; use a Parquet file with image_id, a table with "
                "the images' file names, a matched file, or a list of the images, one for each line: image_list = '...'"
            )
        return read.ids

    def _make_image_reader(self, root: Path | None) -> Callable[[int], Encoded]:
        # files are looked for, and the column is read, once an image is asked for
        if self.images != COLUMN:
            files = cache(lambda: self._find_image_files(root))
            return lambda number: files()[number]
        column = cache(
            lambda: read_columns(resolve_path(root, self.captions), COLUMN).column(COLUMN)
        )
        return lambda number: column()[number].as_py() or b""

    def _find_image_files(self, root: Path | None) -> list[Path]:
        folder = self.require(root) / self.images
        read = self._read(root)
        names = self._require_ids(read)

        files = []
        absent = []
        for name, file in zip(names, find_files(folder, names, read.stated_paths), strict=True):
            if file is None:
                absent.append(name)
            else:
                files.append(folder / file)

        if absent:
            raise UserError(
                f"{folder} has no image {_describe_absent(absent, names)}, which {self.captions} names; "
                f"{_describe_similar(folder, absent[0])}add the image, remove its captions, or leave "
                "out what is missing: missing_images = 'skip'"
            )
        return files


def _describe_absent(absent: Sequence[str], names: Sequence[str]) -> str:
    described = f"{absent[0]} ({', '.join(ENDINGS[1:])})"
    if len(absent) == 1:
        return described
    return f"{described} and {len(absent) - 1} others of {len(names)}"


def _describe_similar(folder: Path, name: str) -> str:
    """The files of a folder whose names are like that of an absent image, for a message."""
    stem = _apply_casefold(Path(name).stem)
    paths = _list_paths(folder, deep=True)
    similar = [path for path in paths if _apply_casefold(Path(path).stem) == stem]
    return f"it has {first_of(similar, 3)}; " if similar else ""


def _measure_size(file: Path) -> tuple[int, int]:
    try:
        with open_image(file) as image:
            return image.size
    except UNREADABLE as error:
        raise UserError(
            f"the image {file} cannot be opened: {describe_image_error(error)}; replace it or remove its rows"
        ) from error


def check_missing_images(how: str, images: str | None) -> str:
    """Return the value of a profile's key `missing_images`. Raises UserError."""
    if how not in ("refuse", "skip"):
        raise UserError(f"missing_images = '{how}' is unknown; write 'refuse' or 'skip'")
    if how == "skip" and images is None:
        raise UserError("missing_images = 'skip' needs the folder of the images; name it: images")
    return how


def find_files(
    folder: Path, names: Sequence[str], stated_paths: Mapping[str, str]
) -> list[str | None]:
    """The file of each image, relative to the folder; None if none fits. Raises UserError if
    several do.

    A file at the place that is stated for an image comes first. Names may differ from those of
    files in the normal form of Unicode and in capitals, and an address stands for the file at its
    end. A file has one name: what fits another name better is no file of this one.
    """
    is_deep = any("/" in name for name in (*names, *stated_paths.values()))
    finder = _Finder(folder, list(_list_paths(folder, deep=is_deep)))
    matches = [finder.find(name, stated_paths.get(name, name)) for name in names]
    rivals_for: dict[str, list[tuple[int, str]]] = {}
    for name, match in zip(names, matches, strict=True):
        if match is not None:
            rivals_for.setdefault(match.file, []).append((match.distance, name))

    owners = {}
    for file, rivals in rivals_for.items():
        rivals.sort()
        distance, owner = rivals[0]
        if len(rivals) > 1 and rivals[1][0] == distance:
            raise UserError(
                f"{folder}: the file {file} fits the images {owner} and {rivals[1][1]} alike; "
                "give each image a file of its name"
            )
        owners[file] = owner

    files: list[str | None] = []
    for name, match in zip(names, matches, strict=True):
        is_own = match is not None and owners[match.file] == name
        files.append(match.file if match is not None and is_own else None)
    return files


class _Match(NamedTuple):
    """A file that fits a name, and how far its name is from it: 0 for the same."""

    file: str
    distance: int


class _Finder:
    """Looks for files of a folder by names that may be spelled otherwise."""

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self.folder = folder
        self.files = files
        self._by_form: dict[Callable[[str], str], dict[str, list[str]]] = {}

    def find(self, name: str, place: str) -> _Match | None:
        """The nearest file. Raises UserError if several are equally near."""
        distance = 0
        for spelling in dict.fromkeys((place, name, _end_of_address(name))):
            for form in (str, _apply_nfc, _apply_casefold):
                for endings in (ENDINGS[:1], ENDINGS[1:]):
                    files = self._find_fitting(spelling, form, endings)
                    if len(files) > 1:
                        raise UserError(
                            f"{self.folder} has {' and '.join(files)} for the image {name}; remove or rename one"
                        )
                    if files:
                        return _Match(files[0], distance)
                    distance += 1
        return None

    def _find_fitting(
        self, name: str, form: Callable[[str], str], endings: Sequence[str]
    ) -> list[str]:
        if form not in self._by_form:
            self._by_form[form] = _group_by_form(self.files, form)
        files = []
        for ending in endings:
            files += self._by_form[form].get(form(name + ending), [])
        return files


def _end_of_address(name: str) -> str:
    """The file's name at the end of an address of the web; any other name as it is."""
    return name.partition("?")[0].rpartition("/")[2] if "://" in name else name


def _group_by_form(names: Sequence[str], form: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(form(name), []).append(name)
    return groups


def _apply_nfc(name: str) -> str:
    return normalize("NFC", name)


def _apply_casefold(name: str) -> str:
    return _apply_nfc(name).casefold()


def _list_paths(folder: Path, *, deep: bool) -> Iterator[str]:
    """Paths of the files of a folder, and of its own sub-folders if `deep`; links to other folders
    are not followed.
    """
    for parent, folders, names in os.walk(folder):
        if not deep:
            folders.clear()
        for name in names:
            path = Path(parent, name)
            if path.is_file():
                yield path.relative_to(folder).as_posix()


#: what a stored feature describes
Described = Literal["image", "caption", "region"]
#: transforms of stored features
TRANSFORMS = ("none", "sqrt-standardise")
#: ids, or None if the file has none, and features (rows, f) float32
IdsAndFeatures = tuple[list[str] | None, np.ndarray]


class FeatureFile(FileSource):
    """Stored features of one teacher, of images, captions or regions (`harness.arrays`).

    `ids` is a text file with the id of each row on a line, for a file that has none. The transform
    `sqrt-standardise` takes the signed square root and standardises each dimension over the file
    (mean 0, standard deviation 1), since averages of ReLU outputs are skewed and never negative. Of
    captions, these are the ids of the rows: equal captions have equal features.
    """

    of: Described = "image"

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
    def from_tables(
        cls,
        tables: Mapping[str, Mapping[str, str]] | None,
        of: Described = "image",
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

    def examine(self, root: Path | None) -> Findings:
        _, count = self.check_rows(root)
        accounts = account_for_arrays(self.paths(root)[0], self.of)
        return Findings(count, accounts=accounts)

    def check_rows(self, root: Path | None) -> tuple[list[str] | None, int]:
        """Ids and number of the rows of a sound file. Raises UserError."""
        return check_features(self.paths(root)[0], self.of, *self.paths(root)[1:])

    def read(self, root: Path | None) -> IdsAndFeatures:
        ids, values = read_features(self.paths(root)[0], self.of, *self.paths(root)[1:])
        if self.transform == "sqrt-standardise":
            values = transform_features(values, values)
        return ids, values


class StoredFeatures(Mapping[str, np.ndarray]):
    """Features of the images, captions or regions of a corpus by teacher, (rows, f); a file is
    read on access.
    """

    def __init__(
        self,
        files: Mapping[str, FeatureFile],
        root: Path | None,
        ids: Callable[[], Sequence[str] | None],
        images: int = 0,
        doubt: str = "",
    ) -> None:
        """`ids` returns the ids of the images in order, or None if they have none; or the captions,
        or the ids of the regions.

        `doubt` says how the order of the images is in doubt, if it is.
        """
        self.files = files
        self.root = root
        self.ids = ids
        self.images = images
        self.doubt = doubt

    def __getitem__(self, teacher: str) -> np.ndarray:
        """Features of the images, (m, f). Raises KeyError, or UserError if the file does not match
        the images.
        """
        ids, values = self.files[teacher].read(self.root)
        rows = self._match_rows(self.files[teacher], ids, len(values))
        return values if rows is None else values[rows]

    def check(self, teacher: str) -> int:
        """Check a file's features, and its rows against the images; the number of rows that belong
        to none. Raises UserError.
        """
        ids, count = self.files[teacher].check_rows(self.root)
        rows = self._match_rows(self.files[teacher], ids, count)
        return 0 if rows is None else count - len({*rows.tolist()})

    def _match_rows(
        self, file: FeatureFile, ids: list[str] | None, count: int
    ) -> np.ndarray | None:
        """The row of each image; None if the rows are in the order of the images, which then need
        no ids.
        """
        corpus_ids = self.ids()
        name = file.files[0]
        kind = file.of

        # rows without ids are those of the images, in order
        if ids is None and kind == "image":
            if count != self.images:
                raise UserError(
                    f"{name} has {count} rows for {self.images} captioned images; "
                    "use files made from the same list of images"
                )
            if self.doubt:
                raise UserError(
                    f"{name} has no ids, and the order of the captions' files is in doubt: {self.doubt}; "
                    "give ids = '...', a text file with the image of each row of features"
                )
            return None

        if corpus_ids is None:
            raise UserError(
                f"rows of {name} are matched by {kind}, which their captions file does not name; give the captions "
                "image_list = '...', a text file with the image of each line, or remove the ids of the features"
            )
        if ids is None:
            raise UserError(
                f"rows of {name} are matched by {kind}, which it does not name; give ids = '...', a text file "
                f"with the {kind} of each row"
            )
        return _find_feature_rows(file, ids, corpus_ids)

    def __contains__(self, teacher: object) -> bool:
        return teacher in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def transform_features(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The signed square root of features (n, f), standardised by mean and deviation of other
    features (m, f).

    The moments are float64: in float32, rounding errors of the mean would look like the deviation
    of a constant dimension.
    """
    roots = _compute_signed_roots(like)
    mean = roots.mean(axis=0, dtype=np.float64)
    deviation = roots.std(axis=0, dtype=np.float64)
    divisor = np.where(deviation > 0, deviation, 1)
    centred = _compute_signed_roots(values) - mean.astype(np.float32)
    return np.asarray(centred / divisor.astype(np.float32))


def _compute_signed_roots(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def _find_feature_rows(file: FeatureFile, ids: list[str], corpus_ids: Sequence[str]) -> np.ndarray:
    """The row of each id of a corpus. Raises UserError that counts the ids without a row, and
    images with two.
    """
    name = file.files[0]
    kind = file.of
    if kind == "caption":
        ids = [" ".join(text.split()) for text in ids]
        corpus_ids = [" ".join(text.split()) for text in corpus_ids]

    rows = dict[str, int]()
    for row, row_id in enumerate(ids):
        rows.setdefault(row_id, row)
    # equal captions have equal features
    if kind != "caption" and len(rows) < len(ids):
        repeated = [row_id for row_id, count in Counter(ids).items() if count > 1]
        raise UserError(
            f"{name} has {len(repeated)} of {len(rows)} {kind} ids twice: {first_of(repeated, 3)}; {RESTORE}"
        )

    absent = [row_id for row_id in dict.fromkeys(corpus_ids) if row_id not in rows]
    if absent:
        raise UserError(
            f"{name} has no features of the {kind} {absent[0]}, and of {len(absent)} of {len(set(corpus_ids))} "
            f"{kind}s in all; its ids are {first_of(ids, 3)}; use files made from the same list of {kind}s"
        )
    return np.array([rows[row_id] for row_id in corpus_ids])
