"""DiffCSE (Chuang et al., NAACL 2022): a sentence vector has to tell which of its sentence's words were replaced.

Beside the contrastive loss, a frozen generator fills in hidden words, and a discriminator, to which the sentence vector
is given in place of [CLS], tells the words that differ. Generator and discriminator are not used at test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.errors import UserError
from harness.losses.contrastive import in_float32, info_nce
from harness.method import (
    UNMASKED,
    Batch,
    Dimensions,
    Encode,
    Feature,
    Hyperparameters,
    Method,
    Student,
    Vocabulary,
    hyper,
)


@dataclass(frozen=True)
class DiffCSEHyperparameters(Hyperparameters):
    """Hyperparameters of DiffCSE; its script trains with a learning rate of 7e-6, which is a value of a profile."""

    temperature: float = hyper(0.05, above=0, origin="code", source="DiffCSE's script")
    lambda_: float = hyper(0.005, at_least=0, origin="code", source="DiffCSE's script", unit="weight of difference")
    hidden: float = hyper(0.3, above=0, origin="code", source="DiffCSE's script", unit="share of words to replace")
    recovered: str = hyper(
        "hidden", origin="text", source="hidden words are recovered", unit="by the generator", choices=("hidden", "all")
    )
    generator: str = hyper("distilbert-base-uncased", origin="text", source="DiffCSE's generator", teacher=True)
    generator_head: str = hyper(
        "own", source="a pretrained generator", unit="'tied': the generator's embeddings", choices=("own", "tied")
    )


@in_float32
def replaced_token_loss(logits: Tensor, replaced: Tensor, mask: Tensor) -> Tensor:
    """Binary cross-entropy of which tokens were replaced: (B, L) each -> scalar, the mean over all tokens."""
    losses = functional.binary_cross_entropy_with_logits(logits, replaced.to(logits.dtype), reduction="none")
    return (losses * mask).sum() / mask.sum()


def tied_head(model: Any) -> nn.Module:
    """Inner products of states with the embeddings of words: (..., d) -> (..., V)."""
    head = nn.Linear(1, 1, bias=False)
    head.weight = model.get_input_embeddings().weight
    return head


class DiffCSE(Method):
    """L = L_contrast + lambda * L_RTD: InfoNCE of two dropout views, and replaced words told from their vectors."""

    name = "diffcse"
    title = "DiffCSE"
    paper = "Chuang et al., DiffCSE: Difference-based Contrastive Learning for Sentence Embeddings, NAACL 2022"
    terms = ("text", "difference")
    readings = {
        "paper": "the generator fills in hidden words only",
        "official": "the public code: the generator's best word at every place but the first",
    }
    reading_values = {"official": {"recovered": "all"}}
    decisions = {
        "reduction": ("code", "means over sentences and tokens; paper: a sum over tokens; code: padding counts too"),
        "words": ("code", "the generator's best words are taken, not drawn"),
        "hidden words": ("mended", "as in BERT's pretraining, 80% of them become the mask"),
        "judge": ("text", "one logit a token; the public code has two, and cross-entropy"),
        "condition": ("mended", "the vector takes the place of [CLS]'s embedding, with its position; code: without"),
        "heads": ("code", "two layers with batch normalisation, whose output the discriminator gets"),
    }
    Hyperparameters = DiffCSEHyperparameters
    aside = ("discriminator", "judge")

    def __init__(self, hyperparameters: DiffCSEHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        width = dimensions.encoder
        wide = nn.Linear(width, 2 * width, bias=False), nn.BatchNorm1d(2 * width), nn.ReLU()
        self.text_head = nn.Sequential(
            *wide, nn.Linear(2 * width, width, bias=False), nn.BatchNorm1d(width, affine=False)
        )
        self.judge = nn.Linear(width, 1)

    @classmethod
    def features(cls, hyperparameters: DiffCSEHyperparameters) -> dict[str, Feature]:
        """The generator."""
        return {"generator": Feature(hyperparameters.generator, "model")}

    def prepare(self, student: Student, vocabulary: Vocabulary, models: Mapping[str, Student]) -> None:
        """Copy the encoder as discriminator, and take the generator's head for words, which stays frozen."""
        generator = models["generator"]
        if generator.tokenizer.get_vocab() != student.tokenizer.get_vocab():
            raise UserError(
                f"generator={self.hyperparameters.generator} has other tokens than the encoder; name another"
            )
        self.vocabulary, self.discriminator = vocabulary, student.second().requires_grad_(True)
        tied = self.hyperparameters.generator_head == "tied"
        self.generator = generator, tied_head(generator.model) if tied else generator.word_head()

    def change_rows(self, rows: list[list[int]], random: np.random.Generator) -> dict[str, list[list[int]]]:
        """Two copies of each sentence with hidden words, and these words."""
        masked, words = self.vocabulary.masked(rows * 2, self.hyperparameters.hidden, random)
        return {"masked": masked, "words": words}

    def weights(self) -> dict[str, float]:
        return {"difference": self.hyperparameters.lambda_}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: InfoNCE between two views; difference: the replaced words of each, told with its vector."""
        first, second = self.text_head(encode(batch.tokens, 2).transpose(0, 1).flatten(0, 1)).chunk(2)
        masked = batch.changed["masked"]
        edited, replaced = self.edited(masked, batch.changed["words"]["input_ids"])
        logits = self.judged(edited, masked["attention_mask"], torch.cat([first, second]))
        difference = replaced_token_loss(logits, replaced, masked["attention_mask"])
        return {"text": info_nce(first, second, self.hyperparameters.temperature), "difference": difference}

    @torch.no_grad()
    def edited(self, masked: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        """The generator's version of masked rows, and where it differs from the sentence: (2B, L) each."""
        (generator, head), ids, real = self.generator, masked["input_ids"], masked["attention_mask"] == 1
        hidden = (words != UNMASKED) & real
        original = torch.where(hidden, words, ids)
        inner = torch.arange(ids.shape[1], device=ids.device) > 0
        chosen = hidden if self.hyperparameters.recovered == "hidden" else real & inner
        edited = torch.where(chosen, head(generator.states(masked)[:, 0]).argmax(-1), original)
        return edited, edited != original

    def judged(self, ids: Tensor, mask: Tensor, vectors: Tensor) -> Tensor:
        """The discriminator's logits that tokens were replaced, given the vectors (2B, d) of their sentences."""
        model = self.discriminator.model
        words = model.get_input_embeddings()(ids)
        given = torch.cat([vectors.to(words.dtype).unsqueeze(1), words[:, 1:]], dim=1)
        logits: Tensor = self.judge(model(inputs_embeds=given, attention_mask=mask).last_hidden_state)
        return logits.squeeze(-1)
