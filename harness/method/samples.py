"""Small inputs on which a method is tried: random batches, an encoder that draws vectors, and a
small student.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from harness.encoders.embedded import ChangeEmbedded, EmbeddingChange, PlaceTokens
from harness.encoders.rows import Packed, TokenRows
from harness.method.base import Method
from harness.method.interface import (
    Batch,
    Dimensions,
    Encode,
    MediaBatch,
    PairBatch,
    PhraseRows,
    SentenceBatch,
    TripletBatch,
    Vocabulary,
)
from harness.spec import Stream

if TYPE_CHECKING:
    from harness.encoders.student import Student

#: seeds of the heads, and of the random numbers of a loss
HEADS = 1
LOSS = 2
ROWS = 6
WIDTH = 8
LENGTH = 5
WORDS = 32
#: the texts of a random batch, of words that the small student knows
TEXTS = tuple(f"{row} {row + 1} {row + 2}" for row in range(ROWS))


def build(method: type[Method], hyperparameters: Any, seed: int = HEADS) -> Method:
    """Build a method with features and encoder of width 8, prepared with a small student where it
    asks for one.
    """
    return build_with(None, method, hyperparameters, seed)


def build_with(
    student: Student | None, method: type[Method], hyperparameters: Any, seed: int = HEADS
) -> Method:
    """The same, prepared with a student that is given."""
    features = method.features(hyperparameters)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = method(hyperparameters, Dimensions(WIDTH, dict.fromkeys(features, WIDTH)))
        if method.prepare is not Method.prepare:
            models = {
                role: small_student() for role, feature in features.items() if feature.of == "model"
            }
            student = student or small_student()
            built.prepare(student, Vocabulary.of(student.tokenizer, LENGTH), models)
    built.now = built.scheduled(0.5)
    return built


def small_student() -> Student:
    """Make a student with random weights, always the same, of one layer, width 8 and 32 tokens."""
    from transformers import BertConfig, BertModel, BertTokenizer

    from harness.encoders.student import Student
    from harness.encoders.trial import TrialFindings

    marks = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = (*marks, *map(str, range(WORDS - len(marks))))
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(words)})
    config = BertConfig(
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        vocab_size=WORDS,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
    )

    logging.disable(logging.WARNING)  # that its rows are padded
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(HEADS)
            model = BertModel(config, add_pooling_layer=False)
            student = Student(model, tokenizer, found=TrialFindings())
    finally:
        logging.disable(logging.NOTSET)

    # padded rows can be computed without values, for which a packed pass has to look
    student.why_unpacked = "it is a student of checks"
    return student


def random_batches(method: Method) -> list[Batch | MediaBatch]:
    """Make a random batch of six rows for each stream of a method."""
    rows = []
    for row in range(ROWS):
        length = 1 if row % 2 else LENGTH - 2
        rows.append([2, *range(5 + row, 5 + row + length), 3])
    tokens = dict(TokenRows.from_lists(rows, 0))

    shared: dict[str, Any] = {"changed": _change_batch(method, rows)}
    if method.uses_texts():
        shared["texts"] = TEXTS

    phrases = _make_phrases()
    shapes = {
        "image": (ROWS, WIDTH),
        "caption": (ROWS, WIDTH),
        "tokens": (ROWS, LENGTH + 2, WIDTH),
        "region": (len(phrases), WIDTH),
    }
    asked = method.features(method.hyperparameters)
    features = {
        role: torch.randn(shapes[feature.of])
        for role, feature in asked.items()
        if feature.of != "model"
    }
    reads_phrases = any(feature.of == "region" for feature in asked.values())
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    batches: dict[Stream, Batch | MediaBatch] = {
        "sentences": SentenceBatch(tokens, **shared),
        "pairs": PairBatch(tokens, features, **shared, phrases=phrases if reads_phrases else None),
        "triplets": TripletBatch(tokens, **shared),
        "images": MediaBatch({"pixels": torch.randn(ROWS, 2, 3, 4, 4)}, labels),
        "audio": MediaBatch({"spectrograms": torch.randn(ROWS, 9, 4)}, labels),
    }
    return [batches[stream] for stream in method.streams]


def batches_without_phrases(method: Method) -> list[PairBatch]:
    """A random batch of pairs whose captions have no phrase; none for a method that reads none."""
    asked = method.features(method.hyperparameters)
    of_regions = [role for role, feature in asked.items() if feature.of == "region"]
    if not of_regions:
        return []

    batches = []
    for batch in random_batches(method):
        if isinstance(batch, PairBatch):
            features = dict(batch.features)
            for role in of_regions:
                features[role] = features[role][:0]
            whole = _make_phrases()
            phrases = PhraseRows(whole.captions[:0], whole.spans[:0], whole.regions[:0])
            batches.append(replace(batch, features=features, phrases=phrases))
    return batches


def _make_phrases() -> PhraseRows:
    """Five phrases of four captions; two of them name one region."""
    return PhraseRows(
        torch.tensor([0, 0, 2, 3, 4]),
        torch.tensor([[1, 2], [2, 4], [1, 4], [1, 2], [2, 3]]),
        torch.tensor([0, 1, 2, 3, 1]),
    )


def _change_batch(method: Method, rows: list[list[int]]) -> RecordedNames:
    """What the method makes of a batch's rows and texts, and rows near them, by name."""
    changed = {}
    for name, changed_rows in method.change_rows(rows, np.random.default_rng(LOSS)).items():
        changed[name] = dict(TokenRows.from_lists(changed_rows, 0))

    for name, search in method.neighbours(method.hyperparameters).items():
        next_rows = [rows[(row + 1) % ROWS] for row in range(ROWS)]
        changed[name] = dict(TokenRows.from_lists(next_rows * search.count, 0))

    changed_texts = method.change_texts(list(TEXTS), np.random.default_rng(LOSS))
    if changed_texts:
        student = small_student()
        for name, texts in changed_texts.items():
            changed[name] = dict(student.tokenize(texts, LENGTH))
    return RecordedNames(changed)


class RecordedNames(dict[str, Any]):
    """A dict that knows which of its names were `read`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


class RandomEncoder:
    """An `Encode` that draws random vectors; `vectors` has them, `views` the most views of a
    sentence asked for.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.views = 1
        self.vectors: list[Tensor] = []

    def __call__(
        self,
        inputs: Mapping[str, Tensor],
        views: int,
        *,
        dropout: float | None = None,
        places: PlaceTokens | None = None,
        embedded: ChangeEmbedded | None = None,
    ) -> Tensor:
        if "attention_mask" in inputs:
            self.views = max(self.views, views)
        rows = len(next(iter(inputs.values())))
        vectors = self._draw(rows, views, WIDTH)
        if places or embedded:
            vectors = vectors + self._change(inputs, views, places, embedded).mean(2)
        return vectors

    def states(
        self,
        inputs: Mapping[str, Tensor],
        views: int = 1,
        *,
        dropout: float | None = None,
        places: PlaceTokens | None = None,
        embedded: ChangeEmbedded | None = None,
    ) -> Tensor:
        rows, length = inputs["attention_mask"].shape
        states = self._draw(rows, views, length, WIDTH)
        if places or embedded:
            states = states + self._change(inputs, views, places, embedded)
        return states

    def _change(
        self,
        inputs: Mapping[str, Tensor],
        views: int,
        places: PlaceTokens | None,
        embedded: ChangeEmbedded | None,
    ) -> Tensor:
        """Draw embeddings and change them: (B, views, L, d). Padding counts as tokens, so that
        nothing depends on values.
        """
        rows, length = inputs["attention_mask"].shape
        count = views * rows * length
        everything = torch.arange(count, device=self.device)
        starts = torch.arange(0, count + 1, length, device=self.device)
        packed = Packed(
            inputs["input_ids"].flatten().repeat(views),
            everything % length,
            everything,
            starts.to(torch.int32),
            length,
            length,
        )
        change = EmbeddingChange(places, embedded)
        change.move_positions(packed.columns, packed)
        states = change.change_states(torch.randn(count, WIDTH, device=self.device), packed)
        return states.view(views, rows, length, WIDTH).transpose(0, 1)

    def _draw(self, *shape: int) -> Tensor:
        vectors = torch.randn(shape, device=self.device, requires_grad=True)
        self.vectors.append(vectors)
        return vectors


def compute_loss(
    method: Method, batch: Batch | MediaBatch, encode: Encode | None = None, seed: int = LOSS
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The loss of a batch and its terms, under a seed; the encoder draws vectors by default."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return method.loss(batch, encode or RandomEncoder())


def try_step(
    method: Method,
    step: int,
    batches: Iterable[Batch | MediaBatch],
    student: Student | None = None,
) -> None:
    """Compute the losses of a step, then call the method's `after_step`; no weight is updated.

    Texts are encoded by the student, or are random vectors without one.
    """
    for batch in batches:
        # images and recordings have random vectors: the student may have no patches for them
        encode = None if isinstance(batch, MediaBatch) else student
        compute_loss(method, batch, encode, seed=LOSS + step)
    if type(method).after_step is not Method.after_step:
        with torch.no_grad():
            method.after_step(student or small_student(), step)


def count_text_views(method: type[Method], hyperparameters: Any) -> int:
    """The most views of a sentence that a method asks its encoder for; 1 if it cannot be tried on
    random batches.
    """
    encode = RandomEncoder()
    with torch.random.fork_rng(devices=[]), suppress(Exception):
        built = build(method, hyperparameters)
        for batch in random_batches(built):
            built.loss(batch, encode)
    return encode.views


def list_tensors(value: Any) -> list[Tensor]:
    """The tensors of a batch, in order."""
    if isinstance(value, Tensor):
        return [value]
    parts = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    tensors = []
    for part in parts.values():
        tensors += list_tensors(part)
    return tensors
