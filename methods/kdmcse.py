"""KDMCSE (Nguyen et al., NAACL 2024).

Both encoders of CLIP are teachers: each dropout view of a caption is matched with its image and
with its own CLIP text vector in a shared space of 256 dimensions. Negatives that CLIP finds too
similar are filtered out (section 3.2); the others get an angular margin that grows as CLIP's
similarity decreases (AdapACSE, section 3.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import NEAR, cosine_matrix, margin_info_nce, too_alike
from harness.losses.matching import (
    cross_alignment,
    list_mle,
    pair_consistency,
    rolled,
    soft_alignment,
)
from harness.method import (
    CONTROLS,
    Batch,
    CaptionRows,
    Dimensions,
    Encode,
    Feature,
    Hyperparameters,
    Method,
    MixingRule,
    PairBatch,
    by_batches,
    hyper,
)

SIDES = ("captions", "images")
#: rows by which images are rolled for mismatched pairs (DALR's public code)
SHIFT = 5


def every_ceil(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
    """Algorithm 1: step t = 1, 2, ... is paired if p = ceil(|D| / |D_M|), counted in rows, divides
    t.
    """
    cycle = math.ceil(rows / pairs)
    return cycle, cycle - 1


#: 'floor' is the rule of the public code, which is that of MCSE
MIXING = {"ceil": every_ceil, "floor": by_batches}


@dataclass(frozen=True)
class KDMCSEHyperparameters(Hyperparameters):
    """Hyperparameters of KDMCSE; the defaults are those of @paper."""

    temperature: float = hyper(0.05, above=0, origin="text", source="section 4.2")
    temperature_multimodal: float = hyper(0.05, above=0, origin="text", source="section 4.2")
    lambda_: float = hyper(
        1.0,
        at_least=0,
        origin="text",
        source="Eq. 14 has none; public scripts 0.01",
        unit="weight of visual and textual",
    )
    projection_dim: int = hyper(
        256, at_least=1, origin="text", source="section 4.2", unit="dimensions of the shared space"
    )
    margin: float = hyper(
        0.125, at_least=0, origin="text", source="section 6.1, Figure 7", unit="radians"
    )
    margin_text: float = hyper(
        0.0,
        at_least=0,
        origin="text",
        source="Eq. 1 has none; public scripts 0.15",
        unit="radians, on every negative",
    )
    near: str = hyper(
        "clamp",
        origin="mended",
        source="Eq. 12 and 13 let the angle of a negative fall below 0, where its cosine would decrease again",
        unit="negatives nearer than the margin",
        choices=NEAR,
    )
    margin_labels: str = hyper(
        "captions",
        origin="text",
        source="section 3.2",
        unit="similarity of images to these, for visual",
        choices=SIDES,
    )
    filter: bool = hyper(
        True, origin="text", source="section 3.2, Eq. 8; off in the public scripts"
    )
    threshold: float = hyper(
        0.85, origin="text", source="section 6.2: about 0.85 to 0.9", unit="CLIP similarity"
    )
    filter_labels: str = hyper(
        "captions",
        origin="text",
        source="section 3.2",
        unit="similarity of texts to these, for textual",
        choices=SIDES,
    )
    filter_scores: str = hyper(
        "cosine", origin="text", source="section 3.2, Eq. 7", choices=("cosine", "inner")
    )
    view_reduction: str = hyper(
        "mean",
        origin="code",
        source="Eq. 9 sums, Eq. 13 does not say; the public code averages",
        choices=("mean", "sum"),
    )
    branch_reduction: str = hyper(
        "mean", origin="text", source="Eq. 14; the public code adds", choices=("mean", "sum")
    )
    text_on_pairs: bool = hyper(
        False,
        origin="text",
        source="Algorithm 1, Eq. 14",
        unit="whether paired batches have the text term",
    )
    images: str = hyper(
        "default",
        origin="text",
        source="section 4.2",
        unit="image teacher, or a control: shuffled, random, noise, permuted, untrained",
        teacher=True,
    )
    text: str = hyper(
        "default",
        origin="text",
        source="section 4.2",
        unit="text teacher; 'default' is the image teacher's text side",
        teacher=True,
    )
    mixing: str = hyper(
        "ceil",
        origin="mended",
        source="Algorithm 1, whose test 'not t divides p' is taken as 'p does not divide t'",
        choices=tuple(MIXING),
    )
    captions: CaptionRows = hyper(
        "setting",
        origin="text",
        source="section 4.2: the setup of MCSE, which draws one caption an image",
        choices=get_args(CaptionRows),
    )
    with_: str = hyper(
        "",
        origin="text",
        source="DALR Tables 4 and 5",
        unit="parts of DALR",
        choices=("", "cml", "iml", "cml+iml"),
    )
    lambda_cml: float = hyper(
        0.1, at_least=0, origin="text", source="DALR appendix B", unit="weight of cons and cma"
    )
    mu: float = hyper(
        0.2, at_least=0, origin="text", source="DALR appendix B", unit="weight of rank and ima"
    )
    consistency_margin: float = hyper(
        0.2,
        at_least=0,
        origin="text",
        source="DALR Eq. 5",
        unit="cosine of mismatched pairs without penalty",
    )


class KDMCSE(Method):
    """L_text on sentences (Eq. 1), the mean of L_visual and L_textual on caption-image pairs (Eq.
    14, Algorithm 1).
    """

    name = "kdmcse"
    title = "KDMCSE"
    paper = (
        "Nguyen et al., KDMCSE: Knowledge Distillation Multimodal Sentence Embeddings with Adaptive Angular margin "
        "Contrastive Learning, NAACL 2024"
    )
    streams = ("sentences", "pairs")
    terms = ("text", "visual", "textual", "cons", "cma", "rank", "ima")
    optional_terms = ("cons", "cma", "rank", "ima")
    parts = ("margin", "filter")
    readings = {
        "paper": "Eq. 7 to 14 and Algorithm 1, with the cases of Eq. 8 swapped, angles clamped at 0 and views averaged",
        "official": "the public code: a fixed margin on all text, both branches summed with weight 0.01, no filter",
    }
    reading_values = {
        "official": {
            "lambda": 0.01,
            "margin": 0.15,
            "margin_text": 0.15,
            "near": "keep",
            "margin_labels": "images",
            "filter": False,
            "threshold": 0.8,
            "filter_labels": "images",
            "filter_scores": "inner",
            "branch_reduction": "sum",
            "text_on_pairs": True,
            "mixing": "floor",
            "captions": "all",
        }
    }
    decisions = {
        "filter": (
            "mended",
            "drops what Eq. 8, as printed, would keep (section 3.2), and never the positive (Eq. 13)",
        ),
        "soft labels": (
            "mended",
            "cosines of CLIP's own features (Eq. 7); Algorithm 1 mixes them with projected ones",
        ),
        "epochs": ("code", "Algorithm 1 counts steps through training, here anew in each epoch"),
        "heads": (
            "code",
            "the text head starts like BERT's layers, the others with the framework's default",
        ),
    }
    Hyperparameters = KDMCSEHyperparameters

    def __init__(self, hyperparameters: KDMCSEHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        image_width = dimensions.features["image"]
        caption_width = dimensions.features["caption"]
        compares_both = self.filters or hyperparameters.margin_labels == "captions"
        if compares_both and image_width != caption_width:
            raise ValueError(
                f"captions are compared with images, but the text teacher's features are {caption_width} wide and the "
                f"image teacher's {image_width}; use one teacher for both, such as a CLIP model"
            )

        width = hyperparameters.projection_dim
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)
        self.grounding_head = TanhHead(dimensions.encoder, width)
        self.image_head = TanhHead(image_width, width)
        self.caption_head = TanhHead(caption_width, width)

    @classmethod
    def features(cls, hyperparameters: KDMCSEHyperparameters) -> dict[str, Feature]:
        """Image and caption features, from both encoders of one teacher unless a text teacher is
        set.
        """
        image_teacher = hyperparameters.images
        text_teacher = hyperparameters.text
        if text_teacher == "default" and image_teacher not in CONTROLS:
            text_teacher = image_teacher
        return {"image": Feature(image_teacher), "caption": Feature(text_teacher, "caption")}

    @classmethod
    def mixing(cls, hyperparameters: KDMCSEHyperparameters) -> MixingRule:
        return MIXING[hyperparameters.mixing]

    @classmethod
    def captions(cls, hyperparameters: KDMCSEHyperparameters) -> CaptionRows:
        return hyperparameters.captions

    @property
    def filters(self) -> bool:
        """Whether negatives that the teacher finds too similar are left out."""
        return self.hyperparameters.filter and "filter" not in self.left_out

    @property
    def margins(self) -> tuple[float, float]:
        """The margins of the text loss and of the multimodal losses, in radians."""
        if "margin" in self.left_out:
            return 0.0, 0.0
        return self.hyperparameters.margin_text, self.hyperparameters.margin

    def shared_space(self) -> tuple[nn.Module, nn.Module]:
        return self.grounding_head, self.image_head

    def weights(self) -> dict[str, float]:
        """Eq. 14, and DALR Eq. 14 for the parts of DALR: consistency and alignment across modalities
        (cons, cma), ranking and alignment within text (rank, ima). text weighs 1.
        """
        values = self.hyperparameters
        branch_weight = values.lambda_
        if values.branch_reduction == "mean":
            branch_weight = branch_weight / 2
        return {
            "visual": branch_weight,
            "textual": branch_weight,
            "cons": values.lambda_cml,
            "cma": values.lambda_cml,
            "rank": values.mu,
            "ima": values.mu,
        }

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """Algorithm 1: text on sentences, visual and textual on pairs."""
        values = self.hyperparameters
        vectors = encode(batch.tokens, 2)
        first, second = by_view(self.text_head, vectors)
        scores = cosine_matrix(first, second)

        terms = {}
        if values.text_on_pairs or not isinstance(batch, PairBatch):
            text_margin, _ = self.margins
            terms["text"] = margin_info_nce(
                scores, values.temperature, text_margin, near=values.near
            )
        if isinstance(batch, PairBatch):
            views = by_view(self.grounding_head, vectors)
            image = batch.features["image"]
            caption = batch.features["caption"]
            terms |= self.pair_terms(views, scores, image, caption)
        return terms

    def pair_terms(
        self, views: tuple[Tensor, ...], scores: Tensor, image: Tensor, caption: Tensor
    ) -> dict[str, Tensor]:
        """The terms of a paired batch, from grounded views (B, 256), the views' cosines (B, B) and
        features (B, f).
        """
        values = self.hyperparameters
        images = self.image_head(image)
        captions = self.caption_head(caption)
        to_images = [cosine_matrix(view, images) for view in views]
        to_captions = [cosine_matrix(view, captions) for view in views]

        # the teacher's similarities are labels, and have no gradient
        with torch.no_grad():
            labels = caption if values.margin_labels == "captions" else image
            soft_visual = cosine_matrix(labels, image)
            soft_textual = cosine_matrix(caption, caption)
            drop_visual, drop_textual = self.find_false_negatives(image, caption)

        terms = {
            "visual": self.branch(to_images, soft_visual, drop_visual),
            "textual": self.branch(to_captions, soft_textual, drop_textual),
        }
        parts_of_dalr = values.with_.split("+")
        if "cml" in parts_of_dalr:
            terms |= self.cross_modal(views[0], to_images[0], images, captions)
        if "iml" in parts_of_dalr:
            terms |= self.intra_modal(scores, soft_textual, captions)
        return terms

    def branch(self, cosines: list[Tensor], soft: Tensor, drop: Tensor | None) -> Tensor:
        """Eq. 13 over the cosines (B, B) of each view with a teacher; Delta = (1 - soft) * margin
        (Eq. 12).
        """
        values = self.hyperparameters
        temperature = values.temperature_multimodal
        _, margin = self.margins
        losses = []
        for view in cosines:
            loss = margin_info_nce(view, temperature, margin, soft, near=values.near, drop=drop)
            losses.append(loss)

        total = losses[0] + losses[1]
        if values.view_reduction == "mean":
            return total / 2
        return total

    def find_false_negatives(
        self, image: Tensor, caption: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Eq. 8: masks of the negatives dropped from the visual and the textual loss, (B, B) bool
        each.
        """
        if not self.filters:
            return None, None
        values = self.hyperparameters
        normalised = values.filter_scores == "cosine"
        labels = caption if values.filter_labels == "captions" else image
        drop_visual = too_alike(caption, image, values.threshold, normalised=normalised)
        drop_textual = too_alike(labels, caption, values.threshold, normalised=normalised)
        return drop_visual, drop_textual

    def cross_modal(
        self, view: Tensor, scores: Tensor, images: Tensor, captions: Tensor
    ) -> dict[str, Tensor]:
        """DALR's L_CML (Eq. 5 and 8) with CLIP's text encoder as the teacher, in the projections of
        KDMCSE.
        """
        with torch.no_grad():
            among_captions = cosine_matrix(captions, captions)
            among_images = cosine_matrix(images, images)
        mismatched = rolled(images, SHIFT)
        margin = self.hyperparameters.consistency_margin
        return {
            "cons": pair_consistency(view, images, mismatched, margin),
            "cma": cross_alignment(scores, among_captions, among_images),
        }

    def intra_modal(
        self, scores: Tensor, teacher_scores: Tensor, captions: Tensor
    ) -> dict[str, Tensor]:
        """DALR's L_IML (Eq. 10 and 12) with CLIP's text encoder as the teacher."""
        with torch.no_grad():
            targets = cosine_matrix(captions, captions)
        student = scores / self.hyperparameters.temperature
        return {
            "rank": list_mle(student, teacher_scores),
            "ima": soft_alignment(scores, targets),
        }
