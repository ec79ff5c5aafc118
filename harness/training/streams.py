"""What a run trains on, and the batches that each of its steps sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from harness.corpora.base import Media
from harness.encoders.student import Student
from harness.method import Batch, MediaBatch, OwnSteps, PairBatch, SentenceBatch, TripletBatch
from harness.profiles import Training
from harness.training.batching import Mixing, Order, mixed
from harness.training.prefetch import Ahead, MediaInputs, free_workers

Triplet = tuple[str, str, str]


@dataclass(frozen=True)
class TrainingData:
    """Rows by stream.

    `texts` holds 'sentences' and 'pairs' as texts and 'triplets' as triples of texts; `features` the
    teacher features of the pairs by role, arrays or mapped arrays of n rows; `media` images and recordings.
    """

    texts: Mapping[str, Sequence[str] | Sequence[Triplet]]
    features: Mapping[str, Any] = field(default_factory=dict)
    media: Mapping[str, Media] = field(default_factory=dict)
    #: what a person should know of the data, such as images that could not be read
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each text stream."""
        return {stream: len(texts) for stream, texts in self.texts.items()}


def mixing(training: Training, rows: Mapping[str, int], rule: str) -> Mixing:
    """The mixture of text streams with these numbers of rows. Raises UserError."""
    text = rows.get("sentences", 0) + rows.get("triplets", 0)
    return mixed(text, rows.get("pairs", 0), training.batch_size, rule)


def total_steps(training: Training, rows: Mapping[str, int], rule: str) -> int:
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
        rule: str,
    ) -> None:
        self.student, self.data, self.training, self.seed = student, data, training, seed
        self.mixing = mixing(training, data.rows, rule)
        self.steps = total_steps(training, data.rows, rule)
        self.text = next((stream for stream in data.texts if stream != "pairs"), "pairs")
        self.early = [stream for stream, steps in own.items() if steps.first]
        self.late = [stream for stream, steps in own.items() if not steps.first]
        sizes = {
            **dict.fromkeys(data.texts, training.batch_size),
            **{key: steps.batch_size for key, steps in own.items()},
        }
        rows = {**data.rows, **{stream: len(media) for stream, media in data.media.items()}}
        self.orders = {stream: Order(rows[stream], sizes[stream], seed, setting, stream) for stream in sizes}
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
        listed = [self.data.texts[stream][row] for row in rows]
        if stream == "triplets":
            return TripletBatch(self._tokens([text for triplet in listed for text in triplet]))
        tokens = self._tokens(listed)
        if stream == "sentences":
            return SentenceBatch(tokens)
        features = {
            role: torch.from_numpy(np.ascontiguousarray(values[rows], dtype=np.float32)).to(self.student.device)
            for role, values in self.data.features.items()
        }
        return PairBatch(tokens, features)

    def _tokens(self, texts: list[str]) -> dict[str, torch.Tensor]:
        tokens = self.student.tokenize(texts, self.training.max_length)
        return {name: value.to(self.student.device) for name, value in tokens.items()}

    def _media(self, stream: str, step: int) -> MediaBatch:
        media, device = self.data.media[stream], self.student.device
        rows = self.orders[stream].batch(step)
        inputs = media.ready({name: value.to(device) for name, value in self.ahead[stream].of(step).items()})
        return MediaBatch(inputs, torch.from_numpy(media.labels[rows]).to(device))
