"""Captioned test images for the retrieval suite.

Captions are in a layout of `harness.corpora.caption_layouts`. Image features have one file per teacher,
matched by image_id if both files have it and by the order of images otherwise.

- `FLICKR8K`: the official test split, 1,000 images with five captions; its stored features are
  standardised by the moments of the training images, like the features used in training.
- `FLICKR30K` and `COCO`: the 1,000 and 5,000 test images of Karpathy and Fei-Fei (2015), with five
  captions.
- `FLICKR30K_ENTITIES`: the test images of Flickr30k Entities (Plummer et al., 2015), the split of
  MCSE's caption file, whose training images hold 944 of the test images of Karpathy and Fei-Fei;
  1,000 with five captions.
- `CXC_SITS` and `CXC_SIS`: images of COCO that Crisscrossed Captions rates beside captions and
  beside other images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harness.census import TextSurvey, account_for_number
from harness.corpora.base import Pairs
from harness.corpora.caption_layouts import (
    DEFAULT_LAYOUT,
    CaptionsLayout,
    ReadCaptions,
    account_for_captions,
    layout_of,
    read_captions,
)
from harness.corpora.images import (
    COLUMN,
    CaptionImages,
    FeatureFile,
    IdsAndFeatures,
    StoredFeatures,
    check_missing_images,
    standardised,
)
from harness.datafiles import finite_number, order_in_doubt, read_json, read_rows
from harness.errors import RESTORE, UserError
from harness.sources import FileSource, Findings, Missing, digest


@dataclass(frozen=True)
class CaptionedImages:
    """n captions, the row of the image of each, (n,) int64, and m images with their first captions.

    `ids` are those of the m images, as other data sets use them; None if the file has none.
    `contents` are hashes of the bytes of the images; None without these. A task
    of ratings has no captions of its images, and so no recalls, but `pairs`: a caption or an
    image's id, an image's id, and their score.
    """

    texts: list[str]
    image_of: np.ndarray
    images: Pairs
    ids: Sequence[str] | None = None
    pairs: Sequence[tuple[str, str, float]] = ()
    contents: Sequence[str] | None = None


class LikeTraining(FeatureFile):
    """Stored features of test images, transformed by `sqrt-standardise` with the moments of the
    training images.
    """

    def __init__(self, file: str, training: str, how: str) -> None:
        super().__init__(file, how)
        self.training = FeatureFile(training, how)

    def missing(self, root: Path | None) -> list[Missing]:
        return super().missing(root) + self.training.missing(root)

    def fingerprint(self, root: Path | None) -> str:
        return digest("standardised", super().fingerprint(root), self.training.fingerprint(root))

    def read(self, root: Path | None) -> IdsAndFeatures:
        ids, values = super().read(root)
        _, known = self.training.read(root)
        if values.shape[1] != known.shape[1]:
            raise UserError(
                f"{self.files[0]} is {values.shape[1]} wide and {self.training.files[0]} {known.shape[1]}: they come "
                "from different teachers; use the files of one teacher"
            )
        return ids, standardised(values, known)


class CaptionedFile(FileSource):
    """Images with several captions each."""

    def __init__(
        self,
        name: str,
        file: str,
        how: str,
        features: Mapping[str, FeatureFile],
        split: str | None = None,
        images: str | None = None,
        layout: CaptionsLayout = DEFAULT_LAYOUT,
        missing_images: str = "refuse",
    ) -> None:
        """`features` are stored image features by teacher, `split` selects images.

        `images` is a folder of image files named by image_id, for teachers without stored features.
        `layout` and `missing_images` are those of a user's file, as for a captions-file.
        """
        super().__init__([file, layout.image_list] if layout.image_list else [file], how)
        self.name = name
        self.features = features
        self.layout = replace(layout, split=split)
        self.ignore = layout.ignore
        self.missing_images = check_missing_images(missing_images, images)
        self.pixels = CaptionImages(file, images, how, self._captions) if images else None

    def missing(self, root: Path | None) -> list[Missing]:
        """The captions if missing; and if neither images nor any features exist: the images, or
        else all features.
        """
        absent = [file.missing(root) for file in self.features.values()]
        lacking = (
            self.pixels.missing(root) if self.pixels else [item for each in absent for item in each]
        )
        return super().missing(root) + (lacking if all(absent) else [])

    @property
    def has_pictures(self) -> bool:
        """Whether a teacher can compute features of the images."""
        return self.pixels is not None

    def computes(self, teacher: str, root: Path | None) -> bool:
        """Whether a teacher must compute its features from the images, since no file has them."""
        return teacher not in self.features or bool(self.features[teacher].missing(root))

    def fingerprint(self, root: Path | None) -> str:
        present = {
            teacher: file.fingerprint(root)
            for teacher, file in self.features.items()
            if not file.missing(root)
        }
        if pixels := self._pixels(root):
            present["images"] = pixels.fingerprint(root)
        plain = self.layout.has_default_columns and (
            self.layout.split
            or self.layout.image_list is not None
            or layout_of(self._path(root)) in ("lines", "lists")
        )
        columns = () if plain else self.layout.columns
        kept = []
        if self.missing_images == "skip":
            kept.append(digest("with images", self._captions(root).ids))
        return digest(super().fingerprint(root), self.layout.split, present, *columns, *kept)

    def examine(self, root: Path | None) -> Findings:
        read = self._captions(root)
        survey = TextSurvey.of(chain.from_iterable(read.texts))
        pictures = [COLUMN] if self.pixels and self.pixels.images == COLUMN else []
        accounts = account_for_captions(self._path(root), self.layout, pictures) + read.accounts
        stored = self.load(root).images.features
        if isinstance(stored, StoredFeatures):
            for teacher, file in stored.files.items():
                unread = stored.check(teacher)
                accounts += file.examined(root).accounts
                why = f"features of {teacher}, of no captioned image"
                accounts += account_for_number("rows", unread, why)
        images = len(read.texts)
        return Findings(survey.count, read.remarks, images, survey.equal, accounts, survey.sample)

    def examined(self, root: Path | None) -> Findings:
        """What `examine` finds, and the other files of the folder of the images, which are in no
        fingerprint.
        """
        findings = super().examined(root)
        pixels = self._pixels(root)
        if pixels is None:
            return findings
        accounts = [*findings.accounts, *pixels.examined(root).accounts]
        return replace(findings, accounts=accounts)

    def load(self, root: Path | None) -> CaptionedImages:
        read = self._captions(root)
        ids = read.ids
        captions = read.texts
        pixels = self._pixels(root)
        count = len(captions)
        # if the images exist, missing feature files are ignored: the teacher computes them
        stored = {
            name: file
            for name, file in self.features.items()
            if not (pixels and file.missing(root))
        }
        images = Pairs(
            [texts[0] for texts in captions],
            pixels.pixels(root, count) if pixels else None,
            StoredFeatures(stored, root, lambda: ids, count, order_in_doubt(self._path(root))),
        )
        texts = [text for each in captions for text in each]
        image_of = np.repeat(np.arange(count), [len(each) for each in captions])
        contents = pixels.contents(root) if pixels else None
        return CaptionedImages(texts, image_of, images, ids, contents=contents)

    def _captions(self, root: Path | None) -> ReadCaptions:
        paths = FileSource(self.files, self.how).paths(root)
        read = read_captions(paths[0], self.layout, *paths[1:])
        if self.missing_images == "refuse" or self.pixels is None or self.pixels.missing(root):
            return read
        return self.pixels.leave_out_missing(root, read)

    def _path(self, root: Path | None) -> Path:
        return FileSource(self.files, self.how).paths(root)[
            0
        ]  # the captions can be read without features

    def _pixels(self, root: Path | None) -> CaptionImages | None:
        return self.pixels if self.pixels and not self.pixels.missing(root) else None


class RatedFile(FileSource):
    """Ratings of Crisscrossed Captions as published: two ids and `agg_score`; images and captions
    are COCO's of 2014.

    A caption's id ends in that of COCO's file of captions (`COCO_val2014:sentid:648388`).
    """

    def __init__(self, name: str, file: str, columns: tuple[str, str], captions: str = "") -> None:
        """`columns` are the first and the second of each pair; `captions` is COCO's file, if the
        first are captions.
        """
        super().__init__([file, *([captions] if captions else [])], _HOW_RATED)
        self.name = name
        self.columns = columns
        self.pixels = CaptionImages(
            file, "coco/val2014", "run `harness data fetch coco-val-images`", self._read_ids
        )

    def missing(self, root: Path | None) -> list[Missing]:
        return super().missing(root) + self.pixels.missing(root)

    @property
    def has_pictures(self) -> bool:
        """Whether a teacher can compute features of the images."""
        return True

    def computes(self, teacher: str, root: Path | None) -> bool:
        """Whether a teacher must compute its features from the images: always."""
        return True

    def fingerprint(self, root: Path | None) -> str:
        return digest(super().fingerprint(root), self.pixels.fingerprint(root))

    def load(self, root: Path | None) -> CaptionedImages:
        ids = self._ids(root)
        ratings, *captions = self.paths(root)
        texts = {str(one["id"]): " ".join(one["caption"].split()) for one in _annotations(captions)}
        pairs = []
        for where, (first, second, score) in read_rows(ratings, *self.columns, "agg_score"):
            number = first.rpartition(":")[2]
            if captions and number not in texts:
                raise UserError(f"{where}: {captions[0]} has no caption {number}; {RESTORE}")
            pairs.append(
                (texts[number] if captions else first, second, finite_number(where, score))
            )
        images = Pairs(ids, self.pixels.pixels(root, len(ids)))
        return CaptionedImages([], np.zeros(0, np.int64), images, ids, pairs)

    def _read_ids(self, root: Path | None) -> ReadCaptions:
        return ReadCaptions(self._ids(root), [])

    def _ids(self, root: Path | None) -> list[str]:
        images = [column for column in self.columns if column.startswith("image")]
        return list(
            dict.fromkeys(
                name for _, row in read_rows(self.paths(root)[0], *images) for name in row
            )
        )


def _annotations(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The captions of COCO's file, if there is one. Raises UserError."""
    try:
        return [
            one
            for file in files
            for one in read_json(file)["annotations"]
            if one["id"] and one["caption"]
        ]
    except (TypeError, KeyError) as error:
        raise UserError(f"{files[0]} has no annotations with id and caption; {RESTORE}") from error


def _stored(folder: str, split: str = "test") -> dict[str, FeatureFile]:
    """Feature files of test images by teacher of the papers, stored next to those of the training
    images.
    """
    how = (
        "extract the features of the test images like those of training (data set 'features', rows in the order of "
        "the captions), or put the images there: see `harness data list`"
    )
    files = {"resnet": f"{split}_resnet50.hdf5", "clip": f"{split}_clip-vit-b-32.hdf5"}
    return {teacher: FeatureFile(f"{folder}/{file}", how) for teacher, file in files.items()}


_HOW = "put Flickr8k's images and features there: Parquet, columns image_id and captions, image_id and feature"
_SQUEEZENET = LikeTraining(
    "paired/flickr8k/test_squeezenet.parquet", "paired/flickr8k/train_squeezenet.parquet", _HOW
)
FLICKR8K = CaptionedFile(
    "Flickr8k", "paired/flickr8k/test.parquet", _HOW, {"squeezenet": _SQUEEZENET}
)
FLICKR30K = CaptionedFile(
    "Flickr30k",
    "captions/flickr30k_captions.tsv.gz",
    "run `harness data fetch karpathy`",
    _stored("flickr"),
    split="test",
    images="flickr/images",
)
FLICKR30K_ENTITIES = CaptionedFile(
    "Flickr30k-Entities",
    "captions/flickr30k_entities_captions.tsv.gz",
    "run `harness data fetch flickr30k-entities`",
    _stored("flickr", "entities_test"),
    split="test",
    images="flickr/images",
)
COCO = CaptionedFile(
    "COCO",
    "captions/coco_karpathy_captions.tsv.gz",
    "run `harness data fetch karpathy`",
    _stored("coco"),
    split="test5k",
    images="coco/val2014",
)
_HOW_RATED = (
    "put sits_test.csv and sis_test.csv of Crisscrossed Captions in cxc, and captions_val2014.json of COCO's "
    "annotations_trainval2014.zip in coco"
)
CXC_SITS = RatedFile(
    "CxC-SITS", "cxc/sits_test.csv", ("caption", "image"), "coco/captions_val2014.json"
)
CXC_SIS = RatedFile("CxC-SIS", "cxc/sis_test.csv", ("image1", "image2"))
