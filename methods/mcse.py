"""MCSE (Zhang et al., NAACL 2022).

Every batch has SimCSE's objective. On caption-image pairs, a second objective pulls each dropout
view of a caption towards its image in a shared space of 256 dimensions, and pushes it away from the
other images of the batch. The image encoder is frozen; its features are inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import info_nce
from harness.method import (
    Batch,
    Dimensions,
    Encode,
    Feature,
    Hyperparameters,
    Method,
    PairBatch,
    hyper,
)


@dataclass(frozen=True)
class MCSEHyperparameters(Hyperparameters):
    """Hyperparameters of MCSE; lambda differs by setting and encoder (Table 3), so profiles set it."""

    temperature: float = hyper(0.05, above=0, origin="text", source="appendix A")
    temperature_multimodal: float = hyper(0.05, above=0, origin="text", source="appendix A")
    lambda_: float = hyper(
        0.01,
        at_least=0,
        origin="text",
        source="Eq. 4; Table 3 (0.01 or 0.05)",
        unit="weight of the multimodal loss",
    )
    projection_dim: int = hyper(
        256, at_least=1, origin="text", source="appendix A", unit="dimensions of the shared space"
    )
    view_reduction: str = hyper(
        "sum", origin="text", source="Eq. 3; the public code averages", choices=("sum", "mean")
    )
    images: str = hyper(
        "default",
        origin="text",
        source="section 4.1, Tables 2 and 7",
        unit="image teacher, or a control: shuffled, random, noise, permuted, untrained",
        teacher=True,
    )
    text_teacher: str = hyper(
        "none",
        origin="text",
        source="section 3.2 has none; KDMCSE appendix C, Table 5, adds CLIP's caption embeddings",
        unit="text teacher or 'none'",
        teacher=True,
        later=True,
    )


class MCSE(Method):
    """L = L_text + lambda * L_info (Eq. 4), with L_info of Eq. 3 on paired batches."""

    name = "mcse"
    title = "MCSE"
    paper = "Zhang et al., MCSE: Multimodal Contrastive Learning of Sentence Embeddings, NAACL 2022"
    streams = ("sentences", "pairs")
    terms = ("text", "info")
    readings = {
        "paper": "Eq. 1 to 4: the losses of the two dropout views are summed",
        "official": "the public code: the two views' losses are averaged, which halves lambda",
    }
    reading_values = {"official": {"view_reduction": "mean"}}
    decisions = {
        "paired steps": (
            "code",
            "step k of an epoch of T + P batches is paired if T // P divides k",
        ),
        "reduction": ("code", "means over the batch; Eq. 1 and 3 are per sentence"),
        "heads": (
            "code",
            "the text head starts like BERT's layers, the others with the framework's default",
        ),
    }
    Hyperparameters = MCSEHyperparameters

    def __init__(self, hyperparameters: MCSEHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        width = hyperparameters.projection_dim
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)
        self.grounding_head = TanhHead(dimensions.encoder, width)
        self.image_head = TanhHead(dimensions.features["image"], width)
        if "caption" in dimensions.features:
            self.caption_head = TanhHead(dimensions.features["caption"], width)

    @classmethod
    def features(cls, hyperparameters: MCSEHyperparameters) -> dict[str, Feature]:
        """Image features, and caption features if a text teacher is set."""
        features = {"image": Feature(hyperparameters.images)}
        if hyperparameters.text_teacher != "none":
            features["caption"] = Feature(hyperparameters.text_teacher, "caption")
        return features

    def shared_space(self) -> tuple[nn.Module, nn.Module]:
        return self.grounding_head, self.image_head

    def weights(self) -> dict[str, float]:
        """Eq. 4."""
        return {"info": self.hyperparameters.lambda_}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text on every batch; info on paired ones. Both heads read [CLS] itself, not one another."""
        vectors = encode(batch.tokens, 2)
        first, second = by_view(self.text_head, vectors)
        terms = {"text": info_nce(first, second, self.hyperparameters.temperature)}
        if not isinstance(batch, PairBatch):
            return terms

        images = self.image_head(batch.features["image"])
        terms["info"] = self.info(vectors, images)
        if "caption" in batch.features:
            captions = self.caption_head(batch.features["caption"])
            terms["info"] = terms["info"] + self.info(vectors, captions)
        return terms

    def info(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Eq. 3: InfoNCE from each view of (B, 2, d) to targets (B, 256); from sentences to targets
        only.
        """
        temperature = self.hyperparameters.temperature_multimodal
        first, second = by_view(self.grounding_head, vectors)
        total = info_nce(first, targets, temperature) + info_nce(second, targets, temperature)

        if self.hyperparameters.view_reduction == "mean":
            return total / 2
        return total
