"""Corpora in files below the data root.

sentences-file: one sentence a line, UTF-8, plain or gzip, lines split at newlines only; empty lines
are left out. The first `limit` sentences when a limit is given.

captions-file: either a Parquet file with columns image_id and captions (a list of texts), or a text
file with one caption a line (the layout of MCSE's public preparation). `captions` says which rows:
'one' draws one caption an image, once, by `caption_seed`, as MCSE does; 'all' makes every caption a
row. `features` names stored image features, one file a teacher, matched by image_id where both
files have one and by line otherwise.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.corpora.base import CorpusSource, Later, Pairs, Sentences
from harness.corpora.features import FeatureFile, StoredFeatures, first_line
from harness.corpora.pixels import CaptionImages
from harness.errors import UserError
from harness.seeds import generator
from harness.sources import FileSource, digest
from harness.textfiles import lines_of, read_lines


class SentencesFile(FileSource, CorpusSource):
    """One sentence a line."""

    stream: Literal["sentences", "pairs"] = "sentences"

    def __init__(self, file: str, how: str, limit: int | None = None) -> None:
        super().__init__([file], how)
        if limit is not None and limit < 1:
            raise UserError(f"limit = {limit} leaves no sentence; give 1 or more in the profile, or leave it out")
        self.limit = limit

    def load(self, root: Path | None) -> Sentences:
        """Read the sentences."""
        return Sentences(list(self.texts(root)))

    def texts(self, root: Path | None) -> Iterator[str]:
        """The sentences, read as they are asked for. Raises UserError, at the end for fewer than the limit."""
        path = self.paths(root)[0]
        found = 0
        for line in lines_of(path):
            if text := line.strip():
                yield text
                found += 1
            if found == self.limit:
                return
        if not found:
            raise UserError(f"{path} is empty; fetch it again")
        if self.limit:
            raise UserError(f"{path} has {found} sentences, fewer than the limit {self.limit}; fetch the whole file")

    def fingerprint(self, root: Path | None) -> str:
        """Content and limit."""
        return digest(super().fingerprint(root), self.limit)


class CaptionsFile(FileSource, CorpusSource):
    """Captions with stored image features, with images, or with both.

    `images` is a folder below the data root whose files are named by image_id (with or without .jpg, .jpeg or
    .png; Flickr30k: 'flickr/images', COCO: 'coco/train2014'), or 'jpeg' for that column of the captions' own
    Parquet file. Images are looked for only where a teacher reads them, and decoded as it goes.
    """

    stream: Literal["sentences", "pairs"] = "pairs"
    pixels: CaptionImages | None = None

    def __init__(
        self,
        file: str,
        how: str,
        captions: Literal["one", "all"] = "one",
        caption_seed: int = 0,
        features: Mapping[str, Mapping[str, Any]] | None = None,
        images: str | None = None,
    ) -> None:
        super().__init__([file], how)
        if captions not in ("one", "all"):
            raise UserError(f"captions = '{captions}' is neither 'one' nor 'all'; write one of them in the profile")
        self.captions, self.caption_seed = captions, caption_seed
        if images:
            self.pixels = CaptionImages(file, images, how, self._ids)
        self.stored = {name: FeatureFile(**table) for name, table in (features or {}).items()}

    def load(self, root: Path | None) -> Pairs:
        """Count the captions; they are read and drawn, and features opened, only when they are asked for."""
        path = self.paths(root)[0]
        counts = count_captions(path)
        images = np.arange(len(counts))
        image_of = np.repeat(images, counts) if self.captions == "all" else None
        texts = Later(len(images) if image_of is None else len(image_of), lambda: list(self.texts(root)))
        pixels = self.pixels.pixels(root, images) if self.pixels else None
        stored = StoredFeatures(self.stored, root, lambda: self._ids(root), len(images))
        return Pairs(texts, pixels, stored, image_of=image_of)

    def texts(self, root: Path | None) -> Iterator[str]:
        """The captions, drawn as the file's options say. Raises UserError."""
        for image, texts in enumerate(read_captions(self.paths(root)[0])[1]):
            yield from self._choose(image, texts)

    def fingerprint(self, root: Path | None) -> str:
        """Captions and the way they are drawn; each feature file has its own fingerprint."""
        return digest(super().fingerprint(root), self.captions, self.caption_seed)

    def images_fingerprint(self, root: Path | None) -> str:
        """The file's content."""
        return super().fingerprint(root)

    def with_captions(self, which: Literal["one", "all"]) -> CaptionsFile:
        """The same file with one caption of an image as a row, or every one."""
        other = copy.copy(self)
        other.captions = which
        return other

    def _ids(self, root: Path | None) -> list[str] | None:
        return read_captions(self.paths(root)[0])[0]

    def _choose(self, image: int, texts: list[str]) -> list[str]:
        if self.captions == "all" or len(texts) == 1:
            return texts
        return [texts[int(generator(axis="caption", seed=self.caption_seed, image=image).integers(len(texts)))]]


def count_captions(path: Path) -> np.ndarray:
    """The number of each image's captions, (images,). Raises UserError."""
    if path.suffix != ".parquet":
        return np.ones(len(read_lines(path)), np.int64)
    listed = _column(path, "captions")
    whole = all(not part.null_count and not part.flatten().null_count for part in listed.chunks)
    counts = np.concatenate([np.zeros(0, np.int64), *(part.value_lengths().to_numpy(False) for part in listed.chunks)])
    if not (whole and counts.all()):
        read_captions(path)
    return counts.astype(np.int64)


def read_captions(path: Path) -> tuple[list[str] | None, list[list[str]]]:
    """Image ids (None where the file has none) and each image's captions. Raises UserError."""
    if path.suffix != ".parquet":
        return None, [[line.strip() or " "] for line in read_lines(path)]
    names, listed = _column(path, "image_id").to_pylist(), _column(path, "captions").to_pylist()
    for name, texts in zip(names, listed, strict=True):
        if not texts or not all(isinstance(text, str) for text in texts):
            raise UserError(f"{path}: the image {name} has no list of captions; remove its row or fetch the file again")
    ids = [str(name) for name in names]
    if len(set(ids)) < len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        raise UserError(f"{path} has the image {twice} twice; put its captions into one row or fetch the file again")
    return ids, listed


def _column(path: Path, name: str) -> Any:
    """A column of a Parquet file of captions. Raises UserError where it is none."""
    import pyarrow.parquet as parquet
    from pyarrow import ArrowException, types

    try:
        column = parquet.read_table(path, columns=["image_id", "captions"]).column(name)
        if name == "captions" and not (types.is_list(column.type) or types.is_large_list(column.type)):
            raise KeyError(f"its captions are of the type {column.type}, not lists of texts")
    except (ArrowException, OSError, KeyError) as error:
        raise UserError(
            f"{path} is no Parquet file with columns image_id and captions: {first_line(error)}; fetch it again"
        ) from error
    return column
