"""Rows near those of a batch, from the whole corpus that the batch is of: negatives that a method
mines (`harness.method.Neighbours`).

A search embeds every row of the corpus, and finds the nearest rows of those that the steps up to the
next search read. What it found is in checkpoints, so that a run that was killed between two searches
goes on with the same rows; which of them a step gets depends on seed and step alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from harness.errors import UserError
from harness.events import Event, Stage, tell
from harness.method import Neighbours, find_search
from harness.seeds import make_generator
from harness.spec import Stream

#: rows that are embedded between two reports, and cosines in memory at a time: 64 MB in float32
BLOCK = 1024
CELLS = 1 << 24
#: in an index: its lists for each root of the rows, the lists that a query looks into, and the rows
#: that it finds beside those that are wanted, since some of them are not taken
LISTS = 4
PROBED = 32
SPARE = 64
#: in place of a row where there is no further one
NONE = -1


class SearchedCorpus(Protocol):
    """What a search reads of the training data of a run."""

    def read_texts(self, stream: Stream, rows: np.ndarray) -> Sequence[str]:
        """The texts of rows of a stream."""

    def list_rows(self, stream: Stream) -> np.ndarray:
        """The rows of a stream that the run uses, (n,) int64."""

    def get_images(self, stream: Stream, rows: np.ndarray) -> np.ndarray | None:
        """The numbers of the images of rows, (n,); None for a stream without images."""

    def list_rows_between(self, stream: Stream, first: int, end: int | None) -> np.ndarray:
        """The rows of a stream that steps read, from `first` up to `end`, or to the last one."""


@dataclass(frozen=True)
class Found:
    """What the search of step `step` has found: m rows, sorted, and the nearest ones of each, (m,
    among) int32.
    """

    step: int
    rows: np.ndarray
    nearest: np.ndarray


class NearRows:
    """The rows near those of batches, by one declaration of a method."""

    def __init__(
        self,
        name: str,
        wanted: Neighbours,
        corpus: SearchedCorpus,
        embed: Callable[[Sequence[str]], np.ndarray],
        device: torch.device,
        seed: int,
    ) -> None:
        """`embed` gives the vectors of texts, (n, d), as its model is then; an exact search computes
        on `device`.
        """
        self.name = name
        self.wanted = wanted
        self.corpus = corpus
        self.embed = embed
        self.device = device
        self.seed = seed
        #: the latest search of each stream
        self._searches: dict[Stream, Found] = {}

    def draw(self, stream: Stream, rows: np.ndarray, step: int) -> np.ndarray:
        """Rows near B rows of a step's batch: (count x B,), the j-th of row i at j B + i.

        Raises UserError where a row has too few.
        """
        interval = self.wanted.every
        due_step = step - step % interval if interval else 0
        next_search = due_step + interval if interval else None
        search = self._searches.get(stream)
        if search is None or search.step < due_step:
            search = self._search(stream, step, next_search)
            self._searches[stream] = search

        nearest = search.nearest[np.searchsorted(search.rows, rows)]
        random = make_generator(axis="neighbours", seed=self.seed, step=step, name=self.name)
        order = random.random(nearest.shape)
        order[nearest == NONE] = np.inf
        first_places = np.argsort(order, axis=1)[:, : self.wanted.count]
        drawn = np.take_along_axis(nearest, first_places, axis=1)
        return drawn.T.ravel().astype(np.int64)

    def state_dict(self) -> dict[str, Any]:
        """What was found, as tensors and plain values."""
        state: dict[str, Any] = {}
        for stream, search in self._searches.items():
            state[stream] = {
                "step": search.step,
                "rows": torch.from_numpy(search.rows),
                "nearest": torch.from_numpy(search.nearest),
            }
        return state

    def load_state_dict(self, state: Mapping[Stream, Any]) -> None:
        self._searches = {}
        for stream, search in state.items():
            rows = search["rows"].cpu().numpy()
            nearest = search["nearest"].cpu().numpy()
            self._searches[stream] = Found(int(search["step"]), rows, nearest)

    def _search(self, stream: Stream, step: int, end: int | None) -> Found:
        """Find the nearest rows of those that the steps up to the next search read."""
        candidates = np.sort(self.corpus.list_rows(stream))
        vectors, groups = self._read(stream, candidates)
        rows = np.unique(self.corpus.list_rows_between(stream, step, end))
        queries = np.searchsorted(candidates, rows)

        search = find_exactly if find_search(len(candidates)) == "exact" else find_by_index
        places = search(vectors, queries, groups, self.wanted.among, self.device)

        neighbour_counts = (places != NONE).sum(axis=1)
        too_few = int((neighbour_counts < self.wanted.count).sum())
        if too_few:
            raise UserError(
                f"{self.name}: {too_few:,} of {len(rows):,} rows of {stream} have fewer than "
                f"{self.wanted.count} neighbours of other texts and images; give more rows, or "
                "count=1"
            )

        nearest = np.where(places == NONE, NONE, candidates[places]).astype(np.int32)
        return Found(step, rows, nearest)

    def _report(self, done: int, rows: int) -> None:
        tell(Event("prepare", stage=Stage("sentences", self.name, done, rows)))

    def _read(self, stream: Stream, rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Unit vectors of n rows, (n, d), and numbers that two rows share if one is not to be a
        neighbour of the other, (n,) each: of equal texts, and of images.
        """
        numbers: dict[str, int] = {}
        of_text = np.empty(len(rows), dtype=np.int64)
        vectors = np.empty((0, 0), dtype=np.float32)
        for start in range(0, len(rows), BLOCK):
            self._report(start, len(rows))
            block = slice(start, start + BLOCK)
            texts = self.corpus.read_texts(stream, rows[block])
            embedded = self.embed(texts)
            if start == 0:
                vectors = np.empty((len(rows), embedded.shape[1]), dtype=np.float32)
            norms = np.linalg.norm(embedded, axis=1, keepdims=True)
            vectors[block] = embedded / np.maximum(norms, np.float32(1e-12))
            of_text[block] = [numbers.setdefault(text, len(numbers)) for text in texts]

        self._report(len(rows), len(rows))
        images = self.corpus.get_images(stream, rows)
        return vectors, [of_text] if images is None else [of_text, images]


def find_exactly(
    vectors: np.ndarray,
    queries: np.ndarray,
    groups: Sequence[np.ndarray],
    among: int,
    device: torch.device,
) -> np.ndarray:
    """The `among` rows of the largest inner product with each of m rows, the largest first: (m,
    among) int64, NONE where there are fewer.

    `vectors` are (n, d), `queries` the numbers of the rows. No row is found that has the number of
    the query in one of the `groups`, (n,) each.
    """
    corpus = torch.from_numpy(vectors).to(device)
    numbers = [torch.from_numpy(group).to(device) for group in groups]
    nearest = np.full((len(queries), among), NONE, dtype=np.int64)
    for block in _split_blocks(len(queries), max(1, CELLS // len(vectors))):
        rows = torch.from_numpy(queries[block]).to(device)
        scores = corpus[rows] @ corpus.T
        for group in numbers:
            scores.masked_fill_(group[rows].unsqueeze(1) == group, -torch.inf)

        best: tuple[Tensor, Tensor] = scores.topk(min(among, len(vectors)))
        values, places = best
        places = places.masked_fill(values == -torch.inf, NONE)
        nearest[block, : places.shape[1]] = places.cpu().numpy()
    return nearest


def find_by_index(
    vectors: np.ndarray,
    queries: np.ndarray,
    groups: Sequence[np.ndarray],
    among: int,
    device: torch.device,
) -> np.ndarray:
    """As `find_exactly`, by an index of FAISS on the CPU that looks at a part of the rows: some
    neighbours are missed.
    """
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    lists = int(LISTS * len(vectors) ** 0.5)
    kind = f"IVF{lists},Flat"
    index: Any = faiss.index_factory(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    index.nprobe = min(PROBED, lists)
    index.train(vectors)  # on a sample that FAISS draws by a fixed seed
    index.add(vectors)

    nearest = np.full((len(queries), among), NONE, dtype=np.int64)
    for block in _split_blocks(len(queries), BLOCK):
        rows = queries[block]
        _, places = index.search(vectors[rows], among + SPARE)
        is_taken = places != NONE
        for group in groups:
            is_taken &= group[rows][:, None] != group[places]

        # those that are taken first, in their order
        order = np.argsort(~is_taken, axis=1, kind="stable")[:, :among]
        taken = np.take_along_axis(places, order, axis=1)
        taken[~np.take_along_axis(is_taken, order, axis=1)] = NONE
        nearest[block, : taken.shape[1]] = taken
    return nearest


def _split_blocks(rows: int, size: int) -> Iterator[slice]:
    for start in range(0, rows, size):
        yield slice(start, start + size)
