"""Images with class labels, which belong to no sentence: a Parquet file, or a folder of classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from harness.corpora.base import CorpusSource, Media
from harness.corpora.features import first_line
from harness.corpora.readable import mended
from harness.encoders.pictures import UNREADABLE, Encoded, described, opened
from harness.encoders.vision import VERSION, Augmentation
from harness.errors import MissingData, UserError
from harness.seeds import generator
from harness.sources import Missing, digest, file_hash

SUFFIXES = (".jpg", ".jpeg", ".png")


class Images(Media):
    """Encoded images, decoded when a batch asks for them."""

    costly = True

    def __init__(
        self, items: Sequence[Encoded], labels: np.ndarray, augmentation: Augmentation, warnings: Sequence[str] = ()
    ) -> None:
        self.items, self.labels, self._augmentation, self.warnings = items, labels, augmentation, warnings

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """Two augmentations of each image: pixels (B, 2, 3, size, size) uint8."""
        return {"pixels": torch.stack([self._views(int(row), rng) for row in rows])}

    def _views(self, row: int, rng: np.random.Generator) -> Tensor:
        try:
            return self._augmentation.of(opened(self.items[row]), rng)
        except UNREADABLE as error:
            item = self.items[row]
            name = str(item) if isinstance(item, Path) else f"image number {row + 1}"
            raise UserError(
                f"{name} of the labelled images cannot be decoded: {described(error)}; remove or replace it"
            ) from error


class LabelledImages(CorpusSource):
    """A Parquet file with columns `jpeg` and `label` (or `label_name`), or a folder with a folder for each class.

    `per_class` keeps that many of each class, drawn by `sample_seed`; with `labelled = false` every image is a
    class of its own, and SupCon becomes SimCLR. All images are decoded once, when they are first loaded. Up to
    `bad` of them may be unreadable: each is replaced, label and all, by the next readable one in the order of
    the corpus, and the run's warnings name them.
    """

    stream: Literal["sentences", "pairs", "triplets", "images", "audio"] = "images"

    def __init__(
        self,
        path: str,
        how: str,
        size: int = 224,
        labelled: bool = True,
        per_class: int | None = None,
        sample_seed: int = 0,
        bad: int = 0,
    ) -> None:
        if per_class is not None and per_class < 1:
            raise UserError(f"per_class = {per_class} leaves no image; give 1 or more in the profile, or leave it out")
        self.path, self.how, self.size, self.labelled = path, how, size, labelled
        self.per_class, self.sample_seed, self.bad = per_class, sample_seed, bad

    def missing(self, root: Path | None) -> list[Missing]:
        """The file or folder."""
        return [] if root is not None and (root / self.path).exists() else [Missing(self.path, self.how)]

    def fingerprint(self, root: Path | None) -> str:
        """Content of the file, or names and contents of the folder's images, the options and the way of augmenting.

        The limit `bad` changes no number.
        """
        place = self._place(root)
        files = [place] if place.is_file() else [item for _, item in _listed(place)]
        content = [[file.relative_to(place.parent).as_posix(), file_hash(file)] for file in files]
        return digest(VERSION, content, self.size, self.labelled, self.per_class, self.sample_seed)

    def load(self, root: Path | None) -> Images:
        """Read labels, and bytes or paths of the images."""
        place = self._place(root)
        items, classes = _parquet(place) if place.is_file() else _folder(place)
        rows = self._sampled(classes)
        labels = np.unique(classes[rows], return_inverse=True)[1] if self.labelled else np.arange(len(rows))
        kept: list[Encoded] = [items[row] for row in rows]
        names = [item.relative_to(place).as_posix() if isinstance(item, Path) else f"row {row + 1}"
                 for row, item in zip(rows, kept, strict=True)]  # fmt: skip
        order, warnings = mended(kept, names, self.path, self.bad, self.fingerprint(root))
        labels = labels.astype(np.int64)[order]
        return Images([kept[row] for row in order], labels, Augmentation(self.size), warnings)

    def _place(self, root: Path | None) -> Path:
        absent = self.missing(root)
        if absent or root is None:
            raise MissingData("; ".join(map(str, absent)))
        return root / self.path

    def _sampled(self, classes: np.ndarray) -> np.ndarray:
        if self.per_class is None:
            return np.arange(len(classes))
        order = generator(axis="sample images", seed=self.sample_seed).permutation(len(classes))
        kept = [order[classes[order] == name][: self.per_class] for name in np.unique(classes)]
        return np.sort(np.concatenate(kept))


def _parquet(path: Path) -> tuple[list[bytes], np.ndarray]:
    import pyarrow.parquet as parquet
    from pyarrow import ArrowException

    try:
        named = "label" if "label" in parquet.read_schema(path).names else "label_name"
        table = parquet.read_table(path, columns=["jpeg", named]).to_pydict()
        items, labels = table["jpeg"], table[named]
    except (ArrowException, OSError, KeyError) as error:
        raise UserError(
            f"{path} is no Parquet file with columns jpeg and label: {first_line(error)}; fetch it again"
        ) from error
    empty = next((row for row, pair in enumerate(zip(items, labels, strict=True), 1) if None in pair), None)
    if empty is not None:
        raise UserError(f"{path}, row {empty}: an image needs its bytes and its label; remove the row")
    return items, np.array(labels)


def _folder(path: Path) -> tuple[list[Path], np.ndarray]:
    found = _listed(path)
    if not found:
        raise UserError(f"{path} holds no folders of images ({', '.join(SUFFIXES)}); put a folder a class there")
    return [item for _, item in found], np.array([name for name, _ in found])


def _listed(path: Path) -> list[tuple[str, Path]]:
    """Class and file of every image, in order of names."""
    return [
        (folder.name, file)
        for folder in sorted(item for item in path.iterdir() if item.is_dir())
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in SUFFIXES
    ]
