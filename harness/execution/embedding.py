"""A finished model as the suites see it: sentences to vectors, and where it has one the space it shares with images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from harness.corpora.base import Pairs
from harness.encoders.student import Student
from harness.evaluation.embed import Embedder
from harness.execution.teaching import Teaching


@dataclass
class SharedSpace:
    """Captions and images through a method's own heads (harness/evaluation/retrieval.py asks for it)."""

    embed: Embedder
    heads: tuple[nn.Module, nn.Module]
    teaching: Teaching
    contents: Callable[[str], str]

    def texts(self, sentences: Sequence[str]) -> np.ndarray:
        """Captions in the shared space: (n, p) float32."""
        return _through(self.heads[0], self.embed(sentences))

    def images(self, pairs: Pairs, name: str) -> np.ndarray:
        """Images in the shared space: (m, p) float32; `name` is the retrieval task's."""
        features = self.teaching.of_images(pairs, self.contents(name))
        return _through(self.heads[1], np.asarray(features, dtype=np.float32))


class Model:
    """An Embedder that embeds each sentence once, whatever suite asks for it again.

    `shared` is the space shared with images or None, `keep` a folder of the run's own.
    """

    def __init__(self, student: Student, keep: Path) -> None:
        self.student, self.keep = student, keep
        self.shared: SharedSpace | None = None
        self._rows: dict[str, np.ndarray] = {}

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """n sentences -> (n, d) float32."""
        new = [text for text in dict.fromkeys(sentences) if text not in self._rows]
        if new:
            self._rows.update(zip(new, self.student.embed(new), strict=True))
        return np.stack([self._rows[text] for text in sentences])


class Forgetful(Model):
    """A Model that keeps no vector, for suites of millions of texts."""

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """n sentences -> (n, d) float32."""
        return self.student.embed(sentences)


@torch.inference_mode()
def _through(head: nn.Module, rows: np.ndarray) -> np.ndarray:
    device = next(head.eval().parameters()).device
    parts = [head(torch.tensor(rows[start : start + 4096], device=device)) for start in range(0, len(rows), 4096)]
    return torch.cat(parts).float().cpu().numpy()
