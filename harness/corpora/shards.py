"""Image-caption pairs in tar shards in the layout of img2dataset and webdataset: KEY.jpg next to
KEY.txt.

Conceptual 12M uses this layout. Captions come from an index of each shard, cached by content;
images are read from their place in the shard on access.
"""

from __future__ import annotations

import logging
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from harness.caches import read_or_make_note
from harness.census import (
    Account,
    TextSurvey,
    account_for,
    account_for_number,
    check_unread_files,
)
from harness.corpora.base import CorpusSource, Pairs, check_positive
from harness.datafiles import check_file_names, list_parts
from harness.encoders.media import Pixels
from harness.errors import UserError
from harness.files import open_regular
from harness.formatting import first_of
from harness.sources import (
    HUB,
    OWN_FILE,
    Findings,
    Missing,
    digest,
    hash_file,
    list_absent,
    list_ignorable_patterns,
    resolve_path,
)

log = logging.getLogger(__name__)

#: version of the rows, part of the fingerprint
VERSION = 1
#: version of what a note on a shard holds
INDEX_VERSION = 3
IMAGES = ("jpg", "jpeg", "png")
CAPTION = "txt"
#: counts links, and other members that are no files; no ending of a name has a slash
_LINKS = "/links"
#: what img2dataset writes beside each shard
_BESIDE = re.compile(r"\d+\.parquet")


class ShardPairs(CorpusSource):
    """A folder of *.tar shards in order of names; the first `limit` pairs if a limit is set.

    Other members (KEY.json) and links are left out; pictures of other kinds and archives, in the
    shards or beside them, are refused unless `ignore` names them. Keys without image or caption,
    blank captions and truncated shards are flaws: up to `bad` of them are skipped and listed in the
    run's warnings.
    """

    stream = "pairs"

    def __init__(
        self,
        path: str,
        how: str = OWN_FILE,
        limit: int | None = None,
        bad: int = 0,
        ignore: Sequence[str] = (),
    ) -> None:
        check_positive("limit", limit)
        self.ignore = tuple(ignore)
        self.path = path
        self.how = how
        self.limit = limit
        self.bad = bad

    def missing(self, root: Path | None) -> list[Missing]:
        shards = self.path if self.path.startswith(HUB) else f"{self.path}/*.tar"
        return list_absent(root, shards, self.how)

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the shards in order and of the limit; `bad` is left out, since it does not change
        results.
        """
        hashes = [hash_file(shard) for shard in self._list_shards(root)]
        return digest("shards", VERSION, hashes, self.limit)

    def examined(self, root: Path | None) -> Findings:
        """Count pairs, flaws and other members, by the indexes of the shards."""
        path = resolve_path(self.require(root), self.path)
        check_file_names(path if self.path.startswith(HUB) else path / "*.tar", self.ignore)
        survey = TextSurvey()
        pairs = 0
        flaws = 0
        other_members = Counter[str]()

        for index in map(_get_index, self._list_shards(root)):
            still_read = None if self.limit is None else max(0, self.limit - pairs)
            survey.add([caption for _, caption, *_ in index["pairs"][:still_read]])
            pairs += len(index["pairs"])
            flaws += len(index["flaws"])
            other_members.update(dict(index["others"]))
            if self.limit is not None and pairs >= self.limit:
                break

        rows = pairs if self.limit is None else min(pairs, self.limit)
        accounts = account_for_number("keys", flaws, f"flaws, bad = {self.bad}")
        accounts += account_for_number("pairs", pairs - rows, f"limit = {self.limit}")
        accounts += account_for_number("links", other_members.pop(_LINKS, 0), "not followed")

        endings = [f"*.{ending}" for ending in other_members]
        check_unread_files(path, "members", endings, list_ignorable_patterns(self.how, self.ignore))
        for ending, count in other_members.items():
            why = f"*.{ending}, neither image nor caption"
            accounts += account_for_number("members", count, why)
        accounts += self._account_for_files(path)

        return Findings(rows, (), rows, survey.equal, accounts, survey.sample)

    def _account_for_files(self, path: Path) -> list[Account]:
        """What became of the files beside the shards, and in folders there. Raises UserError."""
        if not path.is_dir():
            return []
        names = []
        for file in path.rglob("*"):
            name = file.relative_to(path).as_posix()
            is_hidden = name.startswith(".") or "/." in name
            is_shard = "/" not in name and fnmatchcase(name, "*.tar")
            if file.is_file() and not is_hidden and not is_shard:
                names.append(name)
        names.sort()

        doubtful = [name for name in names if not _BESIDE.fullmatch(name)]
        check_unread_files(path, "files", doubtful, list_ignorable_patterns(self.how, self.ignore))
        return account_for("files", names, "left out", "no shards")

    def load(self, root: Path | None) -> Pairs:
        pairs: list[tuple[Path, str, str, int, int]] = []
        flaws: list[str] = []
        for shard in self._list_shards(root):
            index = _get_index(shard)
            flaws += [f"{shard.name}: {flaw}" for flaw in index["flaws"]]
            pairs += [(shard, *pair) for pair in index["pairs"]]
            if self.limit and len(pairs) >= self.limit:
                break
        warnings = self._check_flaws(flaws, len(pairs))
        pairs = pairs[: self.limit]

        def read(number: int) -> bytes:
            shard, _, _, start, size = pairs[number]
            return _get_bytes(shard, start, size)

        def name(number: int) -> str:
            shard, key, *_ = pairs[number]
            return f"{shard.name}/{key}"

        captions = [caption for _, _, caption, *_ in pairs]
        return Pairs(captions, Pixels(read, name, len(pairs)), {}, warnings)

    def _check_flaws(self, flaws: list[str], count: int) -> list[str]:
        """The warning about flaws. Raises UserError for more than `bad` flaws or too few pairs."""
        listed = f"{self.path}: {len(flaws)} flaws among {count} pairs: {first_of(flaws, 5, '; ')}"
        if len(flaws) > self.bad:
            raise UserError(
                f"{listed}; restore the shards, or set bad = {len(flaws)} for the corpus to skip them"
            )
        fewest = self.limit or 1
        if count < fewest:
            raise UserError(
                f"{self.path} has {count} pairs, fewer than the limit {fewest}; lower the limit, or add shards"
            )
        if not flaws:
            return []

        warning = f"{listed}; they are skipped"
        log.warning(warning)
        return [warning]

    def _list_shards(self, root: Path | None) -> list[Path]:
        path = resolve_path(self.require(root), self.path)
        return list_parts(path if self.path.startswith(HUB) else path / "*.tar")


def _get_bytes(shard: Path, start: int, size: int) -> bytes:
    with open_regular(shard) as stream:
        stream.seek(start)
        return stream.read(size)


def _get_index(shard: Path) -> Mapping[str, list[Any]]:
    """The index of a shard, cached by its content."""
    note = f"shards/{digest('note on a shard', INDEX_VERSION, hash_file(shard))}.json"
    return read_or_make_note(note, "the shard will be read again", partial(_make_index, shard))


def _make_index(shard: Path) -> dict[str, list[Any]]:
    """The pairs of a shard, each with key, caption, and start and size of its image; a description
    of each flaw; and the number of other members by their endings.
    """
    images: dict[str, tuple[int, int]] = {}
    captions: dict[str, str] = {}
    flaws: list[str] = []
    other_members = Counter[str]()

    for key, content in _list_members(shard, flaws, other_members):
        if key in (captions if isinstance(content, str) else images):
            flaws.append(f"{key} has two files of one kind, only the first is read")
        elif isinstance(content, str):
            captions[key] = content
        else:
            images[key] = content

    flaws += [f"{key} has no caption" for key in images if key not in captions]
    flaws += [f"{key} has no image" for key in captions if key not in images]

    pairs = []
    for key, (start, size) in images.items():
        caption = captions.get(key)
        if caption:
            pairs.append((key, caption, start, size))
        elif caption == "":
            flaws.append(f"{key} has a blank caption")
    return {"pairs": pairs, "flaws": flaws, "others": list(other_members.items())}


def _list_members(
    shard: Path, flaws: list[str], other_members: Counter[str]
) -> Iterator[tuple[str, str | tuple[int, int]]]:
    """Yield keys with captions, or with start and size of images; a key ends at the first full stop
    of the name. `others` counts the other members.
    """
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                    other_members[_LINKS] += 1
                    continue
                start = member.offset_data
                # a complete header can be followed by truncated data
                if start + member.size > shard.stat().st_size:
                    raise tarfile.ReadError("unexpected end of data")

                folder, slash, name = member.name.rpartition("/")
                stem, _, ending = name.partition(".")
                key = folder + slash + stem
                if ending.lower() in IMAGES:
                    yield key, (start, member.size)
                elif ending.lower() == CAPTION:
                    text = _get_bytes(shard, start, member.size).decode(errors="replace")
                    yield key, " ".join(text.split())
                else:
                    other_members[ending] += 1
            # tarfile mistakes a truncated or missing header for the end of the archive, which is a
            # block of zeros
            if _get_bytes(shard, archive.offset, tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("no end mark")
    except (tarfile.TarError, OSError, EOFError) as error:
        flaws.append(f"the shard is truncated or damaged ({error})")
