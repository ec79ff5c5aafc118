"""Models of sentence-transformers, read through that library whatever their modules are, for evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harness.encoders.modules import listed_modules, refuse_code
from harness.encoders.poolings import MODULES
from harness.encoders.student import Student
from harness.encoders.weights import check_configuration, check_tokenizer, known_vocabulary, reading, strict_weights
from harness.errors import UserError

#: sentences between two reports
COUNTED = 1024


class SentenceModules(nn.Module):
    """A model of sentence-transformers with its modules, its default prompt and its longest sequence, in float32."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.float().eval()

    @classmethod
    def load(cls, folder: Path, *, trusted: bool = False) -> SentenceModules:
        """Read a folder with a `modules.json`.

        `trusted` allows code that the folder names to be executed. Raises UserError for a folder that the library
        cannot read, for weights that do not fit, a missing vocabulary, and code that is not trusted.
        """
        if not listed_modules(folder):
            raise UserError(
                f"{folder} has no modules of sentence-transformers; give --pooling cls, mean, avg-first-last or pooler"
            )
        if not trusted:
            refuse_code(folder)
        remedy = "correct the folder, or read the encoder alone with --pooling"
        with reading("sentence-transformers model", folder, remedy):
            return cls(_loaded(folder, trusted))

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    def views(self, sentences: Sequence[str], count: int) -> Tensor:
        """Compute `count` vectors of each of n sentences in one pass, by all modules: (n, count, d).

        They are alike unless dropout is active. The model's default prompt is used, not the truncation of `embed`.
        """
        prompt = self.model.prompts.get(self.model.default_prompt_name)
        features = self.model.preprocess(list(sentences), prompt=prompt)
        repeated = {
            name: value.to(self.device).repeat_interleave(count, dim=0)
            for name, value in features.items()
            if isinstance(value, Tensor)
        }
        vectors: Tensor = self.model(repeated)["sentence_embedding"]
        return vectors.view(-1, count, vectors.shape[-1])

    def embed(
        self, sentences: Sequence[str], report: Callable[[int, int], None] = lambda done, total: None
    ) -> np.ndarray:
        """Embed n sentences by `encode`: float32 (n, d). `report` gets (done, n), at first and after each COUNTED."""
        report(0, len(sentences))
        order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
        parts = []
        for start in range(0, max(1, len(order)), COUNTED):
            some = [sentences[row] for row in order[start : start + COUNTED]]
            parts.append(self.model.encode(some, show_progress_bar=False, convert_to_numpy=True))
            report(min(start + COUNTED, len(order)), len(order))
        vectors = np.concatenate(parts).astype(np.float32)
        return vectors[np.argsort(order)]


def open_model(folder: Path, pooling: str, *, trusted: bool = False) -> Student | SentenceModules:
    """Load a folder by its modules or another pooling; `trusted` allows code in it to be executed. Raises UserError."""
    if pooling == MODULES:
        return SentenceModules.load(folder, trusted=trusted)
    return Student.load(folder, pooling, trusted=trusted)


def _loaded(folder: Path, trusted: bool) -> Any:
    from sentence_transformers import SentenceTransformer

    encoders = [folder / module.path for module in listed_modules(folder) if module.kind == "Transformer"]
    for encoder in encoders:
        check_configuration(encoder, trusted=trusted)
    with ExitStack() as checks:
        checks.enter_context(strict_weights(pooler=False))
        for encoder in encoders:
            checks.enter_context(known_vocabulary(encoder))
        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, trust_remote_code=trusted)
    for encoder in encoders:
        check_tokenizer(encoder, model.tokenizer, model[0].auto_model)
    return model
