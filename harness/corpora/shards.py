"""Image-caption pairs in tar shards, as img2dataset and webdataset lay them out: KEY.jpg and KEY.txt side by side.

Conceptual 12M comes so. Captions are read through an index of each shard, made once for its content; images
are read from their place in the shard when a teacher comes to them.
"""

from __future__ import annotations

import json
import logging
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from harness.corpora.base import CorpusSource, Pairs
from harness.corpora.pixels import Pixels
from harness.errors import MissingData, UserError
from harness.sources import Missing, cache_folder, digest, file_hash, write_text

log = logging.getLogger(__name__)

#: raised when an index comes to hold something else
VERSION = 1
IMAGES, CAPTION = ("jpg", "jpeg", "png"), "txt"
#: flaws that a message names
NAMED = 5


class ShardPairs(CorpusSource):
    """A folder of *.tar shards in order of their names; the first `limit` pairs when one is given.

    Other members (KEY.json) are ignored and links are not followed. A key without an image or a caption, a
    blank caption and a shard that is cut short are flaws: up to `bad` of them are left out and the run's
    warnings name them.
    """

    stream: Literal["sentences", "pairs", "triplets", "images", "audio"] = "pairs"

    def __init__(self, path: str, how: str, limit: int | None = None, bad: int = 0) -> None:
        if limit is not None and limit < 1:
            raise UserError(f"limit = {limit} leaves no pair; give 1 or more in the profile, or leave it out")
        self.path, self.how, self.limit, self.bad = path, how, limit, bad

    def missing(self, root: Path | None) -> list[Missing]:
        """The folder, where it is not there or has no shard."""
        found = root is not None and any((root / self.path).glob("*.tar"))
        return [] if found else [Missing(f"{self.path}/*.tar", self.how)]

    def fingerprint(self, root: Path | None) -> str:
        """Contents of the shards in order, and the limit; `bad` changes no number."""
        return digest("shards", VERSION, [file_hash(shard) for shard in self._shards(root)], self.limit)

    def load(self, root: Path | None) -> Pairs:
        """Captions of the pairs, and images that are read as they are asked for. Raises UserError."""
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
        return Pairs(texts[: self.limit], Pixels(lambda number: _bytes(*places[number]), names, rows), {}, warnings)

    def _judged(self, flaws: list[str], found: int) -> list[str]:
        """The warning about flaws. Raises UserError for more than `bad`, and for too few pairs."""
        told = "; ".join(flaws[:NAMED]) + (f" and {len(flaws) - NAMED} more" if len(flaws) > NAMED else "")
        if len(flaws) > self.bad:
            raise UserError(
                f"{self.path}: {len(flaws)} flaws beside {found} pairs: {told}; "
                f"fetch the shards again, or set bad = {len(flaws)} for the corpus to leave them out"
            )
        if not found or (self.limit and found < self.limit):
            raise UserError(f"{self.path} has {found} pairs, fewer than the limit {self.limit or 1}; fetch more shards")
        warnings = [f"{self.path}: {len(flaws)} flaws are left out beside {found} pairs: {told}"] if flaws else []
        for warning in warnings:
            log.warning(warning)
        return warnings

    def _shards(self, root: Path | None) -> list[Path]:
        absent = self.missing(root)
        if absent or root is None:
            raise MissingData("; ".join(map(str, absent)))
        return sorted((root / self.path).glob("*.tar"))


def _bytes(shard: Path, start: int, size: int) -> bytes:
    with shard.open("rb") as stream:
        stream.seek(start)
        return stream.read(size)


def _index(shard: Path) -> dict[str, Any]:
    """`pairs` as [key, caption, start, size] and `flaws` in words, kept by the shard's content."""
    note = cache_folder() / "shards" / f"{digest('shard', VERSION, file_hash(shard))}.json"
    if note.is_file():
        kept: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
        return kept
    images: dict[str, tuple[int, int]] = {}
    captions: dict[str, str] = {}
    flaws: list[str] = []
    for key, kind, value in _members(shard, flaws):
        held: dict[str, Any] = captions if kind == CAPTION else images
        if key in held:
            flaws.append(f"{key} has two files of one kind, the first is read")
        held.setdefault(key, value)
    flaws += [f"{key} has no caption" for key in images if key not in captions]
    flaws += [f"{key} has no image" for key in captions if key not in images]
    both = [key for key in images if key in captions]
    flaws += [f"{key} has a blank caption" for key in both if not captions[key]]
    found = {"pairs": [[key, captions[key], *images[key]] for key in both if captions[key]], "flaws": flaws}
    write_text(note, json.dumps(found, ensure_ascii=False))
    return found


def _members(shard: Path, flaws: list[str]) -> Iterator[tuple[str, str, Any]]:
    """Key, kind, and caption or the image's place, in the shard's order; a key ends at its name's first full stop."""
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                folder, slash, name = member.name.rpartition("/")
                stem, _, ending = name.partition(".")
                key, kind = folder + slash + stem, ending.lower()
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                    continue
                # a member's data may be cut off behind its whole header
                if member.offset_data + member.size > shard.stat().st_size:
                    raise tarfile.ReadError("unexpected end of data")
                if kind in IMAGES:
                    yield key, IMAGES[0], (member.offset_data, member.size)
                elif kind == CAPTION:
                    raw = _bytes(shard, member.offset_data, member.size)
                    yield key, kind, " ".join(raw.decode("utf-8", errors="replace").split())
            # tarfile takes a header that is cut off, or missing, for the end, which is a block of zeros
            if _bytes(shard, archive.offset, tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("it has no end mark")
    except (tarfile.TarError, OSError, EOFError) as error:
        flaws.append(f"the shard is cut short or damaged ({error})")
