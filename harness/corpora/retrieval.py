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

import numpy as np

from harness.census import TextSurvey, account_for_number
from harness.corpora.base import Pairs
from harness.corpora.caption_layouts import (
    DEFAULT_LAYOUT,
    CaptionsLayout,
    ReadCaptions,
    account_for_captions,
    find_layout,
    read_captions,
)
from harness.corpora.images import (
    COLUMN,
    CaptionImages,
    FeatureFile,
    IdsAndFeatures,
    StoredFeatures,
    check_missing_images,
    transform_features,
)
from harness.datafiles import describe_doubtful_order, read_json
from harness.datarows import parse_finite_number, read_rows
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
        _, training = self.training.read(root)

        width = values.shape[1]
        training_width = training.shape[1]
        if width != training_width:
            raise UserError(
                f"{self.files[0]} is {width} wide and {self.training.files[0]} {training_width}: they come "
                "from different teachers; use the files of one teacher"
            )
        return ids, transform_features(values, training)


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
        self.pixels = CaptionImages(file, images, how, self._load_captions) if images else None

    def missing(self, root: Path | None) -> list[Missing]:
        """The captions if missing; and if neither images nor any features exist: the images, or
        else all features.
        """
        absent = super().missing(root)
        features = [file.missing(root) for file in self.features.values()]
        if not all(features):
            return absent
        if self.pixels:
            return absent + self.pixels.missing(root)
        return absent + list(chain.from_iterable(features))

    @property
    def has_pictures(self) -> bool:
        """Whether a teacher can compute features of the images."""
        return self.pixels is not None

    def computes(self, teacher: str, root: Path | None) -> bool:
        """Whether a teacher must compute its features from the images, since no file has them."""
        return teacher not in self.features or bool(self.features[teacher].missing(root))

    def fingerprint(self, root: Path | None) -> str:
        present = {}
        for teacher, file in self.features.items():
            if not file.missing(root):
                present[teacher] = file.fingerprint(root)
        pixels = self._get_pixels(root)
        if pixels:
            present["images"] = pixels.fingerprint(root)

        options: list[object] = []
        if not self._has_published_layout(root):
            options += self.layout.columns
        if self.missing_images == "skip":
            options.append(digest("with images", self._load_captions(root).ids))
        return digest(super().fingerprint(root), self.layout.split, present, *options)

    def _has_published_layout(self, root: Path | None) -> bool:
        """Whether a fingerprint stands without the names of columns, as it did before there were
        any.
        """
        layout = self.layout
        if not layout.has_default_columns:
            return False
        if layout.split or layout.image_list is not None:
            return True
        return find_layout(self._find_path(root)) in ("lines", "lists")

    def examine(self, root: Path | None) -> Findings:
        read = self._load_captions(root)
        survey = TextSurvey.from_texts(chain.from_iterable(read.texts))

        pictures = [COLUMN] if self.pixels and self.pixels.images == COLUMN else []
        accounts = account_for_captions(self._find_path(root), self.layout, pictures)
        accounts += read.accounts

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
        pixels = self._get_pixels(root)
        if pixels is None:
            return findings
        accounts = [*findings.accounts, *pixels.examined(root).accounts]
        return replace(findings, accounts=accounts)

    def load(self, root: Path | None) -> CaptionedImages:
        read = self._load_captions(root)
        captions = read.texts
        count = len(captions)
        pixels = self._get_pixels(root)

        # if the images exist, missing feature files are ignored: the teacher computes them
        stored = {
            teacher: file
            for teacher, file in self.features.items()
            if pixels is None or not file.missing(root)
        }

        doubt = describe_doubtful_order(self._find_path(root))
        images = Pairs(
            [texts[0] for texts in captions],
            pixels.pixels(root, count) if pixels else None,
            StoredFeatures(stored, root, lambda: read.ids, count, doubt),
        )
        return CaptionedImages(
            list(chain.from_iterable(captions)),
            np.repeat(np.arange(count), list(map(len, captions))),
            images,
            read.ids,
            contents=pixels.hash_contents(root) if pixels else None,
        )

    def _load_captions(self, root: Path | None) -> ReadCaptions:
        # the captions can be read without features
        paths = FileSource(self.files, self.how).paths(root)
        read = read_captions(paths[0], self.layout, *paths[1:])
        if self.missing_images == "refuse" or self.pixels is None or self.pixels.missing(root):
            return read
        return self.pixels.exclude_missing(root, read)

    def _find_path(self, root: Path | None) -> Path:
        return FileSource(self.files, self.how).paths(root)[0]

    def _get_pixels(self, root: Path | None) -> CaptionImages | None:
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
        ids = self._list_ids(root)
        ratings, *captions = self.paths(root)
        texts = _load_coco_captions(captions[0]) if captions else {}
        pairs = []

        for place, (first, second, score) in read_rows(ratings, *self.columns, "agg_score"):
            item = first
            if captions:
                number = first.rpartition(":")[2]
                if number not in texts:
                    raise UserError(f"{place}: {captions[0]} has no caption {number}; {RESTORE}")
                item = texts[number]
            pairs.append((item, second, parse_finite_number(place, score)))

        images = Pairs(ids, self.pixels.pixels(root, len(ids)))
        return CaptionedImages([], np.zeros(0, np.int64), images, ids, pairs)

    def _read_ids(self, root: Path | None) -> ReadCaptions:
        return ReadCaptions(self._list_ids(root), [])

    def _list_ids(self, root: Path | None) -> list[str]:
        """The rated images, in the order of the file."""
        columns = [column for column in self.columns if column.startswith("image")]
        rows = read_rows(self.paths(root)[0], *columns)
        return list(dict.fromkeys(chain.from_iterable(row.values for row in rows)))


def _load_coco_captions(path: Path) -> dict[str, str]:
    """The captions of COCO's file by their ids. Raises UserError."""
    try:
        captions = {}
        for annotation in read_json(path)["annotations"]:
            if annotation["id"] and annotation["caption"]:
                captions[str(annotation["id"])] = " ".join(annotation["caption"].split())
    except (TypeError, KeyError) as error:
        raise UserError(f"{path} has no annotations with id and caption; {RESTORE}") from error
    return captions


def _name_feature_files(folder: str, split: str = "test") -> dict[str, FeatureFile]:
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
    _name_feature_files("flickr"),
    split="test",
    images="flickr/images",
)
FLICKR30K_ENTITIES = CaptionedFile(
    "Flickr30k-Entities",
    "captions/flickr30k_entities_captions.tsv.gz",
    "run `harness data fetch flickr30k-entities`",
    _name_feature_files("flickr", "entities_test"),
    split="test",
    images="flickr/images",
)
COCO = CaptionedFile(
    "COCO",
    "captions/coco_karpathy_captions.tsv.gz",
    "run `harness data fetch karpathy`",
    _name_feature_files("coco"),
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
