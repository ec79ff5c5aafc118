"""Sentences, triplets and captions in files below the data root: lines of text, tables of users, Parquet.

Columns of a table of captions are found by name in its header. Without a header there are two columns, image and
caption, as in the files published with Flickr8k and Flickr30k, where a number follows the image's name
(`10815824.jpg#0`). Lines of one image need not be adjacent; images are in the order of their first lines.
"""

from __future__ import annotations

import copy
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from harness.corpora.base import CorpusSource, LazyTexts, Pairs, Sentences, Triplets, check_positive
from harness.corpora.images import CaptionFeatureFile, CaptionImages, FeatureFile, StoredFeatures
from harness.errors import RESTORE, UserError
from harness.seeds import generator
from harness.sources import OWN_FILE, FileSource, Missing, digest
from harness.tables import TableRow, cells_of, is_jsonl, is_table, lines_of, read_columns, read_lines, read_rows

if TYPE_CHECKING:
    from pyarrow import ChunkedArray

#: columns of triplets
COLUMNS = ("sent0", "sent1", "hard_neg")
#: columns of a table of captions
IMAGE, CAPTION = "image", "caption"
#: names of image files: a first line with such a name is not a header
_IMAGE_FILE = re.compile(r".*\.(jpe?g|png|gif|bmp|webp|tiff?)(#\d+)?", re.IGNORECASE)
_NUMBER = re.compile(r"(?<=.)#\d+$")


class LimitedFile(FileSource, CorpusSource):
    """A text file or a table; only the first `limit` rows if set. `columns` is empty unless it is a table."""

    def __init__(self, file: str, how: str = OWN_FILE, limit: int | None = None, columns: Sequence[str] = ()) -> None:
        super().__init__([file], how)
        check_positive("limit", limit)
        self.limit, self.columns = limit, tuple(columns)

    def fingerprint(self, root: Path | None) -> str:
        return digest(super().fingerprint(root), self.limit, *self.columns)

    def check(self, root: Path | None) -> None:
        if self.columns and not self.missing(root):
            next(read_rows(self.paths(root)[0], *self.columns), None)

    def _check_limit(self, path: Path, count: int) -> None:
        if self.limit and count < self.limit:
            raise UserError(
                f"{path} has {count} {self.stream}, fewer than the limit {self.limit}; lower the limit, or add rows"
            )


class SentencesFile(LimitedFile):
    """One sentence per line, plain or gzip, or per row in the column `column` of a table; empty ones are skipped."""

    stream = "sentences"

    def __init__(self, file: str, how: str = OWN_FILE, limit: int | None = None, column: str | None = None) -> None:
        super().__init__(file, how, limit, () if column is None else (column,))

    def load(self, root: Path | None) -> Sentences:
        return Sentences(list(self.texts(root)))

    def expected(self, root: Path | None) -> int | None:
        """The limit, else the number of lines, blank ones included."""
        return self.limit or sum(1 for _ in lines_of(self.paths(root)[0]))

    def texts(self, root: Path | None) -> Iterator[str]:
        path = self.paths(root)[0]
        count = 0
        for text in self._lines(path):
            if text:
                yield text
                count += 1
            if count == self.limit:
                return
        if not count:
            raise UserError(f"{path} is empty; {RESTORE}")
        self._check_limit(path, count)

    def _lines(self, path: Path) -> Iterator[str]:
        if self.columns:
            return (" ".join(row.values[0].split()) for row in read_rows(path, *self.columns))
        return (line.strip() for line in lines_of(path))


class TripletsFile(LimitedFile):
    """One triplet per line: premise, entailed and contradicted hypothesis.

    `columns` are their three columns in a table (.tsv, .csv or .jsonl). Without them, the header line tells the CSV
    that SimCSE publishes (quoted; columns sent0, sent1, hard_neg) from text with tabs and without quoting, plain or
    gzip, that has these columns.
    """

    stream = "triplets"

    def __init__(self, file: str, how: str = OWN_FILE, limit: int | None = None, columns: Sequence[str] = ()) -> None:
        super().__init__(file, how, limit, columns)
        if self.columns and len(self.columns) != len(COLUMNS):
            raise UserError(f"columns = {list(columns)}: a triplet has three texts; name three columns in the profile")
        if len(set(self.columns)) < len(self.columns):
            raise UserError(f"columns = {list(columns)} names a column twice; name three different ones in the profile")

    def load(self, root: Path | None) -> Triplets:
        path = self.paths(root)[0]
        rows = []
        for line, texts in _chosen(path, self.columns) if self.columns else _published(path):
            if len(texts) < len(COLUMNS) or not all(texts):
                raise UserError(f"{path}, line {line}: a triplet needs three texts; correct the line or remove it")
            rows.append(texts)
        if not rows:
            raise UserError(f"{path} has no triplets; give a file with rows")
        self._check_limit(path, len(rows))
        return Triplets(*zip(*rows[: self.limit], strict=True))


class CaptionsFile(FileSource, CorpusSource):
    """Captions with stored image features, with images, or with both.

    The file is Parquet (columns image_id and captions, a list of strings), a table with an image's file name and one of
    its captions on a line, or text with one caption per line, as MCSE's preprocessing writes it.
    In a table (.tsv, .csv or .jsonl), `image` and `caption` are the columns of the image's file name and the caption.
    `captions` is 'one' for one caption of each image, drawn once by `caption_seed` as MCSE does, or 'all' for every
    caption. `features` maps teacher -> [file, how, transform, ids] of stored image features, matched by image_id if the
    file has ids and by line otherwise, and `caption_features` those of captions, matched by caption. `images` is a
    folder below the data root with files named by image_id (with or without .jpg, .jpeg or .png; Flickr30k:
    'flickr/images', COCO: 'coco/train2014'), or 'jpeg' for that column of the Parquet file. Images are needed only by
    teachers without stored features, and decoded on access.

    `matched` is, for a text file, file and how of the Parquet file with the image and all captions of each line
    (columns image_id, caption and captions). It is needed for 'all' captions and for images; training on one caption an
    image with stored features does without it.
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
        image: str = IMAGE,
        caption: str = CAPTION,
        caption_features: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__([file], how)
        self.columns = (image, caption)
        if captions not in ("one", "all"):
            raise UserError(f"captions = '{captions}' is neither 'one' nor 'all'; write one of them in the profile")
        self.captions, self.caption_seed = captions, caption_seed
        self._matched = FileSource([matched["file"]], matched["how"]) if matched else None
        if images:
            self.pixels = CaptionImages(file, images, how, self._ids, self._matched)
        self.stored = FeatureFile.of_tables(features)
        self.stored_captions = CaptionFeatureFile.of_tables(caption_features)

    def missing(self, root: Path | None) -> list[Missing]:
        return super().missing(root) + (self._all.missing(root) if self._all else [])

    def load(self, root: Path | None) -> Pairs:
        counts = count_captions(self._file(root), *self.columns)
        images = len(counts)
        image_of = np.repeat(np.arange(images), counts) if self.captions == "all" else None
        texts = LazyTexts(images if image_of is None else len(image_of), lambda: list(self.texts(root)))
        pixels = self.pixels.pixels(root, images) if self.pixels else None
        captions = self._stored_captions(root)
        return Pairs(texts, pixels, self._stored(root, images), image_of=image_of, caption_features=captions)

    def _stored(self, root: Path | None, images: int) -> StoredFeatures:
        return StoredFeatures(self.stored, root, lambda: self._ids(root), images)

    def _stored_captions(self, root: Path | None) -> StoredFeatures:
        return StoredFeatures(self.stored_captions, root, lambda: list(self.texts(root)))

    def texts(self, root: Path | None) -> Iterator[str]:
        for image, texts in enumerate(read_captions(self._file(root), *self.columns)[1]):
            if self.captions == "all" or len(texts) == 1:
                yield from texts
            else:
                yield texts[int(generator(axis="caption", seed=self.caption_seed, image=image).integers(len(texts)))]

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the captions and of how they are drawn; each feature file has its own fingerprint."""
        matched = [self._all.fingerprint(root)] if self._all else []
        return digest(self.images_fingerprint(root), self.captions, self.caption_seed, *matched)

    def images_fingerprint(self, root: Path | None) -> str:
        content = super().fingerprint(root)
        return digest(content, *self.columns) if is_table(self.files[0]) else content

    def image_ids(self, root: Path | None) -> list[str] | None:
        return self._ids(root)

    def with_captions(self, which: Literal["one", "all"]) -> CaptionsFile:
        other = copy.copy(self)
        other.captions = which
        return other

    def check(self, root: Path | None) -> None:
        """Refuse an unreadable table, and `captions = all` for a file with one caption per image."""
        if is_table(self.files[0]) and not self.missing(root):
            read_captions(self.paths(root)[0], *self.columns)
        if self.captions == "one" or self._all:
            return
        lone = not self.files[0].endswith(".parquet") and not is_table(self.files[0])
        if not lone and not self.missing(root):
            lone = bool((count_captions(self.paths(root)[0], *self.columns) == 1).all())
        if lone:
            raise UserError(f"captions = all, but {self.files[0]} has only one caption per image")

    def check_features(self, root: Path | None, teacher: str, of: str = "image") -> None:
        """Refuse features that do not fit the captions, and a teacher with neither stored features nor images."""
        if of == "caption":
            if not self.missing(root) and not self.stored_captions[teacher].missing(root):
                self._stored_captions(root).check(teacher)
        elif teacher in self.stored:
            if not self.missing(root) and not self.stored[teacher].missing(root):
                self._stored(root, len(count_captions(self._file(root), *self.columns))).check(teacher)
        elif self.pixels is None:
            named = ", ".join(self.stored)
            use = f'write images = "{next(iter(self.stored), "")}" at the top of the profile, or METHOD[images=...]'
            has = f"only features of {named}; {use}" if named else "no features; name a file of them, or the images"
            raise UserError(f"{self.files[0]} has no images for the teacher '{teacher}', and {has}")

    @property
    def _all(self) -> FileSource | None:
        """The matched file, if its captions are the rows."""
        return self._matched if self.captions == "all" else None

    def _file(self, root: Path | None) -> Path:
        return self._file_of_lines(root) if self._all else self.paths(root)[0]

    def _ids(self, root: Path | None) -> list[str] | None:
        known = self._matched is not None and not self._matched.missing(root)
        return read_captions(self._file_of_lines(root) if known else self.paths(root)[0], *self.columns)[0]

    def _file_of_lines(self, root: Path | None) -> Path:
        """The path of the matched file. Raises UserError if it was matched to other lines."""
        assert self._matched is not None
        path, lines = self._matched.paths(root)[0], FileSource.paths(self, root)[0]
        drawn = read_columns(path, "caption").column("caption").to_pylist()
        if drawn != [texts[0] for texts in read_captions(lines)[1]]:
            raise UserError(
                f"{path} was matched to other captions than those of {lines}; remove it and {self._matched.how}"
            )
        return path


def _chosen(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    for line, texts in read_rows(path, *columns):
        yield TableRow(line, tuple(" ".join(text.split()) for text in texts))


def _published(path: Path) -> Iterator[TableRow]:
    lines = read_lines(path)
    tabs = "\t" in lines[0]
    broken = (f"{line}\n" for line in lines)
    reader = csv.reader(broken, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)
    try:
        header = [name.strip() for name in next(reader)]
        places = [header.index(name) for name in COLUMNS]
        for row in filter(None, reader):
            yield TableRow(reader.line_num, tuple(row[column].strip() for column in places if column < len(row)))
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; correct the line") from error
    except ValueError as error:
        raise UserError(f"{path} needs the columns {', '.join(COLUMNS)}: {error}; {RESTORE}") from error


def count_captions(path: Path, image: str = IMAGE, caption: str = CAPTION) -> np.ndarray:
    """The number of captions of each image, (images,). Raises UserError."""
    if is_table(path.name):
        return np.array([len(texts) for texts in captions_by_image(path, image, caption).values()], np.int64)
    if path.suffix != ".parquet":
        return np.ones(len(read_lines(path)), np.int64)
    _, listed = _columns(path)
    whole = all(not part.null_count and not part.flatten().null_count for part in listed.chunks)
    counts = np.concatenate([np.zeros(0, np.int64), *(part.value_lengths().to_numpy(False) for part in listed.chunks)])
    if not (whole and counts.all()):
        read_captions(path)
    return counts.astype(np.int64)


def read_captions(path: Path, image: str = IMAGE, caption: str = CAPTION) -> tuple[list[str] | None, list[list[str]]]:
    """Image ids (None for a text file) and the captions of each image. Raises UserError."""
    if is_table(path.name):
        by_image = captions_by_image(path, image, caption)
        return list(by_image), list(by_image.values())
    if path.suffix != ".parquet":
        return None, [[line.strip() or " "] for line in read_lines(path)]
    names, listed = (column.to_pylist() for column in _columns(path))
    for name, texts in zip(names, listed, strict=True):
        if not texts or not all(isinstance(text, str) for text in texts):
            raise UserError(f"{path}: the image {name} has no list of captions; remove its row")
    ids = [str(name) for name in names]
    if len(set(ids)) < len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        raise UserError(f"{path} has the image {twice} twice; merge its rows")
    return ids, listed


def _columns(path: Path) -> tuple[ChunkedArray, ChunkedArray]:
    """Image ids and lists of captions of a Parquet file. Raises UserError."""
    from pyarrow import types

    table = read_columns(path, "image_id", "captions")
    captions = table.column("captions")
    if not (types.is_list(captions.type) or types.is_large_list(captions.type)):
        raise UserError(f"{path}: captions are of the type {captions.type}, not lists of strings; convert them")
    return table.column("image_id"), captions


def captions_by_image(path: Path, image: str = IMAGE, caption: str = CAPTION) -> dict[str, list[str]]:
    """The captions of each image, by its file name. Raises UserError naming the line."""
    by_image: dict[str, list[str]] = {}
    for line, (name, text) in _rows(path, image, caption):
        name, text = _NUMBER.sub("", name.strip()), " ".join(text.split())
        if not name or not text:
            what = "caption" if name else "file name of an image"
            raise UserError(f"{path}, line {line}: no {what}; correct the line or remove it")
        by_image.setdefault(name, []).append(text)
    if not by_image:
        raise UserError(f"{path} has no captions; give a table with rows")
    return by_image


def _rows(path: Path, image: str, caption: str) -> Iterator[TableRow]:
    if is_jsonl(path):
        return read_rows(path, image, caption)
    rows = cells_of(path)
    line, first = next(rows, (1, []))
    if {image, caption} <= {*first} or (image, caption) != (IMAGE, CAPTION):
        return read_rows(path, image, caption)
    if len(first) != 2 or not _IMAGE_FILE.fullmatch(first[0].strip()):
        raise UserError(
            f"{path}, line {line}: neither a header with the columns '{image}' and '{caption}' nor an image's file "
            "name and its caption; name the columns in the profile: image = '...', caption = '...'"
        )
    return _without_header(path, chain([(line, first)], rows))


def _without_header(path: Path, rows: Iterator[tuple[int, list[str]]]) -> Iterator[TableRow]:
    for line, cells in rows:
        if len(cells) != 2:
            raise UserError(f"{path}, line {line}: {len(cells)} fields, the lines above have 2; correct the line")
        yield TableRow(line, (cells[0], cells[1]))
