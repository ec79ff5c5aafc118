"""What a run trains on, and the batches that each of its steps sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from harness.corpora.base import Media
from harness.corpora.tokens import Tokens
from harness.encoders.student import Student
from harness.method import Batch, MediaBatch, MixingRule, OwnSteps, PairBatch, SentenceBatch, TripletBatch
from harness.profiles import Training
from harness.training.batching import Mixing, Order, mixed
from harness.training.prefetch import Ahead, MediaInputs, free_workers


@dataclass(frozen=True)
class Part:
    """The rows of a stream that a run sees; `steps_of_all` keeps the number of steps that all rows would give."""

    rows: np.ndarray
    steps_of_all: bool


@dataclass(frozen=True)
class TrainingData:
    """Rows by stream.

    `tokens` holds 'sentences', 'pairs' and 'triplets'; `features` the teacher features of the pairs by role,
    arrays or mapped arrays of n rows; `media` images and recordings; `parts` the rows seen where not all are.
    """

    tokens: Mapping[str, Tokens]
    features: Mapping[str, Any] = field(default_factory=dict)
    media: Mapping[str, Media] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    #: what a person should know of the data, such as images that could not be read
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each text stream, as the number of steps counts them."""
        return {
            stream: len(tokens) if self._counts_all(stream) else len(self.parts[stream].rows)
            for stream, tokens in self.tokens.items()
        }

    def seen(self, stream: str) -> int:
        """Rows of a stream that batches are drawn from."""
        if stream in self.parts:
            return len(self.parts[stream].rows)
        return len(self.media[stream] if stream in self.media else self.tokens[stream])

    def _counts_all(self, stream: str) -> bool:
        return stream not in self.parts or self.parts[stream].steps_of_all


def mixing(training: Training, rows: Mapping[str, int], rule: MixingRule) -> Mixing:
    """The mixture of text streams with these numbers of rows. Raises UserError."""
    text = rows.get("sentences", 0) + rows.get("triplets", 0)
    return mixed(text, rows.get("pairs", 0), training.batch_size, rule)


def total_steps(training: Training, rows: Mapping[str, int], rule: MixingRule) -> int:
    """Optimizer steps of a run over text streams of these numbers of rows."""
    return training.steps or training.epochs * mixing(training, rows, rule).epoch


class Batches:
    """The batches of a run, each a function of the step's number."""

    def __init__(
        self,
        student: Student,
        data: TrainingData,
        training: Training,
        own: Mapping[str, OwnSteps],
        *,
        seed: int,
        setting: str,
        rule: MixingRule,
    ) -> None:
        self.student, self.data, self.training, self.seed = student, data, training, seed
        self.mixing = mixing(training, data.rows, rule)
        self.steps = total_steps(training, data.rows, rule)
        self.text = next((stream for stream in data.tokens if stream != "pairs"), "pairs")
        self.early = [stream for stream, steps in own.items() if steps.first]
        self.late = [stream for stream, steps in own.items() if not steps.first]
        sizes = {
            **dict.fromkeys(data.tokens, training.batch_size),
            **{key: steps.batch_size for key, steps in own.items()},
        }
        self.orders = {stream: Order(data.seen(stream), sizes[stream], seed, setting, stream) for stream in sizes}
        self.ahead = {
            key: Ahead(MediaInputs(media, self.orders[key], seed), self.steps, free_workers(media, student.device))
            for key, media in data.media.items()
            if key in own
        }

    def close(self) -> None:
        """End the worker processes."""
        for ahead in self.ahead.values():
            ahead.close()

    def of(self, step: int) -> Iterator[tuple[str | None, Batch | MediaBatch]]:
        """The batches of a step in their order, each with the stream whose own optimizer it has, or None."""
        for stream in self.early:
            yield stream, self._media(stream, step)
        yield None, self._text(step)
        for stream in self.late:
            yield stream, self._media(stream, step)

    def _text(self, step: int) -> Batch:
        kind, number = self.mixing.step(step)
        stream = self.text if kind == "text" else "pairs"
        rows = self.orders[stream].batch(number)
        if stream in self.data.parts:
            rows = self.data.parts[stream].rows[rows]
        device = self.student.device
        tokens = {name: value.to(device) for name, value in self.data.tokens[stream].batch(rows).items()}
        if stream == "triplets":
            return TripletBatch(tokens)
        if stream == "sentences":
            return SentenceBatch(tokens)
        features = {
            role: torch.from_numpy(np.ascontiguousarray(values[rows], dtype=np.float32)).to(device)
            for role, values in self.data.features.items()
        }
        return PairBatch(tokens, features)

    def _media(self, stream: str, step: int) -> MediaBatch:
        media, device = self.data.media[stream], self.student.device
        rows = self.orders[stream].batch(step)
        inputs = media.ready({name: value.to(device) for name, value in self.ahead[stream].of(step).items()})
        return MediaBatch(inputs, torch.from_numpy(media.labels[rows]).to(device))
