"""Sentences, triplets and captions in files below the data root: lines of text, and tables of any
format.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from harness.census import Account, TextSurvey, account_for_number
from harness.columnar import read_columns
from harness.columns import DefaultColumn, account_for_columns
from harness.corpora.base import CorpusSource, Pairs, Sentences, Triplets, check_positive
from harness.corpora.caption_layouts import (
    COLUMNS,
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
    StoredFeatures,
    check_missing_images,
)
from harness.datafiles import check_file_names, describe_doubtful_order, read_lines
from harness.datarows import TablePart, detect_columns, read_rows
from harness.errors import RESTORE, UnavailableError, UserError
from harness.formatting import first_of
from harness.remarks import list_text_remarks
from harness.seeds import make_generator
from harness.sources import OWN_FILE, FileSource, Findings, Missing, digest

#: columns of triplets
TRIPLET = ("sent0", "sent1", "hard_neg")
_DEFAULTS = tuple(DefaultColumn(name, "texts") for name in TRIPLET)


class LimitedFile(FileSource, CorpusSource):
    """A text file or a table; only the first `limit` rows if set. `columns` is empty unless it is a
    table.

    `split` selects rows of a table that has such a column: 'train', 'train+dev', or of another
    column 'fold=0+1'; `ignore` are patterns of the names of columns that may be left out.
    """

    def __init__(
        self,
        file: str,
        how: str = OWN_FILE,
        limit: int | None = None,
        columns: Sequence[str] = (),
        split: str | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        super().__init__([file], how)
        check_positive("limit", limit)
        self.limit = limit
        self.columns = tuple(columns)
        self.split = split
        self.ignore = tuple(ignore)
        self._check_columns()

    @abstractmethod
    def _check_columns(self) -> None:
        """Raise UserError for columns that the rows do not have."""

    def fingerprint(self, root: Path | None) -> str:
        split = [] if self.split is None else ["split", self.split]
        return digest(super().fingerprint(root), self.limit, *self.columns, *split)

    def _account_for_columns(self, root: Path | None, columns: Sequence[str]) -> list[Account]:
        path = self.paths(root)[0]
        split = TablePart.parse(self.split)
        return account_for_columns(path, columns, self.ignore, split, _DEFAULTS)

    def _account_for_limit(self, count: int) -> list[Account]:
        """What became of the rows that the limit leaves out, of which there are so many."""
        return account_for_number("rows", count, f"limit = {self.limit}")

    def _check_limit(self, path: Path, count: int) -> None:
        if not count:
            raise UserError(f"{path} has no {self.stream}, but empty ones; {RESTORE}")
        if self.limit and count < self.limit:
            raise UserError(
                f"{path} has {count} {self.stream}, fewer than the limit {self.limit}; lower the limit, or add rows"
            )


class SentencesFile(LimitedFile):
    """One sentence per line, plain or gzip, or per row in the column `column` of a table; empty
    ones are skipped.
    """

    stream = "sentences"

    def __init__(
        self,
        file: str,
        how: str = OWN_FILE,
        limit: int | None = None,
        column: str | None = None,
        split: str | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        columns = () if column is None else (column,)
        super().__init__(file, how, limit, columns, split, ignore)

    def _check_columns(self) -> None:
        if self.split is not None and not self.columns:
            raise UserError(
                f"{self.files[0]} is read as one sentence a line, which has no splits; name a column in the "
                f"profile: column = '...', or remove split = '{self.split}'"
            )

    def load(self, root: Path | None) -> Sentences:
        return Sentences(list(self.texts(root)))

    def examine(self, root: Path | None) -> Findings:
        check_file_names(self.paths(root)[0], self.ignore)
        accounts = self._account_for_columns(root, self.columns) if self.columns else []
        counts = Counter[bool]()
        survey = TextSurvey()
        remarks = list_text_remarks(
            survey.count_passing(self._count_texts(root, counts)), "sentences"
        )

        empty = counts[False]
        sort = "empty rows" if self.columns else "empty lines"
        if empty:
            remarks = [f"{empty} {sort} are left out", *remarks]
        accounts += account_for_number(sort, empty, "no text")
        accounts += self._account_for_limit(self._count_after_limit(root))

        return Findings(
            counts[True],
            remarks,
            equal_rows=survey.equal,
            accounts=accounts,
            sample=survey.sample,
        )

    def texts(self, root: Path | None) -> Iterator[str]:
        return filter(None, self._count_texts(root, Counter()))

    def _count_texts(self, root: Path | None, counts: Counter[bool]) -> Iterator[str]:
        """Yield the texts up to the limit, empty ones too; `counts` says how many have words.
        Raises UserError.
        """
        path = self.paths(root)[0]
        filled = 0

        for text in self._split_texts(path):
            if text:
                filled += 1
            else:
                counts[False] += 1
            yield text
            # what lies after the limit is not read
            if filled == self.limit:
                break
        counts[True] = filled
        self._check_limit(path, filled)

    def _count_after_limit(self, root: Path | None) -> int:
        """The number of texts that the limit leaves out."""
        if self.limit is None:
            return 0
        count = sum(1 for text in self._split_texts(self.paths(root)[0]) if text)
        return max(0, count - self.limit)

    def _split_texts(self, path: Path) -> Iterator[str]:
        if self.columns:
            rows = read_rows(path, *self.columns, split=TablePart.parse(self.split))
            return (" ".join(row.values[0].split()) for row in rows)

        columns = detect_columns(path)
        if columns is not None:
            has = f"a table with the columns {first_of(columns, 10)}" if columns else "JSON"
            raise UserError(
                f"{path}, line 1: {has}, not one sentence a line; name a column in the profile: column = '...', or "
                "read captions of images by kind = 'captions-file'"
            )
        return (line.strip() for line in read_lines(path))


class TripletsFile(LimitedFile):
    """One triplet per row of a table: premise, entailed and contradicted hypothesis.

    `columns` are their three columns; by default those of the CSV that SimCSE publishes (sent0,
    sent1, hard_neg).
    """

    stream = "triplets"

    def _check_columns(self) -> None:
        count = len(self.columns)
        if count not in (0, len(TRIPLET)):
            raise UserError(
                f"columns = {list(self.columns)}: a triplet has three texts; name three columns in the profile"
            )
        if len(set(self.columns)) < count:
            raise UserError(
                f"columns = {list(self.columns)} names a column twice; name three different ones in the profile"
            )

    def examine(self, root: Path | None) -> Findings:
        accounts = self._account_for_columns(root, self.columns or TRIPLET)
        triplets, left_out = self._load_to_limit(root)
        accounts += self._account_for_limit(left_out)
        sides = (triplets.premises, triplets.entailed, triplets.contradicted)
        distinct = {*zip(*sides, strict=True)}
        texts = list(chain.from_iterable(sides))

        return Findings(
            len(triplets),
            list_text_remarks(texts, "texts"),
            equal_rows=len(triplets) - len(distinct),
            accounts=accounts,
            sample=TextSurvey.from_texts(texts).sample,
        )

    def load(self, root: Path | None) -> Triplets:
        triplets, _ = self._load_to_limit(root)
        return triplets

    def _load_to_limit(self, root: Path | None) -> tuple[Triplets, int]:
        """The triplets up to the limit, and the number of the others. Raises UserError."""
        path = self.paths(root)[0]
        columns = self.columns or TRIPLET
        rows = []
        for place, values in read_rows(path, *columns, split=TablePart.parse(self.split)):
            # published texts keep their blanks, on which fingerprints do not depend
            texts = [" ".join(text.split()) if self.columns else text.strip() for text in values]
            if not all(texts):
                raise UserError(
                    f"{place}: a triplet needs three texts; correct the line or remove it"
                )
            rows.append(texts)

        self._check_limit(path, len(rows))
        within = rows[: self.limit]
        return Triplets(*zip(*within, strict=True)), len(rows) - len(within)


class CaptionsFile(FileSource, CorpusSource):
    """Captions with stored image features, with images, or with both.

    The file has a layout of `harness.corpora.caption_layouts`. `image` and `caption` are the columns of a
    table with other names, or their numbers in a table without a header, `image_list` is a file
    with the image of each line of a text, and `split` chooses images of a file with splits, several
    by 'train+restval'. `captions` is 'one' for one caption of each image, drawn once by `caption_seed`
    as MCSE does, or 'all' for every caption. `features` maps teacher -> [file, how, transform, ids]
    of stored image features, matched by image_id if the file has ids and by line otherwise, and
    `caption_features` those of captions, matched by caption. `images` is a folder below the data
    root with files named by image_id (with or without their suffix; Flickr30k:
    'flickr/images', COCO: 'coco/train2014'), or 'jpeg' for that column of the Parquet file. Images
    are needed only by teachers without stored features, and decoded on access. With
    `missing_images = 'skip'` images without a file are left out with their captions, and counted.
    `ignore` are patterns of the names of columns that may be left out.

    `matched` is, for a text file, file and how of the Parquet file with the image and all captions
    of each line (columns image_id, caption and captions). It is needed for 'all' captions and for
    images; training on one caption an image with stored features does without it.
    """

    stream = "pairs"
    pixels: CaptionImages | None = None

    def __init__(
        self,
        file: str,
        how: str = OWN_FILE,
        captions: Literal["one", "all"] = "one",
        caption_seed: int = 0,
        features: Mapping[str, Mapping[str, str]] | None = None,
        images: str | None = None,
        matched: Mapping[str, str] | None = None,
        image: str | int = COLUMNS[0],
        caption: str | int = COLUMNS[1],
        split: str | None = None,
        caption_features: Mapping[str, Mapping[str, str]] | None = None,
        image_list: str | None = None,
        missing_images: Literal["refuse", "skip"] = "refuse",
        ignore: Sequence[str] = (),
    ) -> None:
        super().__init__([file, image_list] if image_list else [file], how)
        self.ignore = tuple(ignore)
        self.layout = CaptionsLayout((image, caption), split, image_list, self.ignore)
        self.missing_images = check_missing_images(missing_images, images)
        if captions not in ("one", "all"):
            raise UserError(
                f"captions = '{captions}' is neither 'one' nor 'all'; write one of them in the profile"
            )

        self.captions = captions
        self.caption_seed = caption_seed
        self._matched = FileSource([matched["file"]], matched["how"]) if matched else None

        if images:
            self.pixels = CaptionImages(file, images, how, self._load_names, self._matched)
        self.stored = FeatureFile.from_tables(features)
        self.stored_captions = FeatureFile.from_tables(caption_features, "caption")

    def missing(self, root: Path | None) -> list[Missing]:
        absent = super().missing(root)
        return absent + self._all.missing(root) if self._all else absent

    def load(self, root: Path | None) -> Pairs:
        by_image = self._load_captions(root).texts
        images = len(by_image)
        image_of = None
        if self.captions == "all":
            image_of = np.repeat(np.arange(images), list(map(len, by_image)))

        return Pairs(
            list(self._draw_texts(by_image)),
            self.pixels.pixels(root, images) if self.pixels else None,
            self._make_stored_features(root, images),
            image_of=image_of,
            caption_features=self._make_stored_captions(root),
        )

    def _make_stored_features(self, root: Path | None, images: int) -> StoredFeatures:
        # a list of images has an order of its own
        doubt = "" if self.layout.image_list else describe_doubtful_order(self.paths(root)[0])
        return StoredFeatures(self.stored, root, lambda: self._get_image_ids(root), images, doubt)

    def _make_stored_captions(self, root: Path | None) -> StoredFeatures:
        return StoredFeatures(self.stored_captions, root, lambda: list(self.texts(root)))

    def texts(self, root: Path | None) -> Iterator[str]:
        return self._draw_texts(self._load_captions(root).texts)

    def _draw_texts(self, by_image: Sequence[Sequence[str]]) -> Iterator[str]:
        return (by_image[image][number] for image, number in self._draw(by_image))

    def _draw(self, by_image: Sequence[Sequence[str]]) -> Iterator[tuple[int, int]]:
        """The image of each row, and the number of its caption among those of the image."""
        for image, texts in enumerate(by_image):
            numbers: Iterable[int] = range(len(texts))
            if self.captions == "one" and len(texts) > 1:
                rng = make_generator(axis="caption", seed=self.caption_seed, image=image)
                numbers = [int(rng.integers(len(texts)))]
            for number in numbers:
                yield image, number

    def examine(self, root: Path | None) -> Findings:
        read = self._load_captions(root)
        images = len(read.texts)
        captions = sum(map(len, read.texts))
        if self.captions == "all" and captions == images:
            why = f"captions = all, but {self.files[0]} has only one caption per image"
            raise UserError(f"{why}; change the option, corpus or setting")

        rows = captions if self.captions == "all" else images
        accounts = self._account_for_file(root, read) + read.accounts
        accounts += account_for_number("captions", captions - rows, "one of each image is drawn")
        survey = TextSurvey.from_texts(self._draw_texts(read.texts))
        return Findings(rows, read.remarks, images, survey.equal, accounts, survey.sample)

    def _account_for_file(self, root: Path | None, read: ReadCaptions) -> list[Account]:
        """What became of the columns of the file. Raises UserError for those that may be meant."""
        check_file_names(self.paths(root)[0], self.ignore)
        pictures = []
        if self.pixels and self.pixels.images == COLUMN and not self._all:
            pictures.append(COLUMN)
        return account_for_captions(self._find_file(root), self._layout, pictures)

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the captions and of how they are drawn; each feature file has its own
        fingerprint.
        """
        matched = [self._all.fingerprint(root)] if self._all else []
        return digest(self.images_fingerprint(root), self.captions, self.caption_seed, *matched)

    def images_fingerprint(self, root: Path | None) -> str:
        content = super().fingerprint(root)
        options = [*self.layout.columns]
        if self.layout.split is not None:
            options.append(self.layout.split)
        if self.missing_images == "skip" and self.pixels is not None:
            options.append(digest("with images", self._load_captions(root).ids))

        # files in the layouts of the papers had no options once, and are as they were
        if len(options) == 2 and self.layout.has_default_columns:
            is_listed = self.layout.image_list is not None
            if is_listed or find_layout(self.paths(root)[0]) in ("lines", "lists"):
                return content
        return digest(content, *options)

    def image_ids(self, root: Path | None) -> list[str] | None:
        return self._get_image_ids(root)

    def image_contents(self, root: Path | None) -> list[str] | None:
        if self.pixels is None or self.pixels.missing(root):
            return None
        return self.pixels.hash_contents(root)

    def with_captions(self, which: Literal["one", "all"]) -> CaptionsFile:
        other = copy.copy(self)
        other.captions = which
        return other

    def check_features(self, root: Path | None, teacher: str, of: str = "image") -> int:
        """Refuse features that do not fit the captions, and a teacher with neither stored features
        nor images.
        """
        files = self.stored_captions if of == "caption" else self.stored
        if teacher in files:
            if self.missing(root) or files[teacher].missing(root):
                return 0
            if of == "caption":
                return self._make_stored_captions(root).check(teacher)
            return self._make_stored_features(root, self.examined(root).images or 0).check(teacher)
        if self.pixels is not None:
            return 0

        has = "no features; name a file of them, or the images"
        if self.stored:
            option = f'images = "{next(iter(self.stored))}"'
            way = f"write {option} at the top of the profile, or METHOD[images=...]"
            has = f"only features of {', '.join(self.stored)}; {way}"
        raise UnavailableError(
            f"{self.files[0]} has no images for the teacher '{teacher}', and {has}"
        )

    @property
    def _all(self) -> FileSource | None:
        """The matched file, if its captions are the rows."""
        return self._matched if self.captions == "all" else None

    def _find_file(self, root: Path | None) -> Path:
        return self._find_matched_file(root) if self._all else self.paths(root)[0]

    @property
    def _layout(self) -> CaptionsLayout:
        """The layout of the file that is read: the matched one has the default columns."""
        return DEFAULT_LAYOUT if self._all else self.layout

    def _load_captions(self, root: Path | None) -> ReadCaptions:
        read = self._load_all_captions(root)
        if self.missing_images == "refuse" or self.pixels is None or self.pixels.missing(root):
            return read
        return self.pixels.exclude_missing(root, read)

    def _load_all_captions(self, root: Path | None) -> ReadCaptions:
        paths = FileSource.paths(self, root)
        image_list = paths[1] if self._layout.image_list else None
        return read_captions(self._find_file(root), self._layout, image_list)

    def _get_image_ids(self, root: Path | None) -> list[str] | None:
        return self._load_names(root).ids

    def _load_names(self, root: Path | None) -> ReadCaptions:
        """The images by name, with the places that the file states."""
        if self._all or self._matched is None or self._matched.missing(root):
            return self._load_captions(root)
        return read_captions(self._find_matched_file(root))

    def _find_matched_file(self, root: Path | None) -> Path:
        """The path of the matched file. Raises UserError if it was matched to other lines."""
        assert self._matched is not None
        path = self._matched.paths(root)[0]
        lines = FileSource.paths(self, root)[0]

        drawn = read_columns(path, "caption").column("caption").to_pylist()
        if drawn != [texts[0] for texts in read_captions(lines).texts]:
            raise UserError(
                f"{path} was matched to other captions than those of {lines}; remove it and {self._matched.how}"
            )
        return path
