"""Image-caption pairs in tar shards in the layout of img2dataset and webdataset: KEY.jpg next to KEY.txt.

Conceptual 12M uses this layout. Captions come from an index of each shard, cached by content; images are read from
their place in the shard on access.
"""

from __future__ import annotations

import json
import logging
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypedDict

from harness.corpora.base import CorpusSource, Pairs, check_positive, some_of
from harness.corpora.pixels import Pixels
from harness.errors import UserError
from harness.sources import Missing, cache_folder, digest, file_hash, write_text

log = logging.getLogger(__name__)

#: version of the index
VERSION = 1
IMAGES, CAPTION = ("jpg", "jpeg", "png"), "txt"


class Index(TypedDict):
    """The pairs of a shard as (key, caption, start, size of the image), and a description of each flaw."""

    pairs: list[tuple[str, str, int, int]]
    flaws: list[str]


class Member(NamedTuple):
    """A file of a shard: its key, and its caption or the place of its image."""

    key: str
    caption: str | None = None
    place: tuple[int, int] = (0, 0)


class ShardPairs(CorpusSource):
    """A folder of *.tar shards in order of names; the first `limit` pairs if a limit is set.

    Other members (KEY.json) and links are ignored. Keys without image or caption, blank captions and truncated
    shards are flaws: up to `bad` of them are skipped and listed in the run's warnings.
    """

    stream = "pairs"

    def __init__(self, path: str, how: str, limit: int | None = None, bad: int = 0) -> None:
        check_positive("limit", limit)
        self.path, self.how, self.limit, self.bad = path, how, limit, bad

    def missing(self, root: Path | None) -> list[Missing]:
        """The folder, if it has no shards."""
        found = root is not None and any((root / self.path).glob("*.tar"))
        return [] if found else [Missing(f"{self.path}/*.tar", self.how)]

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the shards in order and of the limit; `bad` is left out, since it changes no number."""
        return digest("shards", VERSION, [file_hash(shard) for shard in self._shards(root)], self.limit)

    def load(self, root: Path | None) -> Pairs:
        """Load the captions; images are read on access. Raises MissingData or UserError."""
        places: list[tuple[Path, int, int]] = []
        names: list[str] = []
        texts: list[str] = []
        flaws: list[str] = []
        for shard in self._shards(root):
            index = _index(shard)
            flaws += [f"{shard.name}: {flaw}" for flaw in index["flaws"]]
            for key, text, start, size in index["pairs"]:
                places.append((shard, start, size))
                names.append(f"{shard.name}/{key}")
                texts.append(text)
            if self.limit and len(texts) >= self.limit:
                break
        warnings = self._judged(flaws, len(texts))
        rows = range(len(texts[: self.limit]))
        return Pairs(
            texts[: self.limit], Pixels(lambda number: _bytes(*places[number]), names.__getitem__, rows), {}, warnings
        )

    def _judged(self, flaws: list[str], found: int) -> list[str]:
        """The warning about flaws. Raises UserError for more than `bad` flaws or too few pairs."""
        listed = f"{self.path}: {len(flaws)} flaws among {found} pairs: {some_of(flaws)}"
        if len(flaws) > self.bad:
            raise UserError(f"{listed}; fetch the shards again, or set bad = {len(flaws)} for the corpus to skip them")
        if not found or (self.limit and found < self.limit):
            raise UserError(f"{self.path} has {found} pairs, fewer than the limit {self.limit or 1}; fetch more shards")
        warnings = [f"{listed}; they are skipped"] if flaws else []
        for warning in warnings:
            log.warning(warning)
        return warnings

    def _shards(self, root: Path | None) -> list[Path]:
        return sorted((self.require(root) / self.path).glob("*.tar"))


def _bytes(shard: Path, start: int, size: int) -> bytes:
    with shard.open("rb") as stream:
        stream.seek(start)
        return stream.read(size)


def _index(shard: Path) -> Index:
    """The index of a shard, cached by content."""
    note = cache_folder() / "shards" / f"{digest('shard', VERSION, file_hash(shard))}.json"
    if note.is_file():
        kept: Index = json.loads(note.read_text(encoding="utf-8"))
        return kept
    images: dict[str, tuple[int, int]] = {}
    captions: dict[str, str] = {}
    flaws: list[str] = []
    for key, caption, place in _members(shard, flaws):
        if key in (images if caption is None else captions):
            flaws.append(f"{key} has two files of one kind, only the first is read")
        elif caption is None:
            images[key] = place
        else:
            captions[key] = caption
    flaws += [f"{key} has no caption" for key in images if key not in captions]
    flaws += [f"{key} has no image" for key in captions if key not in images]
    both = [key for key in images if key in captions]
    flaws += [f"{key} has a blank caption" for key in both if not captions[key]]
    found = Index(pairs=[(key, captions[key], *images[key]) for key in both if captions[key]], flaws=flaws)
    write_text(note, json.dumps(found, ensure_ascii=False))
    return found


def _members(shard: Path, flaws: list[str]) -> Iterator[Member]:
    """Images and captions in the order of the shard; a key ends at the first full stop of the file name."""
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                folder, slash, name = member.name.rpartition("/")
                stem, _, ending = name.partition(".")
                key, kind = folder + slash + stem, ending.lower()
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                    continue
                # the data of a member may be truncated after a complete header
                if member.offset_data + member.size > shard.stat().st_size:
                    raise tarfile.ReadError("unexpected end of data")
                if kind in IMAGES:
                    yield Member(key, place=(member.offset_data, member.size))
                elif kind == CAPTION:
                    raw = _bytes(shard, member.offset_data, member.size)
                    yield Member(key, " ".join(raw.decode("utf-8", errors="replace").split()))
            # tarfile takes a truncated or missing header for the end of the archive, which is a block of zeros
            if _bytes(shard, archive.offset, tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("no end mark")
    except (tarfile.TarError, OSError, EOFError) as error:
        flaws.append(f"the shard is truncated or damaged ({error})")
