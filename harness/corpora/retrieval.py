"""Captioned images for testing: what the retrieval suite ranks.

Captions lie in a Parquet file (columns image_id and captions), or in a table, tab-separated, .gz by the name's
suffix, with the columns split, image_id or image_no, and caption: one caption a line, images in the order of their
first line. Image features lie in one file a teacher, matched by image_id where both files have one and by the order
of the images otherwise.

- `FLICKR8K`: the official test split, 1,000 images with five captions; its stored features are standardised by the
  training images' moments, as the features that a method was trained on.
- `FLICKR30K` and `COCO`: the 1,000 and 5,000 test images of Karpathy and Fei-Fei (2015), with five captions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.corpora.base import Pairs
from harness.corpora.features import FeatureFile, StoredFeatures
from harness.corpora.files import read_captions
from harness.corpora.pixels import CaptionImages
from harness.corpora.toy.sources import ToyPairs
from harness.errors import UserError
from harness.sources import FileSource, Missing, Source, digest
from harness.textfiles import read_table


@dataclass(frozen=True)
class CaptionedImages:
    """n captions, the row of each one's image, (n,) int64, and m images, each with its first caption."""

    texts: list[str]
    image_of: np.ndarray
    images: Pairs


class LikeTraining(FeatureFile):
    """Stored features of test images, put through the signed square root and standardised as those of training."""

    def __init__(self, file: str, training: str, how: str) -> None:
        """`training` is the file of features whose mean and deviation a dimension are taken."""
        super().__init__(file, how)
        self.training = FeatureFile(training, how)

    def missing(self, root: Path | None) -> list[Missing]:
        """What is absent of both files."""
        return super().missing(root) + self.training.missing(root)

    def fingerprint(self, root: Path | None) -> str:
        """Content of both files."""
        return digest("standardised", super().fingerprint(root), self.training.fingerprint(root))

    def read(self, root: Path | None) -> tuple[list[str] | None, np.ndarray]:
        """Image ids and features, (images, f) float32. Raises MissingData or UserError."""
        (ids, values), (_, known) = super().read(root), self.training.read(root)
        if values.shape[1] != known.shape[1]:
            raise UserError(f"{self.files[0]} and {self.training.files[0]} are not of one teacher; fetch them again")
        rooted = _rooted(known).astype(np.float64)
        mean, spread = rooted.mean(axis=0), rooted.std(axis=0)
        return ids, (_rooted(values) - mean.astype(np.float32)) / np.where(spread > 0, spread, 1).astype(np.float32)


class CaptionedFile(FileSource):
    """Images with several captions each, in one file."""

    def __init__(
        self,
        name: str,
        file: str,
        how: str,
        features: Mapping[str, FeatureFile],
        split: str | None = None,
        images: str | None = None,
    ) -> None:
        """`features` are the images' stored features by teacher; `split` is the part of a table that is read.

        `images` is a folder of image files named by image_id, which teachers without stored features read.
        """
        super().__init__([file], how)
        self.name, self.features, self.split = name, features, split
        self.pixels = CaptionImages(file, images, how, lambda root: self._captions(root)[0]) if images else None

    def missing(self, root: Path | None) -> list[Missing]:
        """The captions; and the stored features where those of no teacher are whole, and no images are there."""
        absent = [file.missing(root) for file in self.features.values()]
        if not all(absent) or self._pixels_there(root):
            return super().missing(root)
        return super().missing(root) + [item for each in absent for item in each]

    def fingerprint(self, root: Path | None) -> str:
        """Captions, and the features that are there."""
        whole = {teacher: file for teacher, file in self.features.items() if not file.missing(root)}
        features = {teacher: file.fingerprint(root) for teacher, file in whole.items()}
        if self.pixels and self._pixels_there(root):
            features["images"] = self.pixels.fingerprint(root)
        return digest(super().fingerprint(root), self.split, features)

    def load(self, root: Path | None) -> CaptionedImages:
        """Read the captions; features are read when a teacher's are asked for. Raises MissingData or UserError."""
        ids, captions = self._captions(root)
        numbers = np.arange(len(captions))
        images = Pairs(
            [texts[0] for texts in captions],
            self.pixels.pixels(root, numbers) if self.pixels and self._pixels_there(root) else None,
            StoredFeatures(self.features, root, lambda: ids, len(captions)),
        )
        texts = [text for each in captions for text in each]
        return CaptionedImages(texts, np.repeat(numbers, [len(each) for each in captions]), images)

    def _captions(self, root: Path | None) -> tuple[list[str] | None, list[list[str]]]:
        (path,) = self.paths(root)
        return read_captions(path) if self.split is None else _table(path, self.split)

    def _pixels_there(self, root: Path | None) -> bool:
        return self.pixels is not None and not self.pixels.missing(root)


class ToyRetrieval(Source):
    """Pictures of the toy world's test split, each with one caption that fits no other."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.pairs = ToyPairs(split="test", size=size)

    def missing(self, root: Path | None) -> list[Missing]:
        """Nothing: the task is generated."""
        return []

    def fingerprint(self, root: Path | None) -> str:
        """Hash of captions and pictures."""
        return self.pairs.fingerprint(root)

    def load(self, root: Path | None) -> CaptionedImages:
        """Generate captions and pictures."""
        pairs = self.pairs.load(root)
        return CaptionedImages(list(pairs.texts), np.arange(len(pairs)), pairs)


def _table(path: Path, split: str) -> tuple[list[str], list[list[str]]]:
    """Return image ids and each image's captions, of one split of a table. Raises UserError."""
    found: dict[str, list[str]] = {}
    for row in read_table(path, "split", "caption"):
        name = row.get("image_id", row.get("image_no"))
        if name is None:
            raise UserError(f"{path}, line 1: no column 'image_id' or 'image_no' among {list(row)}; fetch it again")
        if row["split"] == split:
            found.setdefault(name, []).append(row["caption"])
    if not found:
        raise UserError(f"{path} has no captions of the split '{split}'; fetch it again")
    return list(found), list(found.values())


def _rooted(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.sqrt(np.abs(values))


def _stored(folder: str) -> dict[str, FeatureFile]:
    """Features of a corpus's test images by the teachers of the papers, beside those of its training images."""
    how = (
        "extract the test images' features as those of training (data set 'features', rows in the captions' order), "
        "or put the images there: `harness data list` says how"
    )
    files = {"resnet": "test_resnet50.hdf5", "clip": "test_clip-vit-b-32.hdf5"}
    return {teacher: FeatureFile(f"{folder}/{file}", how) for teacher, file in files.items()}


_HOW = "put Flickr8k's images and features there: Parquet, columns image_id and captions, image_id and feature"
FLICKR8K = CaptionedFile(
    "Flickr8k",
    "paired/flickr8k/test.parquet",
    _HOW,
    {
        "squeezenet": LikeTraining(
            "paired/flickr8k/test_squeezenet.parquet", "paired/flickr8k/train_squeezenet.parquet", _HOW
        )
    },
)
FLICKR30K = CaptionedFile(
    "Flickr30k",
    "captions/flickr30k_captions.tsv.gz",
    "put the captions of Flickr30k there, as a table",
    _stored("flickr"),
    split="test",
    images="flickr/images",
)
COCO = CaptionedFile(
    "COCO",
    "captions/coco_karpathy_captions.tsv.gz",
    "put the captions of COCO's 5,000 test images of the split of Karpathy and Fei-Fei there, as a table",
    _stored("coco"),
    split="test5k",
    images="coco/val2014",
)
TOY_RETRIEVAL = ToyRetrieval("ToyRetrieval", 1000)
