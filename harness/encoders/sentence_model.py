"""A loaded model as users of sentence-transformers call one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from harness.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from harness.encoders.sentence_modules import SentenceModules
    from harness.encoders.student import Student


@dataclass(frozen=True)
class SentenceModel:
    """A model that embeds sentences. It can be called instead of `encode`."""

    name: str
    student: Student | SentenceModules

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        normalize_embeddings: bool = False,
        convert_to_tensor: bool = False,
        show_progress_bar: bool = False,
    ) -> np.ndarray | Tensor:
        """Embed n sentences: float32 (n, d), in their order; a single text gives (d,).

        Sentences are a list, a tuple, an array, or a column of a frame. A batch has a bounded
        number of tokens, or `batch_size` sentences. `normalize_embeddings` divides each vector by
        its length, `convert_to_tensor` returns a torch tensor on the CPU, and `show_progress_bar`
        shows progress on standard error.

        Raises UserError for anything that is not text, and a batch size below 1.
        """
        if batch_size is not None and batch_size < 1:
            raise UserError(f"encode(), argument 'batch_size': {batch_size} is below 1")

        is_single = isinstance(sentences, str)
        texts = [cast(str, sentences)] if is_single else _list_texts(sentences)
        with _show_progress(show_progress_bar) as report:
            vectors = self.student.embed(texts, report, rows=batch_size)

        if normalize_embeddings:
            vectors = _normalise(vectors)
        if is_single:
            vectors = vectors[0]
        if convert_to_tensor:
            import torch

            return torch.from_numpy(np.ascontiguousarray(vectors))
        return vectors

    __call__ = encode

    def similarity(self, first: Any, second: Any) -> np.ndarray:
        """The cosines of n and m vectors, (n, d) and (m, d) or (d,): float32 (n, m).

        The vectors are arrays or tensors, as `encode` returns them; a vector of zeros has a cosine
        of 0 with every other. Raises UserError for vectors of different widths.
        """
        rows = np.atleast_2d(np.asarray(first, dtype=np.float32))
        columns = np.atleast_2d(np.asarray(second, dtype=np.float32))
        if rows.shape[1] != columns.shape[1]:
            raise UserError(
                f"similarity() compares vectors of one width, not of {rows.shape[1]} and "
                f"{columns.shape[1]}; embed both with the same model"
            )
        cosines: np.ndarray = _normalise(rows) @ _normalise(columns).T
        return cosines


def _list_texts(sentences: Sequence[str]) -> list[str]:
    """The sentences of a list, a tuple, an array or a column. Raises UserError for other things."""
    listed = sentences.tolist() if hasattr(sentences, "tolist") else sentences
    if not isinstance(listed, list | tuple):
        kind = type(sentences).__name__
        raise UserError(f"encode() takes a text or a list of texts, not {kind}; give a list")
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            raise UserError(
                f"encode() takes texts, but item {place} is {text!r}; remove it or write it as text"
            )
    return list(listed)


def _normalise(vectors: np.ndarray) -> np.ndarray:
    """Rows divided by their Euclidean length; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normalised: np.ndarray = vectors / np.where(lengths == 0, 1, lengths)
    return normalised


@contextmanager
def _show_progress(is_shown: bool) -> Iterator[Callable[[int, int], None]]:
    """A function that is told how many sentences of how many are done, and shows it on demand."""
    if not is_shown:
        yield lambda done, total: None
        return

    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("encode", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
