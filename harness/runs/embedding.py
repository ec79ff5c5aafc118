"""The model of a run as suites see it: sentences to vectors, and the spaces it shares with images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from harness.corpora.base import Pairs
from harness.encoders.student import SentenceModules, Student
from harness.evaluation.embed import EmbedFunction
from harness.runs.train import RunFeatures

#: Rows that pass a head at once.
ROWS = 4096


@dataclass(frozen=True)
class HeadSpace:
    """Captions and images through the method's own heads (an `ImageTextSpace`)."""

    embed: EmbedFunction
    heads: tuple[nn.Module, nn.Module]
    features: RunFeatures
    contents: Callable[[str], str]

    def texts(self, sentences: Sequence[str]) -> np.ndarray:
        """Project n captions: (n, p) float32."""
        return _through(self.heads[0], self.embed(sentences))

    def images(self, pairs: Pairs, task: str) -> np.ndarray:
        """Project the m images of a retrieval task: (m, p) float32."""
        features = self.features.of_images(pairs, self.contents(task))
        return _through(self.heads[1], np.asarray(features, dtype=np.float32))


@dataclass(frozen=True)
class TeacherSpace:
    """Captions and images as the run's frozen teacher embeds them (an `ImageTextTeacher`)."""

    features: RunFeatures
    contents: Callable[[str], str]

    def both(self, texts: Sequence[str], pairs: Pairs, task: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Embed captions (n, f) and images (m, f) of a retrieval task; None without a teacher of both."""
        captions = self.features.of_captions(texts, self.contents(task))
        if captions is None:
            return None
        return np.asarray(captions), np.asarray(self.features.of_images(pairs, self.contents(task)))


class CachedEmbedding:
    """An `EmbedFunction` that embeds each sentence once, whichever suite asks for it again."""

    def __init__(self, embed: EmbedFunction) -> None:
        self._embed = embed
        self._rows: dict[str, np.ndarray] = {}

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Embed n sentences: (n, d) float32."""
        new = [text for text in dict.fromkeys(sentences) if text not in self._rows]
        if new:
            self._rows.update(zip(new, self._embed(new), strict=True))
        return np.stack([self._rows[text] for text in sentences])


@torch.inference_mode()
def dropout_views(student: Student | SentenceModules, sentences: Sequence[str], n: int, seed: int) -> np.ndarray:
    """Encode each of s sentences n times with dropout active: (s, n, d) float32.

    The dropout masks depend on `seed` alone; the caller's random state is not changed.
    """
    device, was_training = student.device, student.training
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        rows = student.train().views(sentences, n)
    student.train(was_training)
    return rows.float().cpu().numpy()


@torch.inference_mode()
def _through(head: nn.Module, rows: np.ndarray) -> np.ndarray:
    device = next(head.eval().parameters()).device
    parts = [head(torch.tensor(rows[start : start + ROWS], device=device)) for start in range(0, len(rows), ROWS)]
    return torch.cat(parts).float().cpu().numpy()
