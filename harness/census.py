"""What lies in an input, and what became of it: one record for all kinds of inputs.

Readers account for what they find: files, columns, rows, members of an archive. Whatever is neither
read nor known to be without effect is refused, with the option that decides.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.errors import UserError
from harness.formatting import count_of, first_of

#: names that an account lists; the others are counted
NAMED = 10
#: texts of a sample, at least and up to twice as many, and the most letters of each
SAMPLED = 200
SAMPLED_LETTERS = 500
#: texts that are counted at a time
CHUNK = 4096
#: files that may hold pictures, sounds, or further files
_DATA_FILE = re.compile(
    r".*\.(webp|jpe?g|png|bmp|gif|tiff?|heic|heif|avif|jxl|jp2|j2k|svg|psd|raw|cr2|nef|arw|dng|exr|hdr|tga|p[pgbn]m"
    r"|wav|flac|mp3|ogg|opus|m4a|zip|rar|7z|tar|tgz|gz|bz2|xz|zst|parquet|arrow|npy|npz|h5|hdf5|pt|pth|safetensors"
    r"|lmdb|tfrecord)",
    re.IGNORECASE,
)
#: names in an error
_STATED = 8
_PLAIN = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Account(BaseModel):
    """Things of one sort in an input, and what became of them.

    `sort` is their noun in the plural, such as "columns"; `names` are those of the first of them;
    `why` says why they were left out, or what else they are used for.
    """

    model_config = _PLAIN

    sort: str
    use: Literal["read", "used otherwise", "left out"]
    count: Annotated[int, Field(ge=0)]
    names: tuple[str, ...] = ()
    why: str = ""

    @property
    def line(self) -> str:
        """'2 columns left out (no key names them): id, url'."""
        line = f"{self.count:,} {_inflect(self.sort, self.count)} {self.use}"
        if self.why:
            line += f" ({self.why})"
        names = ", ".join(self.names)
        if names:
            line += f": {names}"
            unnamed = self.count - len(self.names)
            if unnamed:
                line += f" and {unnamed:,} more"
        return line


def _inflect(sort: str, count: int) -> str:
    """The noun of a number of things."""
    return sort.removesuffix("s") if count == 1 else sort


class InputCensus(BaseModel):
    """One input of a run: what was read of it, and what else lies in it.

    `what` is its kind and its name, such as "corpus wiki". `rows` and `images` are counted where
    they are known before the run, `equal_rows` are rows whose text an earlier row has, and
    `unknown_tokens` is the share of tokens, from 0 to 1, that an encoder's vocabulary lacks, by the
    encoder's name, in a sample of the rows.
    """

    model_config = _PLAIN

    what: str
    files: tuple[str, ...] = ()
    rows: Annotated[int, Field(ge=0)] | None = None
    images: Annotated[int, Field(ge=0)] | None = None
    equal_rows: Annotated[int, Field(ge=0)] | None = None
    unknown_tokens: dict[str, Annotated[float, Field(ge=0, le=1)]] = {}
    accounts: tuple[Account, ...] = ()

    @property
    def line(self) -> str:
        """All of it in one line, without the names of what was read."""
        parts = []
        if self.rows is not None:
            parts.append(count_of(self.rows, "row"))
        if self.images is not None:
            parts.append(count_of(self.images, "picture"))
        for encoder, share in self.unknown_tokens.items():
            parts.append(f"{100 * share:.1f} % unknown tokens ({encoder})")
        if self.equal_rows is not None:
            parts.append(f"{self.equal_rows:,} equal to an earlier row")
        parts += [account.line for account in self.accounts if account.use != "read"]
        return f"{self.what}: {'; '.join(parts) or 'not counted before the run'}"

    @property
    def details(self) -> list[str]:
        """A line for each file, and for each sort of things in them."""
        return [*self.files, *(account.line for account in self.accounts)]


class TextSurvey:
    """Counts texts as they pass, and keeps a sample of them, evenly spread over all."""

    def __init__(self) -> None:
        self.count = 0
        self.sample: list[str] = []
        self._stride = 1
        # of a million texts a set of hashes would take longer than reading them
        self._hashes = array("q")

    def add(self, texts: Sequence[str]) -> None:
        """Count texts."""
        self._hashes.extend(map(hash, texts))
        start = -self.count % self._stride
        self.sample += [text[:SAMPLED_LETTERS] for text in texts[start :: self._stride]]
        while len(self.sample) >= 2 * SAMPLED:
            self.sample = self.sample[::2]
            self._stride *= 2
        self.count += len(texts)

    def count_passing(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield texts, of which those that are not empty are counted; many at a time, for speed."""
        remaining = iter(texts)
        while chunk := list(islice(remaining, CHUNK)):
            self.add(list(filter(None, chunk)))
            yield from chunk

    @property
    def equal(self) -> int:
        """The number of texts that an earlier one equals."""
        import numpy as np

        # sorted by numpy in a fraction of the time that its `unique` takes
        hashes = np.sort(np.array(self._hashes))
        return int(np.count_nonzero(hashes[1:] == hashes[:-1]))

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> TextSurvey:
        """The survey of some texts."""
        survey = cls()
        survey.add(list(texts))
        return survey


def account_for(
    sort: str,
    names: Iterable[str],
    use: Literal["read", "used otherwise", "left out"],
    why: str = "",
) -> list[Account]:
    """The account of named things; none if there are none."""
    listed = list(names)
    if not listed:
        return []
    return [Account(sort=sort, use=use, count=len(listed), names=tuple(listed[:NAMED]), why=why)]


def account_for_number(sort: str, count: int, why: str) -> list[Account]:
    """The account of a number of things that are left out; none if there are none."""
    return [Account(sort=sort, use="left out", count=count, why=why)] if count else []


def is_ignored(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name fits one of the patterns of a profile's key `ignore`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_unread_files(
    place: object, sort: str, names: Iterable[str], ignore: Sequence[str]
) -> None:
    """Raise UserError for a file that may hold data, unless a pattern fits it; `names` are paths
    within a folder or an archive.
    """
    doubtful = [
        name for name in names if _DATA_FILE.fullmatch(name) and not is_ignored(name, ignore)
    ]
    if not doubtful:
        return

    noun = _inflect(sort, len(doubtful))
    patterns = list(dict.fromkeys(f"*{PurePosixPath(name).suffix}" for name in doubtful))
    raise UserError(
        f"{place}: the {noun} {first_of(doubtful, _STATED)} would not be read, and may matter; convert what is to be "
        f"read, or leave out the rest: ignore = {patterns}"
    )
