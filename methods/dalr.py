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
    text_steps = rows // pairs
    return text_steps + 1, text_steps


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
class TeacherOutputs:
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
        super().__init__(
            nn.Linear(width_in, hidden),
            nn.BatchNorm1d(hidden, track_running_stats=False),
            nn.ReLU(),
            nn.Linear(hidden, width_out),
            nn.BatchNorm1d(width_out, track_running_stats=False),
            nn.ReLU(),
        )


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
        width = dimensions.encoder
        image_width = dimensions.features["image"]
        teacher_width = dimensions.features["teacher1"]
        shared_width = hyperparameters.projection_dim

        self.text_head = TanhHead(width, width, std=0.02)
        self.grounding_head = TanhHead(width, shared_width)
        self.image_head = TanhHead(image_width, shared_width)
        if hyperparameters.targets == "projected":
            # a fixed random projection: it is applied to targets only, which have no gradient
            self.teacher_head = TanhHead(teacher_width, shared_width).requires_grad_(False)
        if hyperparameters.consistency_heads == "own":
            self.text_aligner = Aligner(width, width, shared_width)
            self.image_aligner = Aligner(image_width, width, shared_width)

    @classmethod
    def features(cls, hyperparameters: DALRHyperparameters) -> dict[str, Feature]:
        """Image features, caption features of one or two text teachers, and their token features if
        needed.
        """
        features = {"image": Feature(hyperparameters.image)}
        teachers = text_teachers(hyperparameters.text)
        # the second pair of roles stays free where there is one teacher
        for (caption_role, token_role), teacher in zip(ROLES, teachers, strict=False):
            features[caption_role] = Feature(teacher, "caption")
            if hyperparameters.token_term:
                features[token_role] = Feature(teacher, "tokens")
        return features

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
        return {
            "info": values.info_weight,
            "cons": values.lambda_ * values.consistency_weight,
            "cma": values.lambda_,
            "rank": values.mu * values.gamma,
            "ima": values.mu,
            "g2l": values.mu,
        }

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """text (Eq. 1) on sentences, all other terms on pairs."""
        vectors = encode(batch.tokens, 2)
        if isinstance(batch, PairBatch):
            outputs = self.teacher_outputs(batch)
            return self.pair_terms(vectors, batch.features["image"], outputs)

        first, second = by_view(self.text_head, vectors)
        return {"text": self.text(self.scores(first, second))}

    def text(self, scores: Tensor) -> Tensor:
        """Eq. 1 over the cosines (B, B) of two views."""
        return cross_entropy_diagonal(scores / self.hyperparameters.temperature)

    def scores(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Cosines (B, B) of the text head's vectors, with the angular margin on negatives if set."""
        cosines = cosine_matrix(rows, columns)
        return angular_margin(cosines, self.hyperparameters.angular_margin_text, near="keep")

    def teacher_outputs(self, batch: PairBatch) -> TeacherOutputs:
        """The teachers' features of a batch; tokens are cut to its length, without the first
        position.
        """
        features = batch.features
        vectors = []
        tokens = []
        mask = batch.tokens["attention_mask"][:, 1:]
        length = mask.shape[1]
        for caption_role, token_role in ROLES:
            if caption_role not in features:
                continue
            # stored features are those of a teacher without dropout: both passes are equal
            vectors.append((features[caption_role], features[caption_role]))
            if self.hyperparameters.token_term:
                tokens.append(features[token_role][:, 1 : length + 1])

        if not self.hyperparameters.token_term:
            return TeacherOutputs(vectors)
        return TeacherOutputs(vectors, (self.mix_teachers(tokens),), mask)

    def mix_teachers(self, parts: Sequence[Tensor]) -> Tensor:
        """The tensor of a single teacher, or the weighted sum of those of two (section 3.3)."""
        if len(parts) == 1:
            return parts[0]
        weight: float = self.hyperparameters.teacher_weight
        return weight * parts[0] + (1 - weight) * parts[1]

    def pair_terms(
        self, vectors: Tensor, image: Tensor, outputs: TeacherOutputs
    ) -> dict[str, Tensor]:
        """The terms of a paired batch, from [CLS] (B, 2, d), image features (B, f) and the text
        teachers' outputs.
        """
        values = self.hyperparameters
        first, second = by_view(self.text_head, vectors)
        scores = self.scores(first, second)
        sentences = by_view(self.grounding_head, vectors)
        images = self.image_head(image)
        to_images = [cosine_matrix(view, images) for view in sentences]

        teacher = self.mix_teachers([views[0] for views in outputs.vectors])
        among_texts, among_images = self.similarities(image, images, teacher)

        terms = {}
        if values.text_on_pairs:
            terms["text"] = self.text(scores)
        terms["info"] = self.info(to_images, image)
        terms["cons"] = self.cons(first, sentences[0], image, images)
        terms["cma"] = self.cma(to_images[0], first, image, among_texts, among_images)
        terms["rank"] = self.rank(scores, outputs)
        terms["ima"] = self.ima(scores, among_texts)
        if values.token_term:
            terms["g2l"] = self.g2l(first, outputs)
        return terms

    @torch.no_grad()
    def similarities(self, image: Tensor, images: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 7 before the softmax: cosines among texts and among images, (B, B) each, without
        gradient.
        """
        if self.hyperparameters.targets == "projected":
            teacher = self.teacher_head(teacher)
            image = images
        return cosine_matrix(teacher, teacher), cosine_matrix(image, image)

    def info(self, to_images: Sequence[Tensor], image: Tensor) -> Tensor:
        """Eq. 4 over the cosines (B, B) of each view; with a margin, the visual loss of KDMCSE."""
        values = self.hyperparameters
        margin = values.angular_margin_image
        soft = None
        if margin:
            soft = cosine_matrix(image, image).detach()

        views = to_images[:1] if values.info_views == "first" else to_images
        losses = []
        for view in views:
            loss = margin_info_nce(view, values.temperature_multimodal, margin, soft, near="keep")
            losses.append(loss)
        return torch.stack(losses).mean()

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
        mismatched = rolled(images, values.shift)
        return pair_consistency(sentences, images, mismatched, values.margin)

    def cma(
        self,
        to_images: Tensor,
        text: Tensor,
        image: Tensor,
        among_texts: Tensor,
        among_images: Tensor,
    ) -> Tensor:
        """Eq. 8 on projected text and image, or on raw vectors with margin and temperature."""
        values = self.hyperparameters
        scores = to_images
        if values.space == "raw":
            scores = self.scores(text, image.detach()) / values.temperature
        return cross_alignment(
            scores,
            among_texts,
            among_images,
            values.student_temperature,
            values.teacher_temperature,
        )

    def rank(self, scores: Tensor, outputs: TeacherOutputs) -> Tensor:
        """Eq. 10: ranks the student's cosines (B, B) like those of the teachers."""
        values = self.hyperparameters
        if values.teacher_mix == "vectors":
            first = self.mix_teachers([views[0] for views in outputs.vectors])
            second = self.mix_teachers([views[1] for views in outputs.vectors])
            teacher_scores = cosine_matrix(first, second)
        else:
            scores_of_each = [cosine_matrix(*views) for views in outputs.vectors]
            teacher_scores = self.mix_teachers(scores_of_each)

        student = scores / values.temperature
        teacher = teacher_scores / values.temperature_ranking
        if values.ranking == "listnet":
            return list_net(student, teacher)
        return list_mle(student, teacher, values.rank_floor)

    def ima(self, scores: Tensor, among_texts: Tensor) -> Tensor:
        """Eq. 12: the distributions of the student's cosines (B, B) follow the teachers'."""
        values = self.hyperparameters
        if values.space == "raw":
            scores = scores / values.temperature
        return soft_alignment(
            scores, among_texts, values.student_temperature, values.teacher_temperature
        )

    def g2l(self, text: Tensor, outputs: TeacherOutputs) -> Tensor:
        """The token term of the public code: unnormalised sentence vectors against the teachers'
        tokens.
        """
        temperature = self.hyperparameters.temperature
        losses = []
        for tokens in outputs.tokens:
            loss = in_batch_g2l(over_tokens(tokens), text, temperature, outputs.mask)
            losses.append(loss)
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
        is_compared = role.startswith("tokens")
        if role == "image" and values.space == "raw":
            is_compared = True
        if is_compared and width != dimensions.encoder:
            raise ValueError(
                f"it compares {role} features, {width} wide, with the encoder's vectors, {dimensions.encoder} wide; "
                "use a teacher of the encoder's width"
            )
