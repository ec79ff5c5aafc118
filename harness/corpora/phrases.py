"""Captions whose phrases name regions of their images, in files below the data root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from harness.census import Account
from harness.corpora.base import Phrases, PhraseSource
from harness.corpora.caption_layouts import ReadCaptions
from harness.corpora.files import CaptionsFile
from harness.corpora.images import COLUMN, FeatureFile, StoredFeatures
from harness.corpora.phrase_layouts import (
    ReadPhrases,
    account_for_phrases,
    is_entities,
    list_text_files,
    read_phrases,
)
from harness.corpora.regions import Box, check_box
from harness.datafiles import check_file_names
from harness.errors import UnavailableError, UserError
from harness.remarks import list_text_remarks
from harness.sources import OWN_FILE, FileSource, Missing, digest, hash_files_within, resolve_path


class PhrasesFile(CaptionsFile):
    """A table of phrases that name regions of images, or the folder of Flickr30k Entities.

    Layouts are those of `harness.corpora.phrase_layouts`. Captions are rows as those of
    `CaptionsFile`, with the same keys. `region_features` maps teacher -> [file, how, transform,
    ids] of stored features of regions, matched by region: by the column `region` of a table, and by
    IMAGE#ID of Flickr30k Entities. Without them, a teacher of images sees each region cut out of
    its image.
    """

    def __init__(
        self,
        file: str,
        how: str = OWN_FILE,
        captions: Literal["one", "all"] = "one",
        caption_seed: int = 0,
        features: Mapping[str, Mapping[str, str]] | None = None,
        images: str | None = None,
        split: str | None = None,
        region_features: Mapping[str, Mapping[str, str]] | None = None,
        missing_images: Literal["refuse", "skip"] = "refuse",
        ignore: Sequence[str] = (),
    ) -> None:
        if images == COLUMN:
            raise UserError(
                f"images = '{COLUMN}': a table of phrases has no pictures; name their folder"
            )
        super().__init__(
            file,
            how,
            captions,
            caption_seed,
            features,
            images,
            split=split,
            missing_images=missing_images,
            ignore=ignore,
        )
        self.stored_regions = FeatureFile.from_tables(region_features, "region")

    @property
    def phrases(self) -> PhraseSource:
        """The phrases of the captions that are rows."""
        return FilePhrases(self)

    def missing(self, root: Path | None) -> list[Missing]:
        return [] if is_entities(resolve_path(root, self.files[0])) else super().missing(root)

    def images_fingerprint(self, root: Path | None) -> str:
        options = [self.layout.split]
        if self.missing_images == "skip" and self.pixels is not None:
            options.append(digest("with images", self._load_captions(root).ids))
        return digest("phrases", self._hash_content(root), *options)

    def check_features(self, root: Path | None, teacher: str, of: str = "image") -> int:
        """The same for regions: refuse stored features that lack some, and boxes that are not
        within their image where a teacher is to see them.
        """
        if of != "region":
            return super().check_features(root, teacher, of)
        if self.missing(root):
            return 0
        if teacher in self.stored_regions:
            if self.stored_regions[teacher].missing(root):
                return 0
            return self.make_region_features(root).check(teacher)

        if self.pixels is not None and self._has_boxes(root):
            if not self.pixels.missing(root):
                self._check_boxes(root)
            return 0

        lacking = "images" if self.pixels is None else "boxes"
        names = ", ".join(self.stored_regions)
        has = f"only features of {names}" if names else "no file of features"
        raise UnavailableError(
            f"{self.files[0]} has no {lacking} to cut regions out for the teacher '{teacher}', and {has}"
        )

    def load_phrases(self, root: Path | None) -> Phrases:
        """The phrases of the captions that are rows, and all regions of their images."""
        read = self._load_phrases(root)
        images = self._select_images(root, read)
        phrases_of = [_group_by_caption(read, image) for image in images]

        # regions are numbered over all images, in order
        counts = [len(read.regions[image]) for image in images]
        numbers = dict[tuple[int, str], int]()
        for place, image in enumerate(images):
            for name in read.regions[image]:
                numbers[place, name] = len(numbers)

        captions = []
        spans = []
        regions = []
        rows = self._draw([read.texts[image] for image in images])
        for row, (place, number) in enumerate(rows):
            for start, end, region in phrases_of[place].get(number, ()):
                captions.append(row)
                spans.append((start, end))
                regions.append(numbers[place, region])

        return Phrases(
            captions=np.array(captions, np.int64),
            spans=np.array(spans, np.int64).reshape(-1, 2),
            regions=np.array(regions, np.int64),
            images=np.repeat(np.arange(len(images)), counts),
            boxes=_collect_boxes(read, images),
            features=self.make_region_features(root),
        )

    def make_region_features(self, root: Path | None) -> StoredFeatures:
        """Features of the regions in files, by teacher."""

        def list_ids() -> list[str]:
            read = self._load_phrases(root)
            regions = [read.regions[image] for image in self._select_images(root, read)]
            return list(chain.from_iterable(regions))

        return StoredFeatures(self.stored_regions, root, list_ids)

    def _hash_content(self, root: Path | None) -> str:
        """A hash of the content of the table, or of all files of the folder."""
        path = self.paths(root)[0]
        if not is_entities(path):
            return FileSource.fingerprint(self, root)
        files = list_text_files(path)
        names = [file.relative_to(path).as_posix() for file in files]
        return digest("flickr30k entities", names, hash_files_within(path, files))

    def _load_phrases(self, root: Path | None) -> ReadPhrases:
        return read_phrases(self.paths(root)[0], self.layout.split, self._hash_content(root))

    def _make_stored_features(self, root: Path | None, images: int) -> StoredFeatures:
        return StoredFeatures(self.stored, root, lambda: self._get_image_ids(root), images)

    def _load_all_captions(self, root: Path | None) -> ReadCaptions:
        read = self._load_phrases(root)
        remarks = list_text_remarks(chain.from_iterable(read.texts), "captions")
        return ReadCaptions(read.ids, read.texts, remarks, accounts=read.accounts)

    def _account_for_file(self, root: Path | None, read: ReadCaptions) -> list[Account]:
        path = self.paths(root)[0]
        if not is_entities(path):
            check_file_names(path, self.ignore)
        return account_for_phrases(path, self.layout.split, self.ignore, read.ids or ())

    def _select_images(self, root: Path | None, read: ReadPhrases) -> list[int]:
        """The images that are read: without those whose file is missing, if these are skipped."""
        names = {*(self._load_captions(root).ids or ())}
        return [number for number, name in enumerate(read.ids) if name in names]

    def _has_boxes(self, root: Path | None) -> bool:
        return all(None not in regions.values() for regions in self._load_phrases(root).regions)

    def _check_boxes(self, root: Path | None) -> None:
        """Raise UserError for a box that is not within its image."""
        assert self.pixels is not None
        read = self._load_phrases(root)
        sizes = self.pixels.measure_sizes(root)
        for image, (width, height) in zip(self._select_images(root, read), sizes, strict=True):
            place = f"{self.files[0]}, image {read.ids[image]}"
            for box in read.regions[image].values():
                assert box is not None
                check_box(place, box, width, height)


class FilePhrases(PhraseSource):
    """The phrases of a `PhrasesFile`."""

    def __init__(self, corpus: PhrasesFile) -> None:
        self.corpus = corpus
        self.files = corpus.files

    def missing(self, root: Path | None) -> list[Missing]:
        return self.corpus.missing(root)

    def fingerprint(self, root: Path | None) -> str:
        return digest("regions", self.corpus.images_fingerprint(root))

    def load(self, root: Path | None) -> Phrases:
        return self.corpus.load_phrases(root)


def _group_by_caption(read: ReadPhrases, image: int) -> dict[int, list[tuple[int, int, str]]]:
    """Characters and regions of the phrases of an image, by the number of their caption."""
    phrases = dict[int, list[tuple[int, int, str]]]()
    for caption, start, end, region in read.phrases[image]:
        phrases.setdefault(caption, []).append((start, end, region))
    return phrases


def _collect_boxes(read: ReadPhrases, images: Sequence[int]) -> np.ndarray | None:
    """The boxes of the regions of some images, (r, 4); None if some have none."""
    boxes = list[Box]()
    for image in images:
        for box in read.regions[image].values():
            if box is None:
                return None
            boxes.append(box)
    return np.array(boxes, np.int64).reshape(-1, 4)
