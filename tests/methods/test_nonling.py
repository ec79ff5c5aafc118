"""VisualCSE, AudioCSE and supervised SimCSE: which batch has which term, and the contrasts of each
reading.
"""

from __future__ import annotations

import pytest
import torch
from golden_tools import drawn

from harness.losses.contrastive import class_rank_cross_entropy, cross_view_supcon, info_nce, supcon
from harness.method import Dimensions, MediaBatch, SentenceBatch, TripletBatch
from harness.registry import get

LABELS = torch.tensor([0, 0, 1, 2, 2, 2])
UNPAIRED = ("visualcse", "visualcse-sup", "audiocse", "audiocse-sup")


def built(name: str, reading: str = "paper", **options: object):
    torch.manual_seed(0)
    method = get("method", name)
    return method(method.configure(reading, options), Dimensions(8)).double()


@pytest.mark.parametrize("name", UNPAIRED)
def test_text_batches_are_those_of_the_text_method(name: str) -> None:
    method = built(name)
    supervised = name.endswith("-sup")
    base = built("simcse-sup" if supervised else "simcse")
    base.text_head.load_state_dict(method.text_head.state_dict())
    batch = TripletBatch({}) if supervised else SentenceBatch({})
    encoded = drawn(6, 1, 8, seed=1) if supervised else drawn(6, 2, 8, seed=1)
    ours, theirs = (each.loss(batch, lambda inputs, views: encoded) for each in (method, base))
    assert set(ours[1]) == {"text"}
    torch.testing.assert_close(ours[0], theirs[0])


@pytest.mark.parametrize("contrast", ["supcon", "simclr"])
@pytest.mark.parametrize("reading", ["paper", "official", "fixed"])
@pytest.mark.parametrize("name", UNPAIRED)
def test_each_reading_has_the_loss_it_says_weighed_by_omega(
    name: str, reading: str, contrast: str
) -> None:
    term, weight = (
        ("visual", "image_weight") if name.startswith("visual") else ("audio", "audio_weight")
    )
    method = built(name, reading, contrast=contrast, **{weight: 0.25})
    seen = drawn(6, 2, 8, seed=2)
    total, terms = method.loss(MediaBatch({}, LABELS), lambda inputs, views: seen)
    stacked = name.endswith("-sup")
    first, second = method.media_head(method.text_head(seen) if stacked else seen).unbind(1)
    expected = {
        ("paper", "supcon"): cross_view_supcon(first, second, LABELS, 0.07),
        ("official", "supcon"): class_rank_cross_entropy(first, second, LABELS, 0.07),
        ("fixed", "supcon"): supcon(first, second, LABELS, 0.07),
        ("fixed", "simclr"): supcon(first, second, torch.arange(6), 0.07),
    }.get((reading, contrast), info_nce(first, second, 0.07))
    torch.testing.assert_close(terms, {term: expected})
    torch.testing.assert_close(total, 0.25 * expected)


@pytest.mark.parametrize("name", UNPAIRED)
def test_the_other_modality_steps_second_in_the_paper_and_first_in_the_code(name: str) -> None:
    """Algorithm 1; appendix B: views of a recording differ by dropout alone, the public code also
    mixes and masks.
    """
    method = get("method", name)
    for reading in method.readings:
        first = reading == "official"
        ((stream, steps),) = method.own_steps(method.configure(reading)).items()
        assert stream in method.streams
        assert (steps.first, steps.batch_size) == (first, 48)
        assert steps.augment == ("mixup+masks" if first and stream == "audio" else "none")


def test_supervised_sentences_are_read_through_the_head_they_were_trained_with() -> None:
    for name in ("simcse-sup", "visualcse-sup", "audiocse-sup"):
        method = built(name)
        assert method.hyperparameters.pooling == "pooler"
        assert method.test_head() is method.text_head
    assert built("visualcse").hyperparameters.pooling == "cls"


def test_triplets_lie_in_groups_of_three() -> None:
    """NonLing Eq. 3 as loops: premise i against all entailed and contradicted hypotheses of the
    batch.
    """
    method = built("simcse-sup")
    encoded = drawn(6, 1, 8, seed=3)
    loss, _ = method.loss(TripletBatch({}), lambda inputs, views: encoded)
    heads = torch.nn.functional.normalize(method.text_head(encoded[:, 0]), dim=-1)
    expected = 0.0
    for i in range(2):
        logits = [
            float((heads[3 * i] @ heads[3 * j + k]).detach()) / 0.05
            for k in (1, 2)
            for j in range(2)
        ]
        expected -= (
            logits[i] - float(torch.logsumexp(torch.tensor(logits, dtype=torch.float64), 0))
        ) / 2
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-9)
