"""MCSEO (Zhao, Miao and Tsuruoka 2025), after its abstract: MCSE, whose phrases find the objects that they name.

Beside MCSE's terms, a phrase of a caption, the mean of its tokens, must find the object that it names among the objects
of the batch. The equations of the paper were not at hand: what the abstract leaves open is stated in `decisions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from harness.encoders.heads import TanhHead
from harness.losses.contrastive import cosine_matrix, margin_info_nce
from harness.method import Batch, Dimensions, Encode, Feature, PairBatch, hyper
from harness_methods.mcse import MCSE, MCSEHyperparameters


@dataclass(frozen=True)
class MCSEOHyperparameters(MCSEHyperparameters):
    """Hyperparameters of MCSEO."""

    mu: float = hyper(0.01, at_least=0, source="as MCSE's lambda; the abstract has none", unit="weight of objects")
    temperature_objects: float = hyper(0.05, above=0, source="as MCSE's; the abstract has none", unit="of objects")
    objects: str = hyper(
        "default",
        source="objects cut out of the images; the abstract names segmentation and detection",
        unit="image teacher, or a control: shuffled within the picture, permuted: those of other pictures",
        teacher=True,
    )


def phrase_nce(phrases: Tensor, objects: Tensor, regions: Tensor, temperature: float) -> Tensor:
    """InfoNCE from P phrases to their objects, (P, d) each: phrases of one region are no negatives of each other."""
    is_same = regions[:, None] == regions
    return margin_info_nce(cosine_matrix(phrases, objects), temperature, margin=0, drop=is_same)


class MCSEO(MCSE):
    """L = L_text + lambda * L_info + mu * L_objects: MCSE, and InfoNCE from phrases to objects on paired batches."""

    name = "mcseo"
    title = "MCSEO"
    paper = (
        "Zhao, Miao and Tsuruoka, Improving Multimodal Contrastive Learning of Sentence Embeddings with Object-Phrase "
        "Alignment, arXiv 2508.00332, 2025"
    )
    terms = ("text", "info", "objects")
    readings = {"paper": "after its abstract: MCSE and a contrastive loss of phrases with objects"}
    reading_values = {}
    decisions = MCSE.decisions | {
        "phrases": ("mended", "the mean of the last layer over the phrase's tokens, in one more pass with dropout"),
        "heads of phrases": ("mended", "phrases share that of sentences into the shared space; objects have their own"),
        "direction": ("mended", "from phrases to objects, as MCSE from sentences to images"),
        "negatives": ("mended", "the other objects of the batch, of its own picture too"),
    }
    text_only = {"lambda": 0, "mu": 0}
    Hyperparameters = MCSEOHyperparameters

    def __init__(self, hyperparameters: MCSEOHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.object_head = TanhHead(dimensions.features["object"], hyperparameters.projection_dim)

    @classmethod
    def features(cls, hyperparameters: MCSEOHyperparameters) -> dict[str, Feature]:
        """MCSE's, and those of the objects."""
        return super().features(hyperparameters) | {"object": Feature(hyperparameters.objects, "region")}

    def weights(self) -> dict[str, float]:
        """MCSE's, and that of objects."""
        return super().weights() | {"objects": self.hyperparameters.mu}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """MCSE's terms; objects on paired batches with phrases, of which a single one has nothing to be told from."""
        terms = super().loss_terms(batch, encode)
        if isinstance(batch, PairBatch) and batch.phrases is not None and len(batch.phrases):
            states = encode.states(batch.tokens)
            phrases = self.grounding_head(batch.phrases.vectors(states)[:, 0])
            objects = self.object_head(batch.features["object"])
            temperature = self.hyperparameters.temperature_objects
            terms["objects"] = phrase_nce(phrases, objects, batch.phrases.regions, temperature)
        return terms
