"""The training data of a run and the batches of each step.

Batches of images or recordings are prepared ahead of their steps by worker processes. A batch is a
function of its step, so it is the same with any number of workers and after a resume at any step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.forkserver import ensure_running
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from harness.corpora.base import Media
from harness.corpora.tokens import Tokens, decode_texts
from harness.encoders.features import Stacked
from harness.encoders.rows import TokenRows, send
from harness.encoders.student import Student
from harness.errors import UserError
from harness.method import (
    Batch,
    MediaBatch,
    MixingRule,
    OwnSteps,
    PairBatch,
    SentenceBatch,
    TripletBatch,
)
from harness.processors import count_own_cores, start_with_safe_path, start_without_script
from harness.profiles import Training
from harness.seeds import make_generator
from harness.spec import Stream
from harness.training.batching import Order, make_mixing
from harness.training.neighbours import NearRows
from harness.training.phrases import TokenPhrases

#: The largest useful number of workers on the machines we measured.
MOST = 8
#: Shared memory for finished batches and the bytes that must be free there: 48 images at 224 x 224
#: are 14 MB, and each worker keeps two batches.
SHARED = Path("/dev/shm"), 512 * 2**20
#: signals by which a batch system or a terminal stops a run
STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR2}
#: see `Method.change_rows`
ChangeRows = Callable[[list[list[int]], np.random.Generator], Mapping[str, list[list[int]]]]
#: see `Method.change_texts`
ChangeTexts = Callable[[list[str], np.random.Generator], Mapping[str, list[str]]]


@dataclass(frozen=True)
class MediaInputs(Dataset[dict[str, Tensor] | str]):
    """The inputs of one stream by step number."""

    media: Media
    order: Order
    seed: int

    def make_inputs(self, step: int) -> dict[str, Tensor]:
        rng = make_generator(
            axis="augmentation", seed=self.seed, stream=self.order.stream, step=step
        )
        rows = self.order.batch(step)
        inputs = self.media.batch(rows, rng)
        return {"labels": torch.from_numpy(self.media.labels[rows]), **inputs}

    def __getitem__(self, step: int) -> dict[str, Tensor] | str:
        """Read the inputs in a worker; return a UserError as text, since the loader would add a
        traceback to it.
        """
        try:
            return self.make_inputs(step)
        except UserError as error:
            return str(error)


class Prefetcher:
    """The inputs of one stream, step by step, prepared ahead by `workers` processes; if 0, prepared
    on request.
    """

    def __init__(self, source: MediaInputs, steps: int, workers: int) -> None:
        self.source = source
        self.steps = steps
        self.workers = workers
        #: seconds that steps have waited for their inputs
        self.waited = 0.0
        self._next = 0
        self._prepared: Iterator[dict[str, Tensor] | str] | None = None

    def take(self, step: int) -> dict[str, Tensor]:
        """Return the inputs of a step; workers continue with the steps after it. Raises UserError."""

        clock = time.perf_counter()
        try:
            if not self.workers:
                return self.source.make_inputs(step)
            if self._prepared is None or step != self._next:
                self._prepared = _start_workers(self._make_loader(step))
            batches = next(self._prepared)
            self._next = step + 1
        finally:
            self.waited += time.perf_counter() - clock

        if isinstance(batches, str):
            raise UserError(batches)
        return batches

    def close(self) -> None:
        self._prepared = None

    def _make_loader(self, first: int) -> DataLoader[dict[str, Tensor] | str]:
        return DataLoader(
            self.source,
            batch_size=None,
            sampler=range(first, self.steps),
            num_workers=self.workers,
            worker_init_fn=_serve,
            # a forked process would hang on the threads of torch
            multiprocessing_context="forkserver",
            # a loader draws a seed, by default from the run's generator
            generator=torch.Generator(),
        )


def count_free_workers(media: Media, device: torch.device) -> int:
    """Return the number of workers for a stream: 0 if batches are cheap or none of this run's cores
    is free.
    """
    if not media.costly or not _has_room():
        return 0

    taken = torch.get_num_threads() if device.type == "cpu" else 1
    return max(0, min(MOST, count_own_cores() - taken))


def _has_room() -> bool:
    folder, least_bytes = SHARED
    if not folder.is_dir():
        return sys.platform != "linux"  # elsewhere it has another place

    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize >= least_bytes


@start_with_safe_path()
def _start_workers(
    loader: DataLoader[dict[str, Tensor] | str],
) -> Iterator[dict[str, Tensor] | str]:
    """Start a loader's workers from a fork server that has already imported this module.

    Server and workers block signals: a batch system sends them to every process of a job, but the
    run stops its workers itself.
    """
    get_context("forkserver").set_forkserver_preload([__name__])
    resource_tracker.ensure_running()  # the server starts it otherwise, which unblocks signals

    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        with start_without_script():
            ensure_running()
            return iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _serve(worker: int) -> None:
    """End this worker when the run dies, since a killed run cannot stop its workers."""
    threading.Thread(target=_end_with_run, daemon=True).start()


def _end_with_run() -> None:
    run = parent_process()  # not the server, which lives as long as its workers

    if run is not None:
        run.join()
    os._exit(1)


@dataclass(frozen=True)
class Subset:
    """The rows of a stream that a run uses; with `steps_of_all` it still takes as many steps as
    with all rows.
    """

    rows: np.ndarray
    steps_of_all: bool


@dataclass(frozen=True)
class TrainingData:
    """Training data by stream.

    `tokens` holds the text streams, `media` images and recordings, `features` the teacher features
    of the pairs by role, `phrases` those of their captions for a method that reads regions, and
    `subsets` the rows of streams that are not used whole. `texts` has the bytes of the text streams
    for a method that reads them, and `image_of` the image of each row of pairs, (n,), for one that
    searches for neighbours. `warnings` report unreadable images and the like.
    """

    tokens: Mapping[Stream, Tokens]
    features: Mapping[str, np.ndarray | Stacked] = field(default_factory=dict)
    media: Mapping[Stream, Media] = field(default_factory=dict)
    subsets: Mapping[Stream, Subset] = field(default_factory=dict)
    texts: Mapping[Stream, Tokens] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    image_of: np.ndarray | None = None
    phrases: TokenPhrases | None = None

    @property
    def rows(self) -> dict[Stream, int]:
        counts = {}
        for stream, tokens in self.tokens.items():
            subset = self.subsets.get(stream)
            takes_all = subset is None or subset.steps_of_all
            counts[stream] = len(tokens) if takes_all else self.count_used(stream)
        return counts

    def count_used(self, stream: Stream) -> int:
        if stream in self.subsets:
            return len(self.subsets[stream].rows)
        if stream in self.media:
            return len(self.media[stream])
        return len(self.tokens[stream])

    def find_rows(self, stream: Stream, places: np.ndarray) -> np.ndarray:
        """The rows of a stream at these places among those that a run uses."""
        subset = self.subsets.get(stream)
        return places if subset is None else subset.rows[places]


class Batches:
    """The batches of a run, each a function of the step number. Raises UserError for streams that
    cannot be mixed.
    """

    def __init__(
        self,
        student: Student,
        data: TrainingData,
        training: Training,
        own: Mapping[Stream, OwnSteps],
        *,
        seed: int,
        setting: str,
        rule: MixingRule,
        change: ChangeRows | None = None,
        change_texts: ChangeTexts | None = None,
    ) -> None:
        self.student = student
        self.data = data
        self.training = training
        self.seed = seed
        self.change = change
        self.change_texts = change_texts
        #: rows near those of a batch, by the name of their place in it
        self.near: Mapping[str, NearRows] = {}

        rows = data.rows
        text = rows.get("sentences", 0) + rows.get("triplets", 0)
        pairs = rows.get("pairs", 0)
        self.mixing = make_mixing(text, pairs, training.batch_size, rule)

        self.steps = training.steps or training.epochs * self.mixing.epoch
        if training.warmup_steps >= self.steps:
            raise UserError(
                f"warmup_steps = {training.warmup_steps} leave no step of {self.steps} at the full learning rate; "
                "lower it"
            )

        self.text: Stream = next((stream for stream in data.tokens if stream != "pairs"), "pairs")
        self.early = [stream for stream, steps in own.items() if steps.first]
        self.late = [stream for stream, steps in own.items() if not steps.first]

        sizes = dict.fromkeys(data.tokens, training.batch_size)
        sizes |= {stream: steps.batch_size for stream, steps in own.items()}
        self.orders = {
            stream: Order(data.count_used(stream), size, seed, setting, stream)
            for stream, size in sizes.items()
        }

        self.media = {
            stream: media.augmented(own[stream].augment)
            for stream, media in data.media.items()
            if stream in own
        }
        self.ahead: dict[Stream, Prefetcher] = {}
        for stream, media in self.media.items():
            inputs = MediaInputs(media, self.orders[stream], seed)
            workers = count_free_workers(media, student.device)
            self.ahead[stream] = Prefetcher(inputs, self.steps, workers)

    def list_rows_read(self) -> dict[Stream, np.ndarray]:
        """The rows of each text stream that the steps read, unordered: (n,) int64 each."""
        rows_by_stream = {}
        for stream in self.data.tokens:
            places = self.orders[stream].get_first(self.counts[stream])
            rows_by_stream[stream] = self.data.find_rows(stream, places)
        return rows_by_stream

    @property
    def counts(self) -> dict[Stream, int]:
        """How many batches of each stream the steps read."""
        paired = self.mixing.count_paired(self.steps)
        texts: dict[Stream, int] = {self.text: self.steps - paired, "pairs": paired}
        return {stream: texts.get(stream, self.steps) for stream in self.orders}

    @property
    def waited(self) -> float:
        """Seconds that steps have waited for images and recordings."""
        return sum(ahead.waited for ahead in self.ahead.values())

    def close(self) -> None:
        for ahead in self.ahead.values():
            ahead.close()

    def take(self, step: int) -> Iterator[tuple[Stream | None, Batch | MediaBatch]]:
        """Yield the batches of a step in order, each with the stream whose own optimizer it uses,
        or None.
        """
        yield from ((stream, self._make_media_batch(stream, step)) for stream in self.early)

        yield None, self._make_text_batch(step)
        yield from ((stream, self._make_media_batch(stream, step)) for stream in self.late)

    def describe(self, step: int) -> str:
        """The text batch of a step in words: its stream and its row numbers, from 0."""
        stream, rows = self.get_text_rows(step)
        return f"{stream}, rows {' '.join(map(str, rows.tolist()))}"

    def get_text_rows(self, step: int) -> tuple[Stream, np.ndarray]:
        """The stream of a step's text batch and its rows."""
        kind, number = self.mixing.step(step)
        stream: Stream = self.text if kind == "text" else "pairs"
        places = self.orders[stream].batch(number)
        return stream, self.data.find_rows(stream, places)

    def read_texts(self, stream: Stream, rows: np.ndarray) -> tuple[str, ...]:
        """The texts of rows of a stream."""
        return decode_texts(self.data.texts[stream].batch(rows))

    def list_rows(self, stream: Stream) -> np.ndarray:
        """The rows of a stream that the run uses."""
        return self.data.find_rows(stream, np.arange(self.data.count_used(stream)))

    def get_images(self, stream: Stream, rows: np.ndarray) -> np.ndarray | None:
        """The numbers of the images of rows; None for a stream without images."""
        image_of = self.data.image_of
        if stream != "pairs" or image_of is None:
            return None
        images: np.ndarray = image_of[rows]
        return images

    def list_rows_between(self, stream: Stream, first: int, end: int | None) -> np.ndarray:
        """The rows of a stream that steps read, from `first` up to `end`, or to the last one."""
        stop = self.steps if end is None else min(end, self.steps)
        batches = []
        for step in range(first, stop):
            stream_of_step, rows = self.get_text_rows(step)
            if stream_of_step == stream:
                batches.append(rows)
        return np.concatenate(batches)

    def _make_text_batch(self, step: int) -> Batch:
        stream, rows = self.get_text_rows(step)
        device = self.student.device
        tokens = self.data.tokens[stream].batch(rows)
        self._check_negatives(tokens, stream, step)

        changed = self._change_rows(tokens, step) if self.change else {}
        texts = self.read_texts(stream, rows) if self.data.texts else ()
        if self.change_texts is not None:
            changed |= self._change_texts(texts, step)
        for name, near in self.near.items():
            near_rows = near.draw(stream, rows, step)
            changed[name] = self.data.tokens[stream].batch(near_rows).to(device)

        tokens = tokens.to(device)
        if stream == "triplets":
            return TripletBatch(tokens, changed=changed, texts=texts)
        if stream == "sentences":
            return SentenceBatch(tokens, changed=changed, texts=texts)

        phrases = None
        feature_rows = dict.fromkeys(self.data.features, rows)
        if self.data.phrases is not None:
            phrases = self.data.phrases.batch(rows, device)
            regions = self.data.phrases.find_regions(rows)
            feature_rows |= dict.fromkeys(self.data.phrases.roles, regions)

        features = {}
        for role, values in self.data.features.items():
            batch_values = np.ascontiguousarray(values[feature_rows[role]], dtype=np.float32)
            features[role] = send(torch.from_numpy(batch_values), device)
        return PairBatch(tokens, features, changed=changed, texts=texts, phrases=phrases)

    def _check_negatives(self, tokens: TokenRows, stream: Stream, step: int) -> None:
        """Raise UserError for a batch of one distinct sentence; the last one of a pass may be
        short.
        """
        ids = tokens["input_ids"]
        is_whole = len(ids) == min(self.training.batch_size, self.data.count_used(stream))
        if is_whole and bool((ids == ids[0]).all()):
            raise UserError(
                f"step {step + 1} has one distinct sentence in its batch of {stream}, so no "
                "negatives; give a corpus of different sentences, or more of them"
            )

    def _change_rows(self, tokens: TokenRows, step: int) -> dict[str, TokenRows]:
        """The rows that the method makes of a batch, by name. Raises UserError for rows that are
        too long.
        """
        assert self.change is not None
        rng = make_generator(axis="rows", seed=self.seed, step=step)

        changed = {}
        for name, rows in self.change(tokens.list_ids(), rng).items():
            longest = max(map(len, rows))
            if longest > self.student.longest:
                raise UserError(
                    f"step {step + 1}: the changed rows '{name}' have up to {longest} tokens, and the encoder reads "
                    f"{self.student.longest}; lower max_length"
                )

            token_rows = TokenRows.from_lists(rows, self.student.tokenizer.pad_token_id)
            changed[name] = token_rows.to(self.student.device)
        return changed

    def _change_texts(self, texts: Sequence[str], step: int) -> dict[str, TokenRows]:
        """The sentences that the method makes of a batch, tokenised, by name."""
        assert self.change_texts is not None
        rng = make_generator(axis="texts", seed=self.seed, step=step)
        changed = {}
        for name, sentences in self.change_texts(list(texts), rng).items():
            tokens = self.student.tokenize(sentences, self.training.max_length)
            changed[name] = tokens.to(self.student.device)
        return changed

    def _make_media_batch(self, stream: Stream, step: int) -> MediaBatch:
        prepared = self.ahead[stream].take(step)
        inputs = {name: send(value, self.student.device) for name, value in prepared.items()}

        labels = inputs.pop("labels")
        return MediaBatch(self.media[stream].ready(inputs), labels)
