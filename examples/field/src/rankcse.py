"""RankCSE (Liu et al., ACL 2023): the sentences of a batch are ranked as two teachers rank them.

Beside the contrastive loss, the two dropout views of a sentence rank the other sentences alike, and their ranking
follows that of the teachers, by ListNet or ListMLE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from harness.encoders.heads import TanhHead, by_view
from harness.losses.alignment import list_mle, list_net
from harness.losses.contrastive import cosine_matrix, in_float32, info_nce
from harness.method import (
    Batch,
    Dimensions,
    Encode,
    Feature,
    Hyperparameters,
    Method,
    Student,
    Vocabulary,
    hyper,
    split_teachers,
)

SCRIPT = "script of a public reimplementation (perceptiveshawty/RankCSE)"
ROLES = ("teacher1", "teacher2")


@dataclass(frozen=True)
class RankCSEHyperparameters(Hyperparameters):
    """Hyperparameters of RankCSE."""

    teachers: str = hyper(
        "diffcse+simcse",
        origin="text",
        source="DiffCSE and SimCSE are its teachers",
        unit="one or two encoders of text, joined by '+'",
        teacher=True,
    )
    alpha: float = hyper(0.33, at_least=0, origin="code", source=SCRIPT, unit="weight of the first of two teachers")
    beta: float = hyper(1.0, at_least=0, origin="code", source=SCRIPT, unit="weight of consistency")
    gamma: float = hyper(1.0, at_least=0, origin="code", source=SCRIPT, unit="weight of ranking")
    temperature: float = hyper(0.05, above=0, origin="code", source=SCRIPT, unit="of text and consistency")
    temperature_student: float = hyper(0.05, above=0, origin="code", source=SCRIPT, unit="of the ranked student")
    temperature_teacher: float = hyper(
        0.025,
        above=0,
        origin="code",
        source="half of the student's, as the reimplementation declares",
        unit="of teachers",
    )
    ranking: str = hyper("listnet", origin="text", source="RankCSE has both", choices=("listnet", "listmle"))


@in_float32
def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Jensen-Shannon divergence of the softmax of rows of logits: (N, M), (N, M) -> scalar, the mean over rows.

    Half the sum of KL(P || M) and KL(Q || M), where M is the mean of P and Q.
    """
    p, q = functional.log_softmax(first, dim=1), functional.log_softmax(second, dim=1)
    middle = torch.logaddexp(p, q) - torch.log(torch.full((), 2.0, dtype=p.dtype, device=p.device))
    return ((p.exp() * (p - middle)).sum(1) + (q.exp() * (q - middle)).sum(1)).mean() / 2


class RankCSE(Method):
    """L = L_infoNCE + beta * L_consistency + gamma * L_rank."""

    name = "rankcse"
    title = "RankCSE"
    paper = "Liu et al., RankCSE: Unsupervised Sentence Representations Learning via Learning to Rank, ACL 2023"
    terms = ("text", "consistency", "ranking")
    reads_texts = True
    readings = {"paper": "InfoNCE, the Jensen-Shannon divergence of both views' rankings, and the teachers' ranking"}
    decisions = {
        "reduction": ("mended", "means over the batch; ListMLE is a sum over the list, in the reimplementation a mean"),
        "consistency": ("text", "the reimplementation bounds log M below by 1e-7, which leaves negative entropies"),
        "temperature": ("mended", "the reimplementation does not use the teachers' own, but the student's for both"),
        "lists": ("code", "ListNet leaves out a sentence itself, as a public reimplementation does; ListMLE has it"),
        "teachers": ("code", "their cosines are weighted, one view each, without dropout"),
        "heads": ("code", "the text head of SimCSE"),
    }
    Hyperparameters = RankCSEHyperparameters

    def __init__(self, hyperparameters: RankCSEHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    @classmethod
    def features(cls, hyperparameters: RankCSEHyperparameters) -> dict[str, Feature]:
        """The teachers, which read the sentences with their own tokenizers."""
        names = split_teachers(hyperparameters.teachers)
        if len(names) > len(ROLES):
            raise ValueError(f"'teachers={hyperparameters.teachers}' names {len(names)} teachers; write one or two")
        return {role: Feature(name, "model") for role, name in zip(ROLES, names, strict=False)}

    def prepare(self, student: Student, vocabulary: Vocabulary, models: Mapping[str, Student]) -> None:
        """Keep the teachers."""
        self.teachers = tuple(models[role] for role in ROLES if role in models)

    def weights(self) -> dict[str, float]:
        return {"consistency": self.hyperparameters.beta, "ranking": self.hyperparameters.gamma}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text: InfoNCE; consistency: both views rank alike; ranking: as the teachers."""
        values = self.hyperparameters
        first, second = by_view(self.text_head, encode(batch.tokens, 2))
        scores = cosine_matrix(first, second)
        ranked, wanted = scores / values.temperature_student, self.taught(batch).to(scores)
        return {
            "text": info_nce(first, second, values.temperature),
            "consistency": jensen_shannon(scores / values.temperature, scores.T / values.temperature),
            "ranking": list_net(ranked, wanted / values.temperature_teacher)
            if values.ranking == "listnet"
            else list_mle(ranked, wanted),
        }

    @torch.no_grad()
    def taught(self, batch: Batch) -> Tensor:
        """The teachers' cosines of the B sentences, weighted: (B, B)."""
        vectors = [teacher.views(batch.texts, 1)[:, 0] for teacher in self.teachers]
        first, *_, last = [cosine_matrix(each, each) for each in vectors] * 2
        return torch.lerp(last, first, self.hyperparameters.alpha)
