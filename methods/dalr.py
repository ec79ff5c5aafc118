"""DALR (He et al., 2025).

MCSE's sentence-to-image objective with alignment at two levels. Across modalities (section 3.2),
matched pairs are separated from mismatched ones, and the distribution of a text over the images
follows its similarities to the other texts. Within text (section 3.3), the student's similarities
follow the order and distribution of those of frozen text encoders.

Two choices of @paper, both as in the public code. The targets of cma and ima are similarities of
the teachers' own vectors, not of projected ones (Eq. 3 and 7): no loss trains the text teacher's
head, which would be a random projection, and the image head learns to match the student, so that
its similarities would be targets that follow what they judge. Images and texts are therefore read
alike. rank and ima compare vectors after the text head of Eq. 1, 768 wide: their symbols are those
of Eq. 1 (two dropout views), the text teachers know no images, and the head in the shared space
(Eq. 2, appendix B: 256 wide) is that of the terms with images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

import torch
from torch import Tensor, nn

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import (
    angular_margin,
    cosine_matrix,
    cross_entropy_diagonal,
    margin_info_nce,
)
from harness.losses.matching import (
    cross_alignment,
    in_batch_g2l,
    list_mle,
    list_net,
    over_tokens,
    pair_consistency,
    rolled,
    soft_alignment,
)
from harness.method import (
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
    split_teachers,
)

#: roles of the caption and token features of the first and second text teacher
ROLES = (("teacher1", "tokens1"), ("teacher2", "tokens2"))


def after_text(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
    """Section 4.1: one step is paired after every N_t // N_m text steps, counted in rows."""
    return rows // pairs + 1, rows // pairs


#: 'floor' is the rule of the public code, which is that of MCSE
MIXING = {"after": after_text, "floor": by_batches}


def text_teachers(text: str) -> tuple[str, ...]:
    """Split 'FIRST+SECOND' into the names of one or two teachers. Raises ValueError."""
    names = split_teachers(text)
    if len(names) > 2:
        raise ValueError(
            f"'text={text}' names {len(names)} text teachers; write one or two, as in simcse+diffcse"
        )
    return names


@dataclass(frozen=True)
class DALRHyperparameters(Hyperparameters):
    """Hyperparameters of DALR; the defaults are those of @paper."""

    temperature: float = hyper(0.05, above=0, origin="text", source="appendix B")
    temperature_multimodal: float = hyper(
        0.05, above=0, origin="text", source="appendix B: one temperature"
    )
    lambda_: float = hyper(
        0.1, at_least=0, origin="text", source="appendix B, Eq. 14", unit="weight of cons and cma"
    )
    mu: float = hyper(
        0.2, at_least=0, origin="text", source="appendix B, Eq. 14", unit="weight of rank and ima"
    )
    info_weight: float = hyper(1.0, at_least=0, origin="text", source="Eq. 14; the public code 0.1")
    projection_dim: int = hyper(
        256, at_least=1, origin="text", source="appendix B", unit="dimensions of the shared space"
    )
    info_views: str = hyper(
        "first",
        origin="text",
        source="Eq. 4; the public code averages both",
        choices=("first", "mean"),
    )
    text_on_pairs: bool = hyper(
        False, origin="text", source="Eq. 14", unit="whether paired batches have the text term"
    )
    angular_margin_text: float = hyper(
        0.0,
        at_least=0,
        origin="text",
        source="Eq. 1, 6, 10 and 11 have none; public scripts 0.18",
        unit="radians, on the text head's scores",
    )
    angular_margin_image: float = hyper(
        0.0,
        at_least=0,
        origin="text",
        source="Eq. 4 has none; public scripts 0.18",
        unit="radians, KDMCSE's margin in info",
    )
    margin: float = hyper(
        0.2,
        at_least=0,
        origin="text",
        source="section 3.2, Eq. 5",
        unit="cosine of mismatched pairs without penalty",
    )
    shift: int = hyper(
        5,
        origin="code",
        source="section 3.2 shuffles without saying how; the public code rolls by 5",
        unit="rows by which images are rolled",
    )
    consistency_weight: float = hyper(
        1.0,
        at_least=0,
        origin="text",
        source="Eq. 9; the public code 0.01",
        unit="factor of cons within lambda",
    )
    consistency_heads: str = hyper(
        "shared", origin="text", source="Eq. 2, 3 and 5", choices=("shared", "own")
    )
    space: str = hyper(
        "projected",
        origin="text",
        source="Eq. 6 and 11; raw in the public code",
        choices=("projected", "raw"),
    )
    targets: str = hyper(
        "raw",
        origin="code",
        source="Eq. 3 and 7 project, texts by a head that no loss trains; the public code projects neither",
        unit="vectors whose cosines are the targets of cma and ima",
        choices=("raw", "projected"),
    )
    teacher_weight: float = hyper(
        0.33,
        at_least=0,
        origin="code",
        source="public scripts; section 3.3 gives no weights",
        unit="of the first text teacher",
    )
    teacher_mix: str = hyper(
        "vectors",
        origin="text",
        source="section 3.3",
        unit="weighted for rank",
        choices=("vectors", "scores"),
    )
    teacher_temperature: float = hyper(
        1.0, above=0, origin="text", source="Eq. 7 and 12 have none; public code 0.5"
    )
    student_temperature: float = hyper(
        1.0, above=0, origin="text", source="Eq. 6 and 11 have none; public code 0.45"
    )
    ranking: str = hyper("listmle", origin="text", source="Eq. 10", choices=("listmle", "listnet"))
    rank_floor: float = hyper(
        0.0,
        origin="text",
        source="Eq. 10; the public code 1e-7",
        unit="added inside the logarithm of ListMLE",
    )
    temperature_ranking: float = hyper(
        0.05,
        above=0,
        origin="code",
        source="public scripts; without effect on ListMLE",
        unit="of the teachers",
    )
    gamma: float = hyper(
        1.0, at_least=0, origin="text", source="Eq. 13 has none", unit="factor of rank within mu"
    )
    token_term: bool = hyper(
        False,
        origin="text",
        source="in no equation; the public code has it",
        unit="whether to add g2l",
    )
    image: str = hyper(
        "default",
        origin="text",
        source="section 4.1",
        unit="image teacher, or a control: shuffled, random, noise, permuted, untrained",
        teacher=True,
    )
    text: str = hyper(
        "simcse+diffcse",
        origin="text",
        source="section 4.1",
        unit="one or two text teachers, joined by '+'",
        teacher=True,
    )
    mixing: str = hyper("after", origin="text", source="section 4.1", choices=tuple(MIXING))
    captions: CaptionRows = hyper(
        "setting",
        origin="text",
        source="section 4.1: the data of MCSE, which draws one caption an image; appendix G: 30k captions",
        choices=get_args(CaptionRows),
    )


@dataclass(frozen=True)
class Taught:
    """Outputs of the frozen text teachers for B captions, in two passes like the student's.

    `vectors` has the [CLS] of both passes for each teacher, (B, f) each. `tokens` has the weighted
    token vectors of each pass without the first position, (B, L - 1, d), and `mask` marks the real
    ones, (B, L - 1). Without dropout both passes are equal, and one is enough.
    """

    vectors: Sequence[tuple[Tensor, Tensor]]
    tokens: Sequence[Tensor] = field(default_factory=tuple)
    mask: Tensor | None = None


class Aligner(nn.Sequential):
    """The consistency heads of the public code: two layers with batch normalisation and ReLU, (B,
    d_in) -> (B, d_out).

    Statistics are always those of the batch, of at least two rows, since the head is not used after
    training.
    """

    def __init__(self, width_in: int, hidden: int, width_out: int) -> None:
        sizes = ((width_in, hidden), (hidden, width_out))
        layers = [
            (nn.Linear(*size), nn.BatchNorm1d(size[1], track_running_stats=False), nn.ReLU())
            for size in sizes
        ]
        super().__init__(*(module for layer in layers for module in layer))


class DALR(Method):
    """L_info + lambda L_CML + mu L_IML on caption-image pairs (Eq. 14), L_text on sentences (Eq.
    1).
    """

    name = "dalr"
    title = "DALR"
    paper = "He et al., DALR: Dual-level Alignment Learning for Multimodal Sentence Representation Learning, 2025"
    streams = ("sentences", "pairs")
    terms = ("text", "info", "cons", "cma", "rank", "ima", "g2l")
    optional_terms = ("g2l",)
    readings = {
        "paper": "Eq. 1 to 14, with typos in the indices of Eq. 6 to 8 and 11 corrected and means over the batch",
        "official": "the public code, errors fixed: margins on text and images, raw CLIP vectors, an extra token term",
    }
    reading_values = {
        "official": {
            "info_weight": 0.1,
            "info_views": "mean",
            "text_on_pairs": True,
            "angular_margin_text": 0.18,
            "angular_margin_image": 0.18,
            "consistency_weight": 0.01,
            "consistency_heads": "own",
            "space": "raw",
            "teacher_mix": "scores",
            "teacher_temperature": 0.5,
            "student_temperature": 0.45,
            "rank_floor": 1e-7,
            "token_term": True,
            "mixing": "floor",
            "captions": "all",
        }
    }
    text_only = {"info_weight": 0, "lambda": 0}
    decisions = {
        "sums": (
            "mended",
            "means over the batch for the sums of Eq. 1, 4, 8, 10 and 12; Eq. 5 is per pair",
        ),
        "indices": (
            "mended",
            "Eq. 6 is read as a text's distribution over the images, Eq. 11 pairs s_i with s_j'",
        ),
        "gradients": ("code", "the targets of Eq. 7 have none"),
        "mismatched pairs": ("code", "as many as matched ones, with one mean over both"),
        "rank and ima": (
            "code",
            "on vectors after the text head (Eq. 1), not in the shared space of Eq. 2",
        ),
        "ranking list": ("code", "all sentences of the batch, the sentence itself included"),
        "heads": (
            "code",
            "the text head starts like BERT's layers, the others with the framework's default",
        ),
    }
    Hyperparameters = DALRHyperparameters

    def __init__(self, hyperparameters: DALRHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        _check_widths(hyperparameters, dimensions)
        encoder = dimensions.encoder
        width = hyperparameters.projection_dim
        image = dimensions.features["image"]
        teacher = dimensions.features["teacher1"]
        self.text_head = TanhHead(encoder, encoder, std=0.02)
        self.grounding_head = TanhHead(encoder, width)
        self.image_head = TanhHead(image, width)
        if hyperparameters.targets == "projected":
            # a fixed random projection: it is applied to targets only, which have no gradient
            self.teacher_head = TanhHead(teacher, width).requires_grad_(False)
        if hyperparameters.consistency_heads == "own":
            self.text_aligner = Aligner(encoder, encoder, width)
            self.image_aligner = Aligner(image, encoder, width)

    @classmethod
    def features(cls, hyperparameters: DALRHyperparameters) -> dict[str, Feature]:
        """Image features, caption features of one or two text teachers, and their token features if
        needed.
        """
        wanted = {"image": Feature(hyperparameters.image)}
        for (caption, tokens), teacher in zip(
            ROLES, text_teachers(hyperparameters.text), strict=False
        ):
            wanted[caption] = Feature(teacher, "caption")
            if hyperparameters.token_term:
                wanted[tokens] = Feature(teacher, "tokens")
        return wanted

    @classmethod
    def mixing(cls, hyperparameters: DALRHyperparameters) -> MixingRule:
        return MIXING[hyperparameters.mixing]

    @classmethod
    def captions(cls, hyperparameters: DALRHyperparameters) -> CaptionRows:
        return hyperparameters.captions

    def shared_space(self) -> tuple[nn.Module, nn.Module]:
        return self.grounding_head, self.image_head

    def weights(self) -> dict[str, float]:
        """Eq. 9, 13 and 14."""
        values = self.hyperparameters
        cross = values.lambda_
        intra = values.mu
        return {
            "info": values.info_weight,
            "cons": cross * values.consistency_weight,
            "cma": cross,
            "rank": intra * values.gamma,
            "ima": intra,
            "g2l": intra,
        }

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text (Eq. 1) on sentences, all other terms on pairs."""
        vectors = encode(batch.tokens, 2)
        if isinstance(batch, PairBatch):
            return self.paired(vectors, batch.features["image"], self.taught(batch))
        scores = self.scores(*by_view(self.text_head, vectors))
        return {"text": cross_entropy_diagonal(scores / self.hyperparameters.temperature)}

    def scores(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Cosines (B, B) of the text head's vectors, with the angular margin on negatives if set."""
        return angular_margin(
            cosine_matrix(rows, columns), self.hyperparameters.angular_margin_text, near="keep"
        )

    def taught(self, batch: PairBatch) -> Taught:
        """The teachers' features of a batch; tokens are cut to its length, without the first
        position.
        """
        features = batch.features
        roles = [(caption, tokens) for caption, tokens in ROLES if caption in features]
        vectors = [(features[caption], features[caption]) for caption, _ in roles]
        if not self.hyperparameters.token_term:
            return Taught(vectors)
        mask = batch.tokens["attention_mask"][:, 1:]
        length = mask.shape[1] + 1
        tokens = [features[role][:, 1:length] for _, role in roles]
        return Taught(vectors, (self.mixed(tokens),), mask)

    def mixed(self, parts: Sequence[Tensor]) -> Tensor:
        """The tensor of a single teacher, or the weighted sum of those of two (section 3.3)."""
        first = self.hyperparameters.teacher_weight
        return parts[0] if len(parts) == 1 else first * parts[0] + (1 - first) * parts[1]

    def paired(self, vectors: Tensor, image: Tensor, taught: Taught) -> dict[str, Tensor]:
        """The terms of a paired batch, from [CLS] (B, 2, d), image features (B, f) and the text
        teachers' outputs.
        """
        values = self.hyperparameters
        first, second = by_view(self.text_head, vectors)
        scores = self.scores(first, second)
        sentences = by_view(self.grounding_head, vectors)
        images = self.image_head(image)
        grounded = [
            cosine_matrix(view, images)
            for view in sentences[: 1 if values.info_views == "first" else 2]
        ]
        texts, pictures = self.similarities(
            image, images, self.mixed([views[0] for views in taught.vectors])
        )
        terms = (
            {"text": cross_entropy_diagonal(scores / values.temperature)}
            if values.text_on_pairs
            else {}
        )
        terms["info"] = self.info(grounded, image)
        terms["cons"] = self.cons(first, sentences[0], image, images)
        terms["cma"] = self.cma(grounded[0], first, image, texts, pictures)
        terms["rank"] = self.rank(scores, taught)
        sharpened = scores / values.temperature if values.space == "raw" else scores
        terms["ima"] = soft_alignment(
            sharpened, texts, values.student_temperature, values.teacher_temperature
        )
        if values.token_term:
            terms["g2l"] = self.g2l(first, taught)
        return terms

    @torch.no_grad()
    def similarities(self, image: Tensor, images: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 7 before the softmax: cosines among texts and among images, (B, B) each, without
        gradient.
        """
        if self.hyperparameters.targets == "raw":
            return cosine_matrix(teacher, teacher), cosine_matrix(image, image)
        projected = self.teacher_head(teacher)
        return cosine_matrix(projected, projected), cosine_matrix(images, images)

    def info(self, grounded: Sequence[Tensor], image: Tensor) -> Tensor:
        """Eq. 4 over the cosines (B, B) of each view; with a margin, the visual loss of KDMCSE."""
        values = self.hyperparameters
        alike = cosine_matrix(image, image).detach() if values.angular_margin_image else None
        settings = values.temperature_multimodal, values.angular_margin_image, alike
        return torch.stack(
            [margin_info_nce(view, *settings, near="keep") for view in grounded]
        ).mean()

    def cons(self, text: Tensor, sentences: Tensor, image: Tensor, images: Tensor) -> Tensor:
        """Eq. 5, on the projections of Eq. 2 and 3 or on separate heads, whose batch statistics
        need two rows.
        """
        values = self.hyperparameters
        if values.consistency_heads == "own":
            if len(text) == 1:
                return text.sum() * 0
            sentences = self.text_aligner(text)
            images = self.image_aligner(image)
        return pair_consistency(sentences, images, rolled(images, values.shift), values.margin)

    def cma(
        self, grounded: Tensor, text: Tensor, image: Tensor, texts: Tensor, pictures: Tensor
    ) -> Tensor:
        """Eq. 8 on projected text and image, or on raw vectors with margin and temperature."""
        values = self.hyperparameters
        temperatures = values.student_temperature, values.teacher_temperature
        if values.space == "raw":
            scores = self.scores(text, image.detach()) / values.temperature
            return cross_alignment(scores, texts, pictures, *temperatures)
        return cross_alignment(grounded, texts, pictures, *temperatures)

    def rank(self, scores: Tensor, taught: Taught) -> Tensor:
        """Eq. 10: ranks the student's cosines (B, B) like those of the teachers."""
        values = self.hyperparameters
        if values.teacher_mix == "vectors":
            teacher = cosine_matrix(
                *(self.mixed(views) for views in zip(*taught.vectors, strict=True))
            )
        else:
            teacher = self.mixed([cosine_matrix(*views) for views in taught.vectors])
        student = scores / values.temperature
        teacher = teacher / values.temperature_ranking
        if values.ranking == "listnet":
            return list_net(student, teacher)
        return list_mle(student, teacher, values.rank_floor)

    def g2l(self, text: Tensor, taught: Taught) -> Tensor:
        """The token term of the public code: unnormalised sentence vectors against the teachers'
        tokens.
        """
        temperature = self.hyperparameters.temperature
        losses = [
            in_batch_g2l(over_tokens(tokens), text, temperature, taught.mask)
            for tokens in taught.tokens
        ]
        return torch.stack(losses).mean()


def _check_widths(values: DALRHyperparameters, dimensions: Dimensions) -> None:
    """Raise ValueError if the teachers' widths do not match each other or the encoder."""
    widths = dimensions.features
    if widths.get("teacher2", widths["teacher1"]) != widths["teacher1"]:
        raise ValueError(
            f"its text teachers are {widths['teacher1']} and {widths['teacher2']} wide and cannot be weighted "
            "together; use two of the same width, or one"
        )
    for role, width in widths.items():
        compared = (role == "image" and values.space == "raw") or role.startswith("tokens")
        if compared and width != dimensions.encoder:
            raise ValueError(
                f"it compares {role} features, {width} wide, with the encoder's vectors, {dimensions.encoder} wide; "
                "use a teacher of the encoder's width"
            )
