"""Labelled images that belong to no sentence: a Parquet file, or a folder with one folder per
class.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from harness.caches import cached_note
from harness.corpora.base import PLANNED_BYTES, CorpusSource, Media, check_positive
from harness.encoders.media import (
    DECODING,
    UNREADABLE,
    VIEWS_VERSION,
    Encoded,
    decoded,
    described,
    opened,
)
from harness.errors import UserError
from harness.formatting import first_of
from harness.processors import cores
from harness.seeds import generator
from harness.sources import (
    OWN_FILE,
    Findings,
    Missing,
    absent,
    digest,
    hashes_within,
    installed,
    placed,
)
from harness.tables import column_names, label_remarks, parts_of, read_columns

if TYPE_CHECKING:
    from torch import Tensor

    from harness.encoders.vision import Augmentation

log = logging.getLogger(__name__)
SUFFIXES = (".jpg", ".jpeg", ".png")


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
        self.items, self.labels, self._augmentation, self.warnings = (
            items,
            labels,
            augmentation,
            warnings,
        )
        self.costly = not isinstance(items, np.ndarray)

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        import torch

        return {"pixels": torch.stack([self._views(int(row), rng) for row in rows])}

    def _views(self, row: int, rng: np.random.Generator) -> Tensor:
        item = self.items[row]
        try:
            image = Image.fromarray(item) if isinstance(item, np.ndarray) else opened(item)
            return self._augmentation.of(image, rng)
        except UNREADABLE as error:
            name = str(item) if isinstance(item, Path) else f"number {row + 1}"
            raise UserError(
                f"the labelled image {name} cannot be decoded: {described(error)}; remove or replace it"
            ) from error


class LabelledImages(CorpusSource):
    """A Parquet file with columns `jpeg` (or `image`) and `label` (or `label_name`), or a folder
    with one per class.

    `per_class` keeps that many images of each class, drawn by `sample_seed`. With `labelled =
    false` every image has a class of its own, and SupCon becomes SimCLR. All images are decoded
    once when first loaded. Up to `bad` unreadable ones are replaced, with their labels, by the next
    readable image, and listed in the run's warnings.
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
    ) -> None:
        check_positive("per_class", per_class)
        self.path, self.how, self.size, self.labelled = path, how, size, labelled
        self.per_class, self.sample_seed, self.bad = per_class, sample_seed, bad

    def missing(self, root: Path | None) -> list[Missing]:
        return absent(root, self.path, self.how, folder=True)

    def fingerprint(self, root: Path | None) -> str:
        """Hash of names and contents of the images, the options and the version of the
        augmentation.

        `bad` is left out, since it does not change results.
        """
        path = placed(self.require(root), self.path)
        files = _listed(path)
        names = [file.relative_to(path.parent).as_posix() for file in files]
        hashes = hashes_within(path.parent, files)
        content = [list(pair) for pair in zip(names, hashes, strict=True)]
        return digest(
            VIEWS_VERSION, content, self.size, self.labelled, self.per_class, self.sample_seed
        )

    def examined(self, root: Path | None) -> Findings:
        """Decode the images of a corpus of at most PLANNED_BYTES; of a larger one, check the
        folders of its classes.
        """
        path = placed(self.require(root), self.path)
        if sum(file.stat().st_size for file in _listed(path)) <= PLANNED_BYTES:
            self._rows(root)
        labels = (
            _folder(path)[1]
            if path.is_dir()
            else read_columns(path, _columns(path)[1]).column(0).to_pylist()
        )
        return Findings(remarks=label_remarks(labels) if self.labelled else ())

    def load(self, root: Path | None) -> AugmentedImages:
        from harness.encoders.vision import (
            Augmentation,
        )  # imports torch, which planning does not need

        items, labels, warnings = self._rows(root)
        return AugmentedImages(items, labels, Augmentation(self.size), warnings)

    def _rows(self, root: Path | None) -> tuple[list[Encoded], np.ndarray, list[str]]:
        """Readable images with their labels, and a warning about the others. Raises UserError."""
        path = placed(self.require(root), self.path)
        items, classes = _folder(path) if path.is_dir() else _parquet(path)
        rows = self._sampled(classes)
        labels = (
            np.unique(classes[rows], return_inverse=True)[1]
            if self.labelled
            else np.arange(len(rows))
        )
        kept = [items[row] for row in rows]
        names = [
            item.relative_to(path).as_posix() if isinstance(item, Path) else f"row {row + 1}"
            for row, item in zip(rows, kept, strict=True)
        ]
        order, warnings = self._readable(kept, names, self.fingerprint(root))
        return [kept[row] for row in order], labels.astype(np.int64)[order], warnings

    def _sampled(self, classes: np.ndarray) -> np.ndarray:
        if self.per_class is None:
            return np.arange(len(classes))
        order = generator(axis="sample images", seed=self.sample_seed).permutation(len(classes))
        kept = [order[classes[order] == name][: self.per_class] for name in np.unique(classes)]
        return np.sort(np.concatenate(kept))

    def _readable(
        self, items: Sequence[Encoded], names: Sequence[str], key: str
    ) -> tuple[np.ndarray, list[str]]:
        """Map each of n images to itself, or to the next readable one, wrapping at the end: (n,),
        and a warning.

        Raises UserError for more than `bad` unreadable images, naming the first of them.
        """
        bad = _unreadable(items, key)
        order = np.arange(len(items))
        if not bad:
            return order, []
        problem = f"{self.path}: {len(bad)} of {len(items)} images cannot be decoded"
        listed = first_of([f"{names[row]} ({why})" for row, why in bad.items()], 5, "; ")
        if len(bad) > self.bad or len(bad) == len(items):
            raise UserError(
                f"{problem}: {listed}; remove or replace them, or set bad = {len(bad)} for the corpus to use the next "
                "images in their place"
            )
        good = np.delete(order, list(bad))
        warning = f"{problem} and are replaced by the next ones: {listed}"
        log.warning(warning)
        return good[np.searchsorted(good, order) % len(good)], [warning]


def _unreadable(items: Sequence[Encoded], key: str) -> Mapping[int, str]:
    """Why images cannot be decoded, by number of the image; cached by `key`, which identifies the
    content.
    """
    note = f"readable/{digest('what is readable', DECODING, installed('pillow'), key)}.json"

    def read() -> dict[str, dict[int, str]]:
        # Pillow releases the interpreter's lock
        with ThreadPoolExecutor(cores()) as pool:
            return {
                "unreadable": {row: why for row, why in enumerate(pool.map(_why_not, items)) if why}
            }

    unreadable = cached_note(note, "the images will be decoded again", read)["unreadable"]
    return {int(row): why for row, why in unreadable.items()}


def _why_not(item: Encoded) -> str:
    try:
        decoded(item)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno:
            raise UserError(f"an image cannot be read: {error}; check its folder") from error
        return described(error)
    return ""


def _parquet(path: Path) -> tuple[Sequence[Encoded], np.ndarray]:
    images, labels = (column.to_pylist() for column in read_columns(path, *_columns(path)).columns)
    items = [image["bytes"] if isinstance(image, dict) else image for image in images]
    empty = next(
        (row for row, pair in enumerate(zip(items, labels, strict=True), 1) if None in pair), None
    )
    if empty is not None:
        raise UserError(f"{path}, row {empty}: the image has no bytes or no label; remove the row")
    return items, np.array(labels)


def _columns(path: Path) -> tuple[str, str]:
    """The columns of images, bytes or as `datasets` saves them, and of labels."""
    there = column_names(path)
    return "image" if "image" in there else "jpeg", "label" if "label" in there else "label_name"


def _folder(path: Path) -> tuple[Sequence[Encoded], np.ndarray]:
    files = _listed(path)
    if not files:
        raise UserError(
            f"{path} has no folders with images ({', '.join(SUFFIXES)}); put one folder per class there"
        )
    classes = [file.parent.name for file in files]
    shown = [
        item.name for item in path.iterdir() if item.is_dir() and not item.name.startswith(".")
    ]
    if empty := sorted({*shown} - {*classes}):
        raise UserError(
            f"{path}: {len(empty)} of {len(shown)} folders of classes have no images ({', '.join(SUFFIXES)}): "
            f"{first_of(empty, 5)}; put images there, or remove them"
        )
    return files, np.array(classes)


def _listed(path: Path) -> list[Path]:
    if not path.is_dir():
        return parts_of(path)
    folders = sorted(item for item in path.iterdir() if item.is_dir())
    return [
        file
        for folder in folders
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in SUFFIXES
    ]
