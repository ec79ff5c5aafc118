"""MCSE against the public code (tests/golden/contrastive.json) and against its equations as loops
in float64.

Golden `mcse`: the text part `intra`, the image part `inter` (mean over two views, sentence to
image), and `total = intra + lbd * inter`.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from golden_tools import Given, assert_golden, cosine, drawn, entries, put, tensors
from harness_methods.mcse import MCSE
from harness_methods.simcse import SimCSE

from harness.method import Dimensions, PairBatch, SentenceBatch


@pytest.mark.parametrize("entry", entries("contrastive", "mcse"))
def test_mcse_official(entry: dict[str, Any]) -> None:
    inputs, params = tensors(entry), entry["params"]
    width, hidden = entry["shapes"]["text_head_weight"]
    named = {"temperature": "temp", "temperature_multimodal": "temp_vl", "lambda": "lbd"}
    values = {option: params[name] for option, name in named.items()} | {"projection_dim": width}
    method = MCSE(
        MCSE.configure("official", values), Dimensions(hidden, {"image": entry["shapes"]["img"][1]})
    ).double()
    put(method.grounding_head, inputs["text_head_weight"], inputs["text_head_bias"])
    put(method.image_head, inputs["image_head_weight"], inputs["image_head_bias"])
    method.text_head = Given(inputs["z"])
    batch = PairBatch({}, {"image": inputs["img"]})
    total, terms = method.loss(batch, lambda tokens, views: inputs["cls"])
    for output, value in (("intra", terms["text"]), ("inter", terms["info"]), ("total", total)):
        assert_golden(entry, inputs, output, value)


VECTORS, IMAGES = drawn(6, 2, 8, seed=5), drawn(6, 5, seed=6)


def test_mcse_without_info_is_simcse_on_every_batch() -> None:
    losses = []
    for method_class, options in ((SimCSE, {}), (MCSE, {"without": "info"})):
        torch.manual_seed(1)
        method = method_class(
            method_class.configure("paper", options), Dimensions(8, {"image": 5})
        ).double()
        losses += [
            method.loss(batch, lambda tokens, views: VECTORS)[0]
            for batch in (SentenceBatch({}), PairBatch({}, {"image": IMAGES}))
        ]
    assert len({round(float(loss.detach()), 12) for loss in losses}) == 1


def test_the_paper_is_eq_1_to_4_written_out() -> None:
    """The mean over the batch of l_i, whose multimodal part is a sum over both dropout views."""
    values = {"temperature": 0.2, "temperature_multimodal": 0.3, "lambda": 0.7}
    method = MCSE(MCSE.configure("paper", values), Dimensions(8, {"image": 5})).double()
    with torch.no_grad():
        h = [method.text_head(VECTORS[:, k]) for k in range(2)]
        s = [method.grounding_head(VECTORS[:, k]) for k in range(2)]
        v = method.image_head(IMAGES)
    text = info = 0.0
    for i in range(6):
        scores = [math.exp(cosine(h[0][i], h[1][j]) / 0.2) for j in range(6)]
        text -= math.log(scores[i] / sum(scores)) / 6  # Eq. 1
        for view in s:
            scores = [math.exp(cosine(view[i], v[j]) / 0.3) for j in range(6)]
            info -= math.log(scores[i] / sum(scores)) / 6  # Eq. 3
    for batch, expected in (
        (PairBatch({}, {"image": IMAGES}), text + 0.7 * info),
        (SentenceBatch({}), text),
    ):
        total, _ = method.loss(batch, lambda tokens, views: VECTORS)  # Eq. 4
        assert float(total.detach()) == pytest.approx(expected, rel=1e-10)
