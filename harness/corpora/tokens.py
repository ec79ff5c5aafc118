"""Tokenised text on disk: a corpus is tokenised once per tokenizer, and training maps the token ids
into memory.

The cache has two flat files per corpus: `KEY.ids` (token ids with special tokens, truncated at the
training's `max_length`) and `KEY.offsets` (the start of each sentence, int64). `KEY.json` is
written last and holds their hashes; without it the files are ignored. Each process checks the
hashes once, when it maps the files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.caches import make_in_cache
from harness.corpora.base import Phrases
from harness.encoders.rows import TokenRows
from harness.errors import UserError
from harness.events import Event, Stage, tell
from harness.files import keep_files, replace_file, write_bytes
from harness.locks import hold_lock
from harness.sources import digest, hash_reading_code, list_versions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: version of the layout
VERSION = 2
#: sentences tokenised at a time, in parallel
CHUNK = 16384


@dataclass(frozen=True)
class TokenFile:
    """Token ids of n sentences, memory-mapped: sentence i is ids[offsets[i] : offsets[i + 1]]."""

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1


class Tokens:
    """Rows of one stream from one or more corpora, each of `per_row` sentences (three for
    triplets).
    """

    def __init__(self, files: Sequence[TokenFile], pad: int, per_row: int = 1) -> None:
        self._files = tuple(files)
        self._pad = pad
        self._per_row = per_row
        self._starts = np.cumsum([0, *map(len, files)])

    def __len__(self) -> int:
        return int(self._starts[-1]) // self._per_row

    @property
    def count(self) -> int:
        return sum(len(file.ids) for file in self._files)

    def batch(self, rows: np.ndarray) -> TokenRows:
        sentences = (rows[:, None] * self._per_row + np.arange(self._per_row)).ravel()
        begins = np.empty(len(sentences), np.int64)
        lengths = np.empty(len(sentences), np.int64)
        file_of = np.searchsorted(self._starts, sentences, side="right") - 1

        for number, file in enumerate(self._files):
            is_of_file = file_of == number
            numbers = sentences[is_of_file] - self._starts[number]
            begins[is_of_file] = file.offsets[numbers]
            lengths[is_of_file] = file.offsets[numbers + 1] - begins[is_of_file]

        columns = np.arange(max(1, lengths.max()))
        is_token = columns < lengths[:, None]
        places = begins[:, None] + columns
        ids = np.full(is_token.shape, self._pad, np.int64)

        for number, file in enumerate(self._files):
            is_of_file = is_token & (file_of == number)[:, None]
            ids[is_of_file] = file.ids[places[is_of_file]]
        return TokenRows.from_padded(ids, lengths)


class Utf8:
    """A tokenizer whose tokens are the bytes of whole texts, for methods that read texts."""

    pad_token_id: ClassVar[int] = 0
    init_kwargs: ClassVar[dict[str, str]] = {}

    def __len__(self) -> int:
        return 256

    def get_vocab(self) -> dict[str, int]:
        return {}

    def __call__(self, texts: Sequence[str], **options: object) -> dict[str, list[list[int]]]:
        return {"input_ids": [list(text.encode()) for text in texts]}


def decode_texts(rows: TokenRows) -> tuple[str, ...]:
    """The texts of rows that `Utf8` made."""
    return tuple(bytes(ids).decode().rstrip("\0") for ids in rows.list_ids())


def hash_tokenizer(tokenizer: PreTrainedTokenizerBase | Utf8) -> str:
    """A hash of everything that determines the token ids of a sentence."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    code = [type(tokenizer).__name__, list_versions("tokenizers")]
    if fast is None:
        return digest(code, sorted(tokenizer.get_vocab().items()), tokenizer.init_kwargs)
    # set by the last caller; the length is part of the tokens' own key
    last_call = {"truncation": None, "padding": None}
    return digest(code, json.loads(fast.to_str()) | last_call)


def encode_texts(
    texts: Iterable[str], tokenizer: PreTrainedTokenizerBase | Utf8, max_length: int
) -> Iterator[list[list[int]]]:
    """Yield token ids of texts, truncated at `max_length` tokens with special tokens, chunk by
    chunk.

    A fast tokenizer uses all cores for a chunk.
    """
    listed = iter(texts)
    while chunk := list(islice(listed, CHUNK)):
        if fast := getattr(tokenizer, "backend_tokenizer", None):
            fast.no_padding()
            fast.enable_truncation(max_length)
            yield [encoding.ids for encoding in fast.encode_batch_fast(chunk)]
        else:
            yield tokenizer(chunk, truncation=True, max_length=max_length)["input_ids"]


def find_token_spans(
    texts: Sequence[str], phrases: Phrases, tokenizer: Any, max_length: int
) -> np.ndarray:
    """The tokens of phrases in the rows that `encode_texts` makes of their captions: (p, 2) int64,
    from the first to the one after the last.

    A token belongs to a phrase if it has one of its characters. A phrase that is cut with its row,
    or of which no token was made, has -1 twice. Raises UserError for a tokenizer that does not say
    where its tokens stand.
    """
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise UserError(
            f"{type(tokenizer).__name__} does not say where its tokens stand in a text, which "
            "phrases need; use an encoder with a tokenizer.json"
        )
    fast.no_padding()
    fast.no_truncation()

    spans = np.full((len(phrases), 2), -1, np.int64)
    named, firsts = np.unique(phrases.captions, return_index=True)
    ends = [*firsts[1:].tolist(), len(phrases)]
    captions = zip(named.tolist(), firsts.tolist(), ends, strict=True)
    while chunk := list(islice(captions, CHUNK)):
        encodings = fast.encode_batch([texts[caption] for caption, _, _ in chunk])
        for encoding, (_, first, end) in zip(encodings, chunk, strict=True):
            offsets = _list_kept_offsets(encoding, max_length)

            for number in range(first, end):
                start, stop = phrases.spans[number].tolist()
                places = [place for place, (a, b) in offsets if a < stop and b > start]
                # a token that was cut had characters of the phrase if those that are kept lack its end
                if places and (len(encoding) <= max_length or offsets[-1][1][1] >= stop):
                    spans[number] = places[0], places[-1] + 1
    return spans


def _list_kept_offsets(encoding: Any, max_length: int) -> list[tuple[int, tuple[int, int]]]:
    """The places of a row's tokens that have characters of the text, and these characters."""
    count = len(encoding)
    if count > max_length:
        # the special tokens at the end of a row stay when it is cut
        count = max_length - encoding.special_tokens_mask[::-1].index(0)
    offsets = enumerate(encoding.offsets[:count])
    return [(place, (start, end)) for place, (start, end) in offsets if end > start]


def get_tokens(
    content: str,
    texts: Callable[[], Iterable[str]],
    tokenizer: PreTrainedTokenizerBase | Utf8,
    max_length: int,
    name: str = "",
    expected: Callable[[], int | None] = lambda: None,
) -> TokenFile:
    """The tokens of a corpus, mapped from the cache; if they are not cached, `texts` is called and
    tokenised.

    `content` is the fingerprint of the corpus, `expected` the number of its texts if known; what is
    tokenised is told under its `name`. One process tokenises while others wait; damaged files are
    replaced.
    """
    key = digest(
        "tokens", VERSION, hash_reading_code(), content, hash_tokenizer(tokenizer), max_length
    )

    def map_from(folder: Path) -> TokenFile:
        note = folder / f"{key}.json"
        files = {member: note.with_suffix(f".{member}") for member in ("ids", "offsets")}

        def write() -> dict[str, str]:
            chunks = encode_texts(texts(), tokenizer, max_length)
            return _write_tokens(files, chunks, len(tokenizer), name, expected())

        with hold_lock(folder / f"{key}.lock", note):
            noted = keep_files(note, files, "the texts will be tokenised again", write)
            ids = np.memmap(files["ids"], np.dtype(str(noted["dtype"])), mode="r")
            return TokenFile(ids, np.memmap(files["offsets"], "<i8", mode="r"))

    return make_in_cache("tokens", map_from)


def _write_tokens(
    files: Mapping[str, Path],
    chunks: Iterable[list[list[int]]],
    vocabulary: int,
    name: str,
    expected: int | None,
) -> dict[str, str]:
    """Write ids and offsets; return the type of the ids."""
    dtype = np.dtype("<u2") if vocabulary <= 2**16 else np.dtype("<u4")
    lengths = [0]

    with replace_file(files["ids"]) as stream:
        for chunk in chunks:
            lengths += map(len, chunk)
            stream.write(np.fromiter(chain.from_iterable(chunk), dtype).tobytes())
            tell(Event("prepare", stage=Stage("tokens", name, len(lengths) - 1, expected)))

    write_bytes(files["offsets"], np.cumsum(lengths).astype("<i8").tobytes())
    return {"dtype": dtype.str}
