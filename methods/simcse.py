"""SimCSE (Gao et al., EMNLP 2021), as MCSE section 3.1 and NonLing section 3.2 restate it.

Unsupervised, a sentence is encoded twice with different dropout masks; the two vectors are a
positive pair, and the other sentences of the batch are negatives. In training, [CLS] passes a
one-layer tanh head, dropped at test time.

Supervised, the positive of a premise is its entailed hypothesis; the negatives are the other
entailed hypotheses of the batch and all contradicted ones, which are hard negatives. The head is
kept at test time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor
from torch.nn import functional

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import info_nce, info_nce_hard
from harness.method import (
    UNMASKED,
    Batch,
    Dimensions,
    Encode,
    Hyperparameters,
    Method,
    Stream,
    Vocabulary,
    hyper,
)

if TYPE_CHECKING:
    import numpy as np

    from harness.method import Student


@dataclass(frozen=True)
class SimCSEHyperparameters(Hyperparameters):
    """Hyperparameters of SimCSE."""

    temperature: float = hyper(
        0.05, above=0, origin="text", source="SimCSE section 3; MCSE appendix A"
    )
    mlm_weight: float = hyper(
        0.0,
        at_least=0,
        origin="code",
        source="SimCSE's script; 0.1 with its --do_mlm",
        unit="weight of mlm",
        later=True,
    )
    mlm_probability: float = hyper(
        0.15,
        above=0,
        origin="code",
        source="SimCSE's script",
        unit="share of tokens that mlm predicts",
        later=True,
    )


class SimCSE(Method):
    """L_text (SimCSE Eq. 1; MCSE Eq. 1): InfoNCE between two dropout views, in one direction.

    With a weight, mlm predicts masked tokens of both copies of each sentence in a pass of its own,
    as the public code.

    Captions are treated as sentences, so that in a mixed setting it sees the same batches as MCSE.
    """

    name = "simcse"
    title = "SimCSE"
    paper = "Gao et al., SimCSE: Simple Contrastive Learning of Sentence Embeddings, EMNLP 2021"
    streams: ClassVar[tuple[Stream, ...]] = ("sentences",)
    terms: ClassVar[tuple[str, ...]] = ("text", "mlm")
    optional_terms = ("mlm",)
    aside = ("mlm_head",)
    readings = {
        "paper": "Eq. 1; the profile 'paper' trains it as MCSE Table 3, beside images or recordings as NonLing",
        "official": "the same loss; the profile 'paper' trains it like SimCSE's public script (1 epoch, fp16)",
    }
    decisions = {
        "reduction": ("code", "means over the batch; Eq. 1 and 5 are per sentence"),
        "heads": ("code", "the text head starts like BERT's layers"),
    }
    Hyperparameters = SimCSEHyperparameters

    def __init__(self, hyperparameters: SimCSEHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: InfoNCE between the two views of each sentence (Eq. 1); mlm where it has a weight."""
        vectors = encode(batch.tokens, 2)
        first, second = by_view(self.text_head, vectors)
        terms = {"text": info_nce(first, second, self.hyperparameters.temperature)}

        if "masked" in batch.changed:
            terms["mlm"] = self.mlm(batch.changed, encode)
        return terms

    def prepare(
        self, student: Student, vocabulary: Vocabulary, models: Mapping[str, Student]
    ) -> None:
        """Add the head of mlm: like the public code's, it starts as the encoder's own where that is
        published.
        """
        if not self.hyperparameters.mlm_weight:
            return
        self.vocabulary = vocabulary
        self.mlm_head = student.word_head(fresh=True).requires_grad_(True)

    def change_rows(
        self, rows: list[list[int]], random: np.random.Generator
    ) -> dict[str, list[list[int]]]:
        """Two masked copies of each sentence for mlm, and the tokens to predict."""
        if not self.hyperparameters.mlm_weight:
            return {}
        both_copies = rows * 2
        probability = self.hyperparameters.mlm_probability
        masked, labels = self.vocabulary.masked(both_copies, probability, random)
        return {"masked": masked, "labels": labels}

    def weights(self) -> dict[str, float]:
        return {"mlm": self.hyperparameters.mlm_weight}

    def mlm(self, changed: Mapping[str, Mapping[str, Tensor]], encode: Encode) -> Tensor:
        """Mean cross-entropy of the tokens to predict; 0 where a batch has none."""
        labels = changed["labels"]["input_ids"]
        is_token = changed["labels"]["attention_mask"] == 1
        to_predict = is_token & (labels != UNMASKED)

        states = encode.states(changed["masked"])[:, 0]
        scores = self.mlm_head(states[to_predict])
        total = functional.cross_entropy(scores, labels[to_predict], reduction="sum")
        return total / to_predict.sum().clamp(min=1)


@dataclass(frozen=True)
class SupervisedSimCSEHyperparameters(Hyperparameters):
    """Hyperparameters of supervised SimCSE."""

    pooling: str = hyper(
        "pooler",
        origin="code",
        source="SimCSE's supervised models keep the head at test",
        unit="of a sentence's tokens, in training and at test; 'cls' is pooler without the text head at test",
        registered="pooling",
        later=True,
    )
    temperature: float = hyper(
        0.05, above=0, origin="text", source="SimCSE section 4; NonLing Eq. 3"
    )
    hard_negative_weight: float = hyper(
        0.0,
        origin="text",
        source="SimCSE appendix B: alpha 1, whose logarithm is 0",
        unit="added to the logit of a premise's own contradiction",
    )


class SupervisedSimCSE(Method):
    """L_text over triplets (SimCSE Eq. 5; NonLing Eq. 3)."""

    name = "simcse-sup"
    title = "supervised SimCSE"
    notes = "simcse"
    paper = "Gao et al., SimCSE: Simple Contrastive Learning of Sentence Embeddings, EMNLP 2021, section 4"
    streams: ClassVar[tuple[Stream, ...]] = ("triplets",)
    terms: ClassVar[tuple[str, ...]] = ("text",)
    readings = {
        "paper": "Eq. 5; the profile 'paper' trains it like SimCSE's script, beside images or recordings as NonLing",
        "official": "the same loss; the profile 'paper' trains it like SimCSE's script everywhere",
    }
    decisions = SimCSE.decisions
    Hyperparameters = SupervisedSimCSEHyperparameters

    def __init__(
        self, hyperparameters: SupervisedSimCSEHyperparameters, dimensions: Dimensions
    ) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: InfoNCE from premises to entailed hypotheses, with hard negatives."""
        vectors = self.text_head(encode(batch.tokens, 1))
        # the three sentences of a triplet are three rows, one after the other
        triplets = vectors.view(-1, 3, vectors.shape[-1])
        premises, entailed, contradicted = triplets.unbind(1)

        values = self.hyperparameters
        loss = info_nce_hard(
            premises, entailed, contradicted, values.temperature, values.hard_negative_weight
        )
        return {"text": loss}
