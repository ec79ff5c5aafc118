"""Text teachers: a frozen sentence encoder, such as SimCSE or DiffCSE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from harness.encoders.poolings import pooling_named
from harness.encoders.rows import TokenRows
from harness.encoders.student import Student, pooler_head
from harness.encoders.teachers import Teacher, in_batches, reading
from harness.encoders.weights import load_encoder

#: sentences in one forward pass
BATCH = 128


class TextTeacher(Teacher):
    """Sentence vectors of an encoder by a registered pooling, (n, d), and the last layer at every token, (n, L, d)."""

    gives = ("caption", "tokens")
    pooled = True

    def __init__(self, folder: Path, *, pooling: str, max_length: int, device: str) -> None:
        """Load a model folder of transformers in float32; sentences are cut at `max_length` tokens.

        Raises UserError for an unknown pooling, a folder that cannot be read, or weights that do not fit.
        """
        with_pooler = pooling_named(pooling).head
        with reading(folder, "config.json, weights and a tokenizer, as transformers saves them"):
            model, tokenizer = load_encoder(folder, pooler=with_pooler)
        self._student = Student(model, tokenizer, pooling).eval()
        self._student.read_through(pooler_head(model))
        self._student.to(torch.device(device))
        self._max_length = max_length

    @torch.inference_mode()
    def captions(self, sentences: Sequence[str]) -> np.ndarray:
        """Compute sentence vectors, (n, d) float32, in batches of similar length."""
        tokenizer = self._student.tokenizer
        encoded = tokenizer(list(sentences), truncation=True, max_length=self._max_length)["input_ids"]
        order = np.argsort([-len(ids) for ids in encoded], kind="stable")
        vectors = np.empty((len(encoded), self._student.width), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            tokens = TokenRows.listed([encoded[row] for row in rows], tokenizer.pad_token_id)
            vectors[rows] = self._student.pooled(tokens.to(self._student.device)).float().cpu().numpy()
        return vectors

    def tokens(self, sentences: Sequence[str], max_length: int) -> np.ndarray:
        """Compute the last layer at all positions of sentences padded to `max_length`: (n, max_length, d) float32.

        Position 0 and padding are included: the public code of DALR normalises over all tokens.
        """

        def hidden(part: Sequence[str]) -> Tensor:
            tokens = self._student.tokenizer(
                list(part), truncation=True, padding="max_length", max_length=max_length, return_tensors="pt"
            )
            states: Tensor = self._student.model(**self._inputs(tokens)).last_hidden_state
            return states

        return in_batches(sentences, BATCH, hidden)

    def _inputs(self, tokens: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: tokens[name].to(self._student.device) for name in ("input_ids", "attention_mask")}
