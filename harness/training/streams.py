"""The training data of a run and the batches of each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from harness.corpora.base import Media
from harness.corpora.tokens import Tokens
from harness.encoders.rows import sent
from harness.encoders.student import Student
from harness.errors import UserError
from harness.inputs import Stream
from harness.method import Batch, MediaBatch, MixingRule, OwnSteps, PairBatch, SentenceBatch, TripletBatch
from harness.profiles import Training
from harness.training.batching import Order, mixed
from harness.training.prefetch import MediaInputs, Prefetcher, free_workers


@dataclass(frozen=True)
class Subset:
    """The rows of a stream that a run uses; with `steps_of_all` it takes as many steps as all rows would."""

    rows: np.ndarray
    steps_of_all: bool


class FeatureRows(Protocol):
    """Teacher features of n rows, (n, ...), in memory or on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, rows first."""

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray:
        """The rows of these numbers."""


@dataclass(frozen=True)
class TrainingData:
    """Training data by stream.

    `tokens` holds the text streams, `media` images and recordings, `features` the teacher features of the pairs by
    role, `subsets` the rows of streams that are not used whole. `warnings` are about the data, such as unreadable
    images.
    """

    tokens: Mapping[Stream, Tokens]
    features: Mapping[str, FeatureRows] = field(default_factory=dict)
    media: Mapping[Stream, Media] = field(default_factory=dict)
    subsets: Mapping[Stream, Subset] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> dict[Stream, int]:
        """Rows of each text stream for counting steps."""
        whole = {stream for stream in self.tokens if stream not in self.subsets or self.subsets[stream].steps_of_all}
        return {stream: len(tokens) if stream in whole else self.used(stream) for stream, tokens in self.tokens.items()}

    def used(self, stream: Stream) -> int:
        """Rows of a stream that batches are drawn from."""
        if stream in self.subsets:
            return len(self.subsets[stream].rows)
        return len(self.media[stream] if stream in self.media else self.tokens[stream])


class Batches:
    """The batches of a run, each a function of the step number. Raises UserError for streams that cannot be mixed."""

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
    ) -> None:
        self.student, self.data, self.training, self.seed = student, data, training, seed
        rows = data.rows
        text, pairs = rows.get("sentences", 0) + rows.get("triplets", 0), rows.get("pairs", 0)
        self.mixing = mixed(text, pairs, training.batch_size, rule)
        self.steps = training.steps or training.epochs * self.mixing.epoch
        if training.warmup_steps >= self.steps:
            raise UserError(
                f"warmup_steps = {training.warmup_steps} leave no step of {self.steps} at the full learning rate; "
                "lower it"
            )
        self.text: Stream = next((stream for stream in data.tokens if stream != "pairs"), "pairs")
        self.early = [stream for stream, steps in own.items() if steps.first]
        self.late = [stream for stream, steps in own.items() if not steps.first]
        sizes = dict.fromkeys(data.tokens, training.batch_size) | {key: steps.batch_size for key, steps in own.items()}
        self.orders = {stream: Order(data.used(stream), sizes[stream], seed, setting, stream) for stream in sizes}
        self.media = {key: media.augmented(own[key].augment) for key, media in data.media.items() if key in own}
        self.ahead = {
            key: Prefetcher(MediaInputs(media, self.orders[key], seed), self.steps, free_workers(media, student.device))
            for key, media in self.media.items()
        }

    def rows_read(self) -> dict[Stream, np.ndarray]:
        """The rows of each text stream that the steps read, in no order: (n,) int64 each.

        A training of fewer steps than a pass reads some of the rows only.
        """
        paired = self.mixing.paired_before_step(self.steps)
        read = {}
        for stream in self.data.tokens:
            rows = self.orders[stream].first(paired if stream == "pairs" else self.steps - paired)
            read[stream] = self.data.subsets[stream].rows[rows] if stream in self.data.subsets else rows
        return read

    @property
    def waited(self) -> float:
        """Seconds that steps have waited for images and recordings."""
        return sum(ahead.waited for ahead in self.ahead.values())

    def close(self) -> None:
        for ahead in self.ahead.values():
            ahead.close()

    def of(self, step: int) -> Iterator[tuple[Stream | None, Batch | MediaBatch]]:
        """Yield the batches of a step in order, each with the stream whose own optimizer it uses, or None."""
        yield from ((stream, self._media(stream, step)) for stream in self.early)
        yield None, self._text(step)
        yield from ((stream, self._media(stream, step)) for stream in self.late)

    def described(self, step: int) -> str:
        """The text batch of a step in words: its stream and the rows of it, from 0."""
        stream, rows = self._text_rows(step)
        return f"{stream}, rows {' '.join(map(str, rows.tolist()))}"

    def _text_rows(self, step: int) -> tuple[Stream, np.ndarray]:
        kind, number = self.mixing.step(step)
        stream: Stream = self.text if kind == "text" else "pairs"
        rows = self.orders[stream].batch(number)
        return stream, self.data.subsets[stream].rows[rows] if stream in self.data.subsets else rows

    def _text(self, step: int) -> Batch:
        stream, rows = self._text_rows(step)
        device = self.student.device
        tokens = self.data.tokens[stream].batch(rows)
        ids = tokens["input_ids"]
        # the last batch of a pass may be short
        if len(rows) == min(self.training.batch_size, self.data.used(stream)) and bool((ids == ids[0]).all()):
            raise UserError(
                f"step {step + 1} has one distinct sentence in its batch of {stream}, so no "
                "negatives; give a corpus of different sentences, or more of them"
            )
        tokens = tokens.to(device)
        if stream == "triplets":
            return TripletBatch(tokens)
        if stream == "sentences":
            return SentenceBatch(tokens)
        features = {
            role: sent(torch.from_numpy(np.ascontiguousarray(values[rows], dtype=np.float32)), device)
            for role, values in self.data.features.items()
        }
        return PairBatch(tokens, features)

    def _media(self, stream: Stream, step: int) -> MediaBatch:
        inputs = {name: sent(value, self.student.device) for name, value in self.ahead[stream].of(step).items()}
        labels = inputs.pop("labels")
        return MediaBatch(self.media[stream].ready(inputs), labels)
