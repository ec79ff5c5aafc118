"""Folders of sentence-transformers, read through that library: they are only evaluated, never
trained.

Where the first module is an encoder whose rows can be packed, it runs packed, as a student's does;
texts are prepared, pooled and normalised by the library's modules either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harness.encoders.modules import list_all_modules, list_modules, refuse_code
from harness.encoders.packed import Packing, restore_packing, run_packed
from harness.encoders.poolings import MODULES
from harness.encoders.rows import TokenRows, count_tokens_a_batch, make_batches
from harness.encoders.student import Student
from harness.encoders.tokenizer import check_tokenizer, follow_tokenizer_files, require_vocabulary
from harness.encoders.trial import TrialFindings, TrialKey, load_tried, try_modules
from harness.encoders.weights import (
    check_configuration,
    check_modules,
    convert_errors,
    require_weights,
)
from harness.errors import UserError

#: sentences between two reports
COUNTED = 1024
#: sentences in one batch of the library
BATCH = 32


class SentenceModules(nn.Module):
    """A model of sentence-transformers with its modules, its default prompt and its longest
    sequence, in float32.
    """

    def __init__(
        self, model: Any, found: TrialFindings | None = None, remarks: tuple[str, ...] = ()
    ) -> None:
        """`remarks` on how the model was read are kept with what its trial finds.

        Raises UserError for a model that cannot be used: see `try_modules`.
        """
        super().__init__()
        self.model = model.float().eval()
        # so that the first token is where poolings look for it
        if hasattr(getattr(model, "tokenizer", None), "padding_side"):
            model.tokenizer.padding_side = "right"

        #: the encoder that begins the modules; None for other models
        self.encoder: Any = getattr(model[0], "auto_model", None)
        #: how its rows are packed; None where the library computes on padding
        self.packing: Packing | None = None
        self.found = found or TrialFindings()
        if found is None:
            try_modules(self, remarks)
        elif found.rows == "packed":
            self.packing = restore_packing(self.encoder, found.position, direct=found.direct)

    @classmethod
    def load(cls, folder: Path, *, trusted: bool = False) -> SentenceModules:
        """Read a folder with a `modules.json`.

        `trusted` allows code that the folder names to be executed. Raises UserError for a folder
        that the library cannot read, for weights that do not fit, a missing vocabulary, and code
        that is not trusted.
        """
        if not list_modules(folder):
            raise UserError(
                f"{folder} has no modules of sentence-transformers; give --pooling cls, mean, last or another"
            )
        if not trusted:
            refuse_code(folder)

        what = "sentence-transformers model"
        remedy = "correct the folder, or read the encoder alone with --pooling"
        with convert_errors(what, folder, remedy, trusted=trusted):
            model, remarks = _load_model(folder, trusted)
        return load_tried(
            TrialKey(folder, MODULES, trusted=trusted),
            what,
            lambda known: cls(model, known, remarks),
        )

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    @property
    def depends_on_task(self) -> bool:
        """Whether a text's vector depends on what it is embedded for: by prompts, or by modules for
        queries and documents.
        """
        return self.found.by_task or any(self.model.prompts.values())

    def views(self, sentences: Sequence[str], count: int) -> Tensor:
        """Compute `count` vectors of each of n sentences in one pass, by all modules: (n, count,
        d).

        They are those of `encode`, with the default prompt and the truncation of vectors, unless
        dropout is active. A model whose vectors depend on padding gets one sentence a pass.
        """
        if self.found.rows == "equal lengths" and len(sentences) > 1:
            return torch.cat([self.views([sentence], count) for sentence in sentences])

        from sentence_transformers.util import batch_to_device

        repeated = [sentence for sentence in sentences for _ in range(count)]
        features = batch_to_device(self.prepare(repeated), self.device)
        return self._take_vectors(self.model(features)).view(len(sentences), count, -1)

    def embed(
        self,
        sentences: Sequence[str],
        report: Callable[[int, int], None] = lambda done, total: None,
        *,
        rows: int | None = None,
    ) -> np.ndarray:
        """Embed n sentences as `encode` does: float32 (n, d). `report` gets (done, n), at first and
        after each COUNTED.

        A batch has `rows` sentences where they are given, but one where the model cannot mix
        lengths.
        """
        report(0, len(sentences))
        order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))

        parts = []
        # no sentences are encoded too, which says how wide their array is
        for start in range(0, max(1, len(order)), COUNTED):
            texts = [sentences[row] for row in order[start : start + COUNTED]]
            parts.append(self.encode(texts, rows))
            report(min(start + COUNTED, len(order)), len(order))

        vectors = np.concatenate(parts).astype(np.float32)
        return vectors[np.argsort(order)]

    def encode(self, texts: Sequence[str], rows: int | None = None) -> np.ndarray:
        """Encode n texts, `rows` a batch where they are given: (n, d)."""
        packing = None
        if self.packing is not None and texts:
            packing = self.packing.select_attention(self.encoder)
        if packing is not None:
            return self._encode_packed(texts, packing, rows)

        size = BATCH if rows is None else rows
        if self.found.rows == "equal lengths":
            size = 1
        vectors = self.model.encode(
            texts, batch_size=size, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors)

    @torch.inference_mode()
    def _encode_packed(
        self, texts: Sequence[str], packing: Packing, rows: int | None
    ) -> np.ndarray:
        """Encode texts with the encoder's rows packed, batched by length: (n, d)."""
        from sentence_transformers.util import batch_to_device

        self.model.eval()  # as the library's `encode` does
        features = self.prepare(texts)
        lengths = features["attention_mask"].sum(1).numpy()
        width = self.encoder.config.hidden_size
        most_tokens = count_tokens_a_batch(self.device, width)

        parts = []
        batches = make_batches(lengths, rows, most_tokens)
        for batch in batches:
            batch_features = _take_rows(features, batch, int(lengths[batch].max()))
            token_rows = TokenRows.from_tokens(batch_features)
            assert token_rows is not None  # the library pads at the end
            packed = token_rows.packed.to(self.device)
            (states,) = run_packed(self.encoder, packed, packing)

            batch_features = batch_to_device(batch_features, self.device)
            batch_features["token_embeddings"] = packed.pad(states)
            for module in list(self.model)[1:]:
                batch_features = module(batch_features)
            parts.append(self._take_vectors(batch_features).float().cpu().numpy())

        vectors = np.concatenate(parts)
        return vectors[np.argsort(np.concatenate(batches))]

    def prepare(self, texts: Sequence[str]) -> dict[str, Any]:
        """The features of n texts as the library makes them, with the default prompt, among them
        token ids, (n, L), on the host.
        """
        prompt = self.model.prompts.get(self.model.default_prompt_name)
        features: dict[str, Any] = self.model.preprocess(texts, prompt=prompt)
        return features

    def _take_vectors(self, features: dict[str, Any]) -> Tensor:
        """The vectors of the last module, as many of their dimensions as the model keeps."""
        from sentence_transformers.util import truncate_embeddings

        vectors = features["sentence_embedding"]
        if self.model.truncate_dim is not None:
            vectors = truncate_embeddings(vectors, self.model.truncate_dim)
        return torch.as_tensor(vectors)


def _take_rows(features: dict[str, Any], rows: np.ndarray, longest: int) -> dict[str, Any]:
    """The features of some rows, cut at their longest one; what is no tensor is of all rows."""
    taken = dict(features)
    for name, value in features.items():
        if isinstance(value, Tensor):
            taken[name] = value[rows, :longest]
    return taken


def open_model(folder: Path, pooling: str, *, trusted: bool = False) -> Student | SentenceModules:
    """Load a model folder for the given pooling; `trusted` allows its code to be executed. Raises
    UserError.
    """
    if pooling == MODULES:
        return SentenceModules.load(folder, trusted=trusted)
    return Student.load(folder, pooling, trusted=trusted)


def _load_model(folder: Path, trusted: bool) -> tuple[Any, tuple[str, ...]]:
    """A model of sentence-transformers, and what a user should know of how it was read."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer

    encoders = [
        folder / module.path for module in list_all_modules(folder) if module.kind == "Transformer"
    ]
    check_modules(folder)
    for encoder in encoders:
        check_configuration(encoder, trusted=trusted)

    with ExitStack() as checks:
        checks.enter_context(require_weights(pooler=False))
        remarks = checks.enter_context(follow_tokenizer_files())
        for encoder in encoders:
            checks.enter_context(require_vocabulary(encoder))
        model = SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, trust_remote_code=trusted
        )

    transformers = [module for module in model.modules() if isinstance(module, Transformer)]
    for encoder, module in zip(encoders, transformers, strict=True):
        check_tokenizer(encoder, module.tokenizer)

    return model, tuple(remarks)
