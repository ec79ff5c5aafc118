"""Labelled images that belong to no sentence: a Parquet file, or a folder with one folder per
class.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.caches import read_or_make_note
from harness.census import (
    Account,
    account_for,
    account_for_number,
    check_unread_files,
    is_ignored,
)
from harness.columnar import read_columns
from harness.columns import DefaultColumn, account_for_columns
from harness.corpora.base import PLANNED_BYTES, CorpusSource, Media, check_positive
from harness.datafiles import find_part, list_parts
from harness.datarows import TablePart, check_parts, read_column_names
from harness.encoders.media import (
    DECODING,
    IMAGE_SUFFIXES,
    UNREADABLE,
    VIEWS_VERSION,
    Encoded,
    decode_image,
    describe_image_error,
    is_image_file,
    open_image,
)
from harness.errors import UserError
from harness.formatting import first_of
from harness.processors import count_cores
from harness.remarks import check_no_label, list_label_remarks
from harness.seeds import make_generator
from harness.sources import (
    OWN_FILE,
    Findings,
    Missing,
    digest,
    hash_named_files,
    list_absent,
    list_ignorable_patterns,
    list_versions,
    resolve_path,
)

if TYPE_CHECKING:
    from torch import Tensor

    from harness.encoders.vision import Augmentation, DrawnView

log = logging.getLogger(__name__)
#: the columns of a table of labelled images
_DEFAULTS = (
    *(DefaultColumn(name, "pictures") for name in ("image", "jpeg")),
    *(DefaultColumn(name, "names") for name in ("label", "label_name")),
)
#: what systems keep in folders for themselves: archives of macOS, previews of network disks
_SYSTEM = ("__MACOSX", "@eaDir", "Thumbs.db", "desktop.ini", "$RECYCLE.BIN")


class AugmentedImages(Media):
    """Images, augmented when a batch needs them: pixels, (n, h, w, 3) uint8, or encoded ones, which
    are decoded.
    """

    def __init__(
        self,
        items: Sequence[Encoded] | np.ndarray,
        labels: np.ndarray,
        augmentation: Augmentation,
        warnings: Sequence[str] = (),
    ) -> None:
        self.items = items
        self.labels = labels
        self._augmentation = augmentation
        self.warnings = warnings
        self.costly = not isinstance(items, np.ndarray)

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        views = []
        for row in rows:
            views += self._draw_views(int(row), rng)
        pixels = self._augmentation.change_colours(views)
        return {"pixels": pixels.view(len(rows), 2, *pixels.shape[1:])}

    def _draw_views(self, row: int, rng: np.random.Generator) -> list[DrawnView]:
        item = self.items[row]
        try:
            image = item if isinstance(item, np.ndarray) else open_image(item)
            return self._augmentation.draw_views(image, rng)
        except UNREADABLE as error:
            name = str(item) if isinstance(item, Path) else f"number {row + 1}"
            raise UserError(
                f"the labelled image {name} cannot be decoded: {describe_image_error(error)}; remove or replace it"
            ) from error


class LabelledImages(CorpusSource):
    """A Parquet file with columns `jpeg` (or `image`) and `label` (or `label_name`), or a folder
    with one per class.

    `per_class` keeps that many images of each class, drawn by `sample_seed`. With `labelled =
    false` every image has a class of its own, and SupCon becomes SimCLR. All images are decoded
    once when first loaded. Up to `bad` unreadable ones are replaced, with their labels, by the next
    readable image, and listed in the run's warnings.

    In folders, hidden files and folders are left out, and so is what is no image. Images beside the
    folders of the classes, or in folders within them, are refused unless `ignore` names them, by
    patterns of paths such as 'cat/thumbs/*'; `nested = true` adds the latter to the class. Of a
    table, `split` selects rows, and rows with the label `no_label` are left out.
    """

    stream = "images"

    def __init__(
        self,
        path: str,
        how: str = OWN_FILE,
        size: int = 224,
        labelled: bool = True,
        per_class: int | None = None,
        sample_seed: int = 0,
        bad: int = 0,
        nested: bool = False,
        split: str | None = None,
        no_label: str | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        check_positive("per_class", per_class)
        self.path = path
        self.how = how
        self.size = size
        self.labelled = labelled
        self.per_class = per_class
        self.sample_seed = sample_seed
        self.bad = bad
        self.nested, self.ignore = nested, tuple(ignore)
        self.split = split
        self.no_label = no_label

    def missing(self, root: Path | None) -> list[Missing]:
        return list_absent(root, self.path, self.how, folder=True)

    def fingerprint(self, root: Path | None) -> str:
        """Hash of names and contents of the images, the options and the version of the
        augmentation.

        `bad` is left out, since it does not change results.
        """
        path = resolve_path(self.require(root), self.path)
        contents = hash_named_files(path.parent, self._list_image_files(path))
        options: list[object] = [self.size, self.labelled, self.per_class, self.sample_seed]
        if self.split is not None:
            options += ["split", self.split]
        if self.no_label:
            options += ["no label", self.no_label]
        return digest(VIEWS_VERSION, contents, *options)

    def examined(self, root: Path | None) -> Findings:
        """Decode the images of a corpus of at most PLANNED_BYTES; of a larger one, check the
        folders of its classes.
        """
        path = resolve_path(self.require(root), self.path)
        if path.is_dir():
            folder = read_class_folders(path, nested=self.nested)
            accounts = folder.account_for_files(
                self.ignore, list_ignorable_patterns(self.how, self.ignore)
            )
            labels = _load_folder(path, nested=self.nested)[1].tolist()
        else:
            table = _load_labels(path, self.split, self.no_label)
            why = f"no_label = '{self.no_label}'"
            accounts = _account_for_table(path, self.split, self.ignore)
            accounts += account_for_number("rows", table.unlabelled, why)
            labels = table.labels

        # a large corpus is decoded once, when it is first loaded
        if sum(file.stat().st_size for file in self._list_image_files(path)) <= PLANNED_BYTES:
            self._load_images(root)

        names = {str(label) for label in labels}
        if self.labelled and len(names) < 2:
            raise UserError(
                f"{path} has one class only, {first_of(sorted(names), 1)}; give two classes, or write "
                "labelled = false, which makes each image a class of its own"
            )

        remarks = list_label_remarks(labels) if self.labelled else ()
        rows = len(self._sample(np.array(labels)))
        not_drawn = len(labels) - rows
        accounts += account_for_number("images", not_drawn, f"per_class = {self.per_class}")
        return Findings(rows, remarks, rows, accounts=accounts)

    def _list_image_files(self, path: Path) -> list[Path]:
        if path.is_dir():
            return read_class_folders(path, nested=self.nested).images
        return list_parts(path)

    def load(self, root: Path | None) -> AugmentedImages:
        # imports torch, which planning does not need
        from harness.encoders.vision import Augmentation

        items, labels, warnings = self._load_images(root)
        return AugmentedImages(items, labels, Augmentation(self.size), warnings)

    def _load_images(self, root: Path | None) -> tuple[list[Encoded], np.ndarray, list[str]]:
        """Readable images with their labels, and a warning about the others. Raises UserError."""
        path = resolve_path(self.require(root), self.path)
        if path.is_dir():
            items, classes = _load_folder(path, nested=self.nested)
        else:
            items, classes = _load_table(path, self.split, self.no_label)

        rows = self._sample(classes)
        labels = np.arange(len(rows))
        if self.labelled:
            _, labels = np.unique(classes[rows], return_inverse=True)

        images = []
        names = []
        for row in rows:
            item = items[row]
            images.append(item)
            is_file = isinstance(item, Path)
            names.append(item.relative_to(path).as_posix() if is_file else f"row {row + 1}")

        order, warnings = self._replace_unreadable(images, names, self.fingerprint(root))
        return [images[row] for row in order], labels.astype(np.int64)[order], warnings

    def _sample(self, classes: np.ndarray) -> np.ndarray:
        """The rows that are drawn of each class, ascending."""
        if self.per_class is None:
            return np.arange(len(classes))
        order = make_generator(axis="sample images", seed=self.sample_seed).permutation(
            len(classes)
        )
        rows = [order[classes[order] == name][: self.per_class] for name in np.unique(classes)]
        return np.sort(np.concatenate(rows))

    def _replace_unreadable(
        self, items: Sequence[Encoded], names: Sequence[str], key: str
    ) -> tuple[np.ndarray, list[str]]:
        """Map each of n images to itself, or to the next readable one, wrapping at the end: (n,),
        and a warning.

        Raises UserError for more than `bad` unreadable images, naming the first of them.
        """
        faults = _find_unreadable(items, key)
        order = np.arange(len(items))
        if not faults:
            return order, []

        count = len(faults)
        problem = f"{self.path}: {count} of {len(items)} images cannot be decoded"
        listed = first_of([f"{names[row]} ({fault})" for row, fault in faults.items()], 5, "; ")
        if count > self.bad or count == len(items):
            raise UserError(
                f"{problem}: {listed}; remove or replace them, or set bad = {count} for the corpus to use the next "
                "images in their place"
            )

        warning = f"{problem} and are replaced by the next ones: {listed}"
        log.warning(warning)
        readable = np.delete(order, list(faults))
        places = np.searchsorted(readable, order) % len(readable)
        return readable[places], [warning]


def _find_unreadable(items: Sequence[Encoded], key: str) -> Mapping[int, str]:
    """Why images cannot be decoded, by number of the image; cached by `key`, which identifies the
    content.
    """
    note = f"readable/{digest('what is readable', DECODING, list_versions('pillow'), key)}.json"

    def decode() -> dict[str, dict[int, str]]:
        # Pillow releases the interpreter's lock
        with ThreadPoolExecutor(count_cores()) as pool:
            faults = list(pool.map(_explain_unreadable, items))
        return {"unreadable": {row: fault for row, fault in enumerate(faults) if fault}}

    unreadable = read_or_make_note(note, "the images will be decoded again", decode)["unreadable"]
    return {int(row): fault for row, fault in unreadable.items()}


def _explain_unreadable(item: Encoded) -> str:
    """Why an image cannot be decoded; '' for a readable one."""
    try:
        decode_image(item)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno:
            raise UserError(f"an image cannot be read: {error}; check its folder") from error
        return describe_image_error(error)
    return ""


class _Labels(NamedTuple):
    """The rows of a table that are read, with their labels, and how many rows have none."""

    rows: list[int]
    labels: list[Any]
    unlabelled: int


def _load_labels(path: Path, split: str | None, no_label: str | None) -> _Labels:
    """Read the labels of a table, without its images. Raises UserError."""
    part = TablePart.parse(split)
    _, label_column = _find_label_columns(path)
    columns = [label_column] if part is None else [label_column, part.column]
    table = read_columns(path, *columns)
    labels = table.column(0).to_pylist()
    rows = list(range(len(labels)))
    if part is not None:
        values = list(map(str, table.column(1).to_pylist()))
        check_parts(path, part, Counter(values))
        rows = [row for row in rows if values[row] in part.values]

    _check_filled(path, labels, rows)
    check_no_label(path, [labels[row] for row in rows], no_label)
    labelled = [row for row in rows if not no_label or str(labels[row]) != no_label]
    return _Labels(labelled, [labels[row] for row in labelled], len(rows) - len(labelled))


def _load_table(
    path: Path, split: str | None, no_label: str | None
) -> tuple[list[Encoded], np.ndarray]:
    """Encoded images and their labels. Raises UserError."""
    read = _load_labels(path, split, no_label)
    image_column, _ = _find_label_columns(path)
    column = read_columns(path, image_column).column(0)

    items = dict[int, Encoded]()
    for row in read.rows:
        image = column[row].as_py()
        # `datasets` saves bytes with their path
        items[row] = image["bytes"] if isinstance(image, dict) else image

    _check_filled(path, items, read.rows)
    return list(items.values()), np.array(read.labels)


def _check_filled(path: Path, values: Sequence[Any] | Mapping[int, Any], rows: list[int]) -> None:
    empty = next((row for row in rows if values[row] is None), None)
    if empty is not None:
        raise UserError(
            f"{path}, row {empty + 1}: the image has no bytes or no label; remove the row"
        )


def _account_for_table(path: Path, split: str | None, ignore: Sequence[str]) -> list[Account]:
    return account_for_columns(
        path, _find_label_columns(path), ignore, TablePart.parse(split), _DEFAULTS
    )


def _find_label_columns(path: Path) -> tuple[str, str]:
    """The columns of images, bytes or as `datasets` saves them, and of labels."""
    columns = read_column_names(path)
    image = "image" if "image" in columns else "jpeg"
    label = "label" if "label" in columns else "label_name"
    return image, label


@dataclass(frozen=True)
class ClassFolders:
    """What lies in a folder of one folder per class: the images that are read, in order, and all
    else, by paths within the folder.
    """

    folder: Path
    images: list[Path]
    hidden: list[str]
    others: list[str]
    #: images whose class is in doubt: beside the folders of classes, or in folders within them
    astray: list[str]

    def account_for_files(
        self, ignore: Sequence[str], may_be_unread: Sequence[str]
    ) -> list[Account]:
        """What became of all files.

        Raises UserError for images in doubt that the patterns of `ignore` do not fit, and for other
        files that may matter and that those of `others` do not.
        """
        images = [path.relative_to(self.folder).as_posix() for path in self.images]
        deep = [name for name in (*images, *self.astray) if name.count("/") > 1]
        parts = sorted({name.partition("/")[0] for name in deep})
        if parts and all(map(find_part, parts)):
            raise UserError(
                f"{self.folder} has the parts {first_of(parts, 5)} of a data set, not folders of classes; name one of "
                f"them: {self.folder / parts[0]}"
            )

        in_doubt = [name for name in self.astray if not is_ignored(name, ignore)]
        if in_doubt:
            raise UserError(
                f"{self.folder}: the image {in_doubt[0]} {_describe_doubt(in_doubt[0], len(self.astray))}"
            )
        check_unread_files(self.folder, "files", self.others, may_be_unread)
        return [
            *account_for("images", images, "read"),
            *account_for("images", self.astray, "left out", "ignored"),
            *account_for("hidden files and folders", self.hidden, "left out"),
            *account_for("files", self.others, "left out", "no images"),
        ]


def _describe_doubt(name: str, count: int) -> str:
    """Why the class of an image is in doubt, as that of `count` in all, and what to write."""
    folder, is_nested, _ = name.rpartition("/")
    if not is_nested:
        return f"lies in no class, one of {count}; leave it out: ignore = ['{name}']"
    return (
        f"lies in a folder within that of a class, one of {count}; write nested = true to add it to "
        f"the class, or leave it out: ignore = ['{folder}/*']"
    )


def read_class_folders(folder: Path, *, nested: bool = False) -> ClassFolders:
    """List a folder of one folder per class; `nested` reads the folders within these too."""
    listing = ClassFolders(folder, [], [], [], [])
    classes = []
    for path in sorted(folder.iterdir()):
        if _is_hidden(path.name):
            listing.hidden.append(path.name)
        elif path.is_dir():
            classes.append(path)
        elif is_image_file(path):
            listing.astray.append(path.name)
        else:
            listing.others.append(path.name)

    # the folder of a class may be a link; links within it are not followed
    for class_folder in classes:
        for parent, folders, names in os.walk(class_folder):
            path = Path(parent)
            _list_files(listing, path, names, is_read=nested or path == class_folder)
            for name in sorted(folders):
                short = (path / name).relative_to(folder).as_posix()
                if _is_hidden(name):
                    listing.hidden.append(short)
                elif (path / name).is_symlink():
                    listing.others.append(short)
            # os.walk goes into the folders that are left here
            folders[:] = sorted(name for name in folders if not _is_hidden(name))
    return listing


def _is_hidden(name: str) -> bool:
    """Whether a file or folder is hidden, or kept by a system for itself."""
    return name.startswith(".") or name in _SYSTEM


def _list_files(listing: ClassFolders, place: Path, names: Sequence[str], *, is_read: bool) -> None:
    """Add the files of one folder to a listing."""
    for name in sorted(names):
        path = place / name
        short = path.relative_to(listing.folder).as_posix()
        if _is_hidden(name):
            listing.hidden.append(short)
        elif not is_image_file(path):
            listing.others.append(short)
        elif is_read:
            listing.images.append(path)
        else:
            listing.astray.append(short)


def _load_folder(path: Path, *, nested: bool) -> tuple[Sequence[Encoded], np.ndarray]:
    """The images of a folder with one folder per class, and the name of each one's class; `nested`
    reads the folders within these too. Raises UserError.
    """
    files = read_class_folders(path, nested=nested).images
    suffixes = ", ".join(IMAGE_SUFFIXES)
    if not files:
        raise UserError(
            f"{path} has no folders with images ({suffixes}); put one folder per class there"
        )

    classes = [file.relative_to(path).parts[0] for file in files]
    folders = {item.name for item in path.iterdir() if item.is_dir() and not _is_hidden(item.name)}
    empty = sorted(folders - {*classes})
    if empty:
        raise UserError(
            f"{path}: {len(empty)} of {len(folders)} folders of classes have no images ({suffixes}): "
            f"{first_of(empty, 5)}; put images there, or remove them"
        )

    return files, np.array(classes)
