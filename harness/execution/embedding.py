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
from harness.evaluation.embed import EmbedFunction
from harness.execution.features import RunFeatures


@dataclass
class SharedSpace:
    """Captions and images through a method's own heads (harness/evaluation/retrieval.py asks for it)."""

    embed: EmbedFunction
    heads: tuple[nn.Module, nn.Module]
    teaching: RunFeatures
    contents: Callable[[str], str]

    def texts(self, sentences: Sequence[str]) -> np.ndarray:
        """Captions in the shared space: (n, p) float32."""
        return _through(self.heads[0], self.embed(sentences))

    def images(self, pairs: Pairs, name: str) -> np.ndarray:
        """Images in the shared space: (m, p) float32; `name` is the retrieval task's."""
        features = self.teaching.of_images(pairs, self.contents(name))
        return _through(self.heads[1], np.asarray(features, dtype=np.float32))


@dataclass
class TeacherSpace:
    """Captions and images as the run's frozen teacher places them (harness/evaluation/figure_data.py asks for it)."""

    teaching: RunFeatures
    contents: Callable[[str], str]

    def both(self, texts: Sequence[str], pairs: Pairs, name: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Captions (n, f) and images (m, f) of the retrieval task `name`; None without a teacher of both."""
        captions = self.teaching.of_captions(texts, self.contents(name))
        if captions is None:
            return None
        return np.asarray(captions), np.asarray(self.teaching.of_images(pairs, self.contents(name)))


class Model:
    """An Embedder that embeds each sentence once, whatever suite asks for it again.

    `shared` is the space shared with images or None, `teacher` that of a frozen teacher or None, `keep` a folder of
    the run's own.
    """

    def __init__(self, student: Student, keep: Path) -> None:
        self.student, self.keep = student, keep
        self.shared: SharedSpace | None = None
        self.teacher: TeacherSpace | None = None
        self._rows: dict[str, np.ndarray] = {}

    @property
    def device(self) -> str:
        """Where the model is, as PyTorch calls it."""
        return str(self.student.device)

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """n sentences -> (n, d) float32."""
        new = [text for text in dict.fromkeys(sentences) if text not in self._rows]
        if new:
            self._rows.update(zip(new, self.student.embed(new), strict=True))
        return np.stack([self._rows[text] for text in sentences])

    @torch.inference_mode()
    def views(self, sentences: Sequence[str], n: int, seed: int) -> np.ndarray:
        """n encodings of each of s sentences with dropout active, (s, n, d) float32; the seed says which.

        The caller's random numbers are left as they were.
        """
        student = self.student
        device, was_training = student.device, student.training
        tokens = {
            name: ids.to(device).repeat_interleave(n, dim=0)
            for name, ids in student.tokenize(sentences, student.longest).items()
        }
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            rows = student.train().pooled(tokens)
        student.train(was_training)
        return rows.float().cpu().numpy().reshape(len(sentences), n, -1)


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
