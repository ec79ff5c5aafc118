"""Alignment of similarity distributions: a row of the student against a row of the teacher (DALR section 3)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from harness.losses.precision import in_float32


@in_float32
def soft_alignment(
    logits: Tensor, targets: Tensor, temperature: float = 1.0, target_temperature: float = 1.0
) -> Tensor:
    """KL(softmax(targets) || softmax(logits)) by rows, each over its temperature: (N, M), (N, M) -> scalar.

    The mean over rows; 0 where both distributions are equal. DALR Eq. 12, which prints a sum.
    """
    found = functional.log_softmax(logits / temperature, dim=1)
    wanted = functional.log_softmax(targets / target_temperature, dim=1)
    return functional.kl_div(found, wanted, reduction="batchmean", log_target=True)


def cross_alignment(
    scores: Tensor, texts: Tensor, images: Tensor, temperature: float = 1.0, target_temperature: float = 1.0
) -> Tensor:
    """Align both directions of text-image scores (N, N) with texts' and images' own similarities (N, N) -> scalar.

    Each row of `scores` is a text: its distribution over the images follows its similarity to the other texts, and each
    column's distribution over the texts, normalised by itself, the image's similarity to the other images. DALR Eq. 8:
    half the sum of both directions.
    """
    to_images = soft_alignment(scores, texts, temperature, target_temperature)
    to_texts = soft_alignment(scores.T, images, temperature, target_temperature)
    return (to_images + to_texts) / 2
