"""Rows of token ids: padded to one length, and packed one after another without padding.

Tokens are counted on the host while a batch is made, since counting on an accelerator would block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

#: inputs of an encoder, by name
EncoderInputs = Mapping[str, Tensor]
#: the token ids of each row, without padding
IdRows = Sequence[Sequence[int]]
#: the inputs that say which tokens there are, (B, L) each
NAMES = ("input_ids", "attention_mask")
#: Tokens in one batch of `embed`; large enough for the matrix products, small enough for caches.
TOKENS_A_BATCH = 8192
#: Numbers of the states of one batch on the CPU, whose caches those of more tokens would leave.
CPU_NUMBERS_A_BATCH = 3 * 2**19


@dataclass(frozen=True)
class Packed:
    """The N tokens of B rows, row after row.

    `ids` and `columns`, (N,), are a token's id and its place in its row; `places`, (N,), its place
    among the B x L padded ones; row i is `offsets[i] : offsets[i + 1]`, (B + 1,), in int32, as
    kernels of attention want it; the others are int64. `longest` is L, `shortest` the length of the
    shortest row.
    """

    ids: Tensor
    columns: Tensor
    places: Tensor
    offsets: Tensor
    longest: int
    shortest: int

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def firsts(self) -> Tensor:
        """Where each row begins: (B,)."""
        return self.offsets[:-1]

    @property
    def row_numbers(self) -> Tensor:
        """The row of each token: (N,) int64."""
        rows = torch.arange(self.rows, device=self.ids.device)
        return rows.repeat_interleave(self.offsets.diff(), output_size=len(self.ids))

    def to(self, device: torch.device) -> Packed:
        """Move all tensors to a device in one copy; no copy if they are already there."""
        if device.type == self.ids.device.type:
            return self

        # two offsets of 32 bits are one number of 64 bits
        offsets = self.offsets
        if len(offsets) % 2:
            offsets = torch.cat([offsets, offsets[-1:]])
        offset_pairs = offsets.view(torch.int64)
        sent = send(torch.cat([self.ids, self.columns, self.places, offset_pairs]), device)

        tokens = len(self.ids)
        sizes = [tokens, tokens, tokens, len(offset_pairs)]
        ids, columns, places, offset_pairs = torch.split(sent, sizes)
        offsets = offset_pairs.view(torch.int32)[: self.rows + 1]
        return replace(self, ids=ids, columns=columns, places=places, offsets=offsets)

    def repeat(self, views: int) -> Packed:
        """Return all rows `views` times, one set after another: row i of view v is row v B + i."""
        if views == 1:
            return self

        # each view lies B x L places, and N tokens, after the one before
        view_numbers = torch.arange(views, dtype=torch.int32, device=self.ids.device).unsqueeze(1)
        places = self.places + view_numbers * (self.rows * self.longest)
        ends = self.offsets[1:] + view_numbers * len(self.ids)
        return Packed(
            ids=self.ids.repeat(views),
            columns=self.columns.repeat(views),
            places=places.flatten(),
            offsets=torch.cat([self.offsets[:1], ends.flatten()]),
            longest=self.longest,
            shortest=self.shortest,
        )

    def pad(self, values: Tensor) -> Tensor:
        """Put values of the tokens, (N, ...), at their places among zeros: (B, L, ...)."""
        padded = values.new_zeros(self.rows * self.longest, *values.shape[1:])
        padded.index_copy_(0, self.places, values)
        return padded.view(self.rows, self.longest, *values.shape[1:])


class TokenRows(Mapping[str, Tensor]):
    """B rows of token ids, as a mapping `input_ids` and `attention_mask`, (B, L) int64, with
    padding at the end.

    `packed` has the same rows without padding. The padded rows are sent to a device when they are
    first read there; a packed pass never reads them.
    """

    def __init__(self, ids: Tensor, mask: Tensor, packed: Packed, lengths: np.ndarray) -> None:
        """`ids` and `mask` are (B, L), on the host or where `packed` is; `lengths`, (B,), stay on
        the host.
        """
        self._tensors = dict(zip(NAMES, (ids, mask), strict=True))
        self.packed = packed
        self.lengths = lengths

    def __getitem__(self, name: str) -> Tensor:
        value = self._tensors[name]
        device = self.packed.ids.device
        if value.device.type != device.type:
            value = send(value, device)
            self._tensors[name] = value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    @classmethod
    def from_padded(cls, ids: np.ndarray, lengths: np.ndarray) -> TokenRows:
        """Make rows of padded ids, (B, L > 0) int64, and the lengths of the rows, (B,).

        A row without a token becomes one of a single pad token: an empty text has a vector too.
        """
        lengths = np.maximum(lengths, 1)
        longest = ids.shape[1]
        is_token = _is_token(longest, lengths)
        (places,) = is_token.ravel().nonzero()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

        packed = Packed(
            ids=torch.from_numpy(ids[is_token]),
            columns=torch.from_numpy(places % longest),
            places=torch.from_numpy(places),
            offsets=torch.from_numpy(offsets),
            longest=longest,
            shortest=int(lengths.min()),
        )
        mask = torch.from_numpy(is_token.astype(np.int64))
        return cls(torch.from_numpy(ids), mask, packed, lengths)

    @classmethod
    def from_lists(cls, sentences: IdRows, pad: int) -> TokenRows:
        """Make rows of the ids of B > 0 sentences; `pad` is the id of padding."""
        lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
        longest = max(1, lengths.max())
        padded = np.full((len(lengths), longest), pad, dtype=np.int64)
        padded[_is_token(longest, lengths)] = list(chain.from_iterable(sentences))
        return cls.from_padded(padded, lengths)

    def list_ids(self) -> list[list[int]]:
        """The ids of each row without padding, on the host."""
        ids = self._tensors["input_ids"].tolist()
        return [row[:length] for row, length in zip(ids, self.lengths.tolist(), strict=True)]

    @classmethod
    def from_tokens(cls, tokens: EncoderInputs) -> TokenRows | None:
        """Return rows of `input_ids` and `attention_mask`, (B, L); None unless padded at the end.
        May block.
        """
        if isinstance(tokens, TokenRows):
            return tokens

        ids, mask = (tokens[name] for name in NAMES)
        rows = cls.from_padded(ids.cpu().numpy(), mask.sum(1).cpu().numpy())
        is_padded_at_end = bool((rows["attention_mask"] == mask.cpu()).all())
        return rows.to(ids.device) if is_padded_at_end else None

    def to(self, device: torch.device) -> TokenRows:
        ids, mask = self._tensors.values()
        return TokenRows(ids, mask, self.packed.to(device), self.lengths)

    def take(self, start: int, stop: int) -> TokenRows:
        """Return the rows from `start` to before `stop`, still padded to the length of all; never
        blocks.
        """
        first = int(self.lengths[:start].sum())
        lengths = self.lengths[start:stop]
        tokens = slice(first, first + int(lengths.sum()))

        rows = self.packed
        packed = replace(
            rows,
            ids=rows.ids[tokens],
            columns=rows.columns[tokens],
            places=rows.places[tokens] - start * rows.longest,
            offsets=rows.offsets[start : stop + 1] - first,
            shortest=int(lengths.min()),
        )

        ids, mask = (tensor[start:stop] for tensor in self._tensors.values())
        return TokenRows(ids, mask, packed, lengths)


def _is_token(longest: int, lengths: np.ndarray) -> np.ndarray:
    """Which places of padded rows hold tokens: (B, L) bool."""
    is_token: np.ndarray = np.arange(longest) < lengths[:, None]
    return is_token


def send(value: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the host to a device; to a GPU from pinned memory, so that the host does not
    wait.
    """
    if device.type == "cuda" and torch.cuda.is_available():
        return value.pin_memory().to(device, non_blocking=True)
    return value.to(device)


def count_tokens_a_batch(device: torch.device, width: int) -> int:
    """How many tokens a batch that is embedded has at most, by the width of a token's states."""
    if device.type != "cpu":
        return TOKENS_A_BATCH
    return min(TOKENS_A_BATCH, CPU_NUMBERS_A_BATCH // width)


def make_batches(lengths: np.ndarray, rows: int | None, most_tokens: int) -> list[np.ndarray]:
    """Batch row numbers by similar length, longest first: `rows`, or up to `most_tokens` tokens but
    at least a row.
    """
    order = np.argsort(-lengths, kind="stable")
    if rows:
        return [order[start : start + rows] for start in range(0, len(order), rows)]

    tokens_to_end = np.cumsum(lengths[order])
    batches = []
    start = 0
    while start < len(order):
        tokens_before = tokens_to_end[start] - lengths[order[start]]
        most = tokens_before + most_tokens
        stop = int(np.searchsorted(tokens_to_end, most, side="right"))
        stop = max(start + 1, stop)
        batches.append(order[start:stop])
        start = stop
    return batches
