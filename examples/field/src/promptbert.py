"""PromptBERT (Jiang et al., EMNLP 2022): the vector of a sentence is that of the mask in a template around it.

Two templates give the two views of a sentence. What a template alone would give, at the same positions, is subtracted
in training. At test, the first template is part of the tokenizer, and nothing is subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from harness.encoders.heads import TanhHead
from harness.encoders.poolings import Pooling
from harness.errors import UserError
from harness.losses.contrastive import info_nce
from harness.method import Batch, Dimensions, Encode, Hyperparameters, Method, Student, Vocabulary, hyper

#: the templates of the two views, up to the sentence, and from there to the mask; a period follows the mask
TEMPLATES = ('This sentence of "', '" means'), ('This sentence : "', '" means')


class PromptPooling(Pooling):
    """The token two places before the last one of a row: the mask of `[MASK] . [SEP]`."""

    code = (
        'ends = tokens["attention_mask"].cumsum(1).argmax(1) - 2\n'
        "vectors = output.last_hidden_state[torch.arange(len(ends)), ends]"
    )

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        hidden = layers[-1]
        places = (mask.cumsum(1).argmax(1) - 2).clamp(min=0)  # the last one that is no padding, less two
        return hidden.gather(1, places.view(-1, 1, 1).expand(-1, 1, hidden.shape[-1])).squeeze(1)


@dataclass(frozen=True)
class PromptBERTHyperparameters(Hyperparameters):
    """Hyperparameters of PromptBERT."""

    pooling: str = hyper(
        "prompt", origin="text", source="the vector of the mask", unit="of a sentence's tokens", registered="pooling"
    )
    temperature: float = hyper(0.05, above=0, origin="code", source="PromptBERT's script")
    templates: str = hyper(
        "two", origin="text", source="different templates", unit="of the two views", choices=("two", "one")
    )
    denoise: bool = hyper(True, origin="text", source="template denoising", unit="subtracts the template's own vector")
    head: str = hyper(
        "none", origin="text", source="no head in the loss; the public code has one", choices=("none", "tanh")
    )


def alone(rows: Mapping[str, Tensor], before: int, after: int) -> dict[str, Tensor]:
    """Rows whose sentences no token sees: `before` tokens of the template precede them, `after` follow."""
    mask = rows["attention_mask"]
    places = torch.arange(mask.shape[1], device=mask.device)
    sentence = (places >= before) & (places < mask.sum(1, keepdim=True) - after)
    return {"input_ids": rows["input_ids"], "attention_mask": mask * ~sentence}


class PromptBERT(Method):
    """InfoNCE between a sentence's vectors in two templates, each less the vector of its template."""

    name = "promptbert"
    title = "PromptBERT"
    paper = "Jiang et al., PromptBERT: Improving BERT Sentence Embeddings with Prompts, EMNLP 2022"
    terms = ("text",)
    readings = {
        "paper": "the vectors of the mask enter the loss as they are",
        "official": "the public code: they pass a head in training, as SimCSE's",
    }
    reading_values = {"official": {"head": "tanh"}}
    decisions = {
        "templates": ("code", "those of the public script for BERT, the first of which is that of the test"),
        "denoising": ("text", "by row; in the public code, rows of equal length share a template's dropout mask"),
        "length": ("code", "sentences are cut before the template is put around them"),
    }
    Hyperparameters = PromptBERTHyperparameters

    def __init__(self, hyperparameters: PromptBERTHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        width = dimensions.encoder
        self.text_head = TanhHead(width, width, std=0.02) if hyperparameters.head == "tanh" else nn.Identity()

    def prepare(self, student: Student, vocabulary: Vocabulary, models: Mapping[str, Student]) -> None:
        """Tokenise the templates, and let the student's tokenizer put the first one around the sentences of tests."""
        cls, mask, sep = vocabulary.cls, vocabulary.mask, vocabulary.sep
        backend = getattr(student.tokenizer, "backend_tokenizer", None)
        if cls is None or mask is None or sep is None or backend is None:
            raise UserError("promptbert needs a fast tokenizer with [CLS], [MASK] and [SEP]; use another encoder")
        ends = [mask, *vocabulary.ids("."), sep]
        if len(ends) != 3:
            raise UserError("promptbert needs a tokenizer for which a period is one token; use another encoder")
        ids = vocabulary.ids
        self.parts = [([cls, *ids(before)], [*ids(after), *ends]) for before, after in TEMPLATES]
        named = zip(("before", "after"), self.parts[0], strict=True)
        words = student.tokenizer.convert_ids_to_tokens
        special = [{"id": name, "ids": part, "tokens": words(part)} for name, part in named]
        backend.post_processor = TemplateProcessing(single=["before", "$A", "after"], special_tokens=special)
        # a class that reads the template back, which that of BERT does not
        marks, longest = student.tokenizer.special_tokens_map, student.tokenizer.model_max_length
        student.tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=longest, **marks)

    def change_rows(self, rows: list[list[int]], random: np.random.Generator) -> dict[str, list[list[int]]]:
        """The sentences, without [CLS] and [SEP], in the template of each view."""
        return {
            view: [[*before, *row[1:-1], *after] for row in rows]
            for view, (before, after) in zip(("first", "second"), self.of_views, strict=True)
        }

    @property
    def of_views(self) -> list[tuple[list[int], list[int]]]:
        return self.parts if self.hyperparameters.templates == "two" else self.parts[:1] * 2

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: InfoNCE between the two views."""
        views = zip(("first", "second"), self.of_views, strict=True)
        first, second = (self.vectors(batch.changed[view], *parts, encode) for view, parts in views)
        return {"text": info_nce(self.text_head(first), self.text_head(second), self.hyperparameters.temperature)}

    def vectors(self, rows: Mapping[str, Tensor], before: list[int], after: list[int], encode: Encode) -> Tensor:
        """The mask's vectors of B rows, less those of their template where it stands: (B, d)."""
        vectors = encode(rows, 1)[:, 0]
        if not self.hyperparameters.denoise:
            return vectors
        return vectors - encode(alone(rows, len(before), len(after)), 1)[:, 0]
