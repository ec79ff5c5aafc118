"""Loss values and gradients against the public implementations (tests/golden/contrastive.json).

The numbers were computed in float64 with the public code of SimCSE and MCSE: `simcse_unsup` is the
cross-entropy of cos(z1_i, z2_j)/temp with the diagonal as target; `mcse` gives the text part `intra`,
the image part `inter` (mean over two views, sentence to image) and `total = intra + lbd * inter`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from golden_tools import CLOSE, Given, assert_gradients, entries, put, tensors
from harness_methods.mcse import MCSE
from harness_methods.simcse import SimCSE

from harness.method import Dimensions, PairBatch, SentenceBatch


@pytest.mark.parametrize("entry", entries("contrastive", "mcse"))
def test_mcse_official(entry: dict[str, Any]) -> None:
    inputs, params = tensors(entry), entry["params"]
    width, hidden = entry["shapes"]["text_head_weight"]
    values = {
        "temperature": params["temp"],
        "temperature_multimodal": params["temp_vl"],
        "lambda": params["lbd"],
        "projection_dim": width,
    }
    method = MCSE(MCSE.configure("official", values), Dimensions(hidden, {"image": entry["shapes"]["img"][1]})).double()
    put(method.grounding_head, inputs["text_head_weight"], inputs["text_head_bias"])
    put(method.image_head, inputs["image_head_weight"], inputs["image_head_bias"])
    method.text_head = Given(inputs["z"])
    batch = PairBatch({}, {"image": inputs["img"]})
    total, terms = method.loss(batch, lambda tokens, views: inputs["cls"])
    for name, output, value in (
        ("text", "intra", terms["text"]),
        ("info", "inter", terms["info"]),
        ("", "total", total),
    ):
        assert float(value.detach()) == pytest.approx(entry["outputs"][output], rel=CLOSE), name
        assert_gradients(value, inputs, entry["grad_norm"][output])


def _vectors(views: int = 2) -> torch.Tensor:
    return torch.randn(6, views, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def test_the_papers_mcse_adds_the_views_where_the_code_averages() -> None:
    images = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    found = {}
    for reading in ("paper", "official"):
        torch.manual_seed(0)
        method = MCSE(MCSE.configure(reading), Dimensions(8, {"image": 5})).double()
        vectors = _vectors()
        _, found[reading] = method.loss(PairBatch({}, {"image": images}), lambda tokens, views, v=vectors: v)
    torch.testing.assert_close(found["paper"]["info"], 2 * found["official"]["info"])
    torch.testing.assert_close(found["paper"]["text"], found["official"]["text"])


def test_mcse_without_info_is_simcse_on_every_batch() -> None:
    images = torch.randn(6, 5, dtype=torch.float64)
    losses = []
    for method_class, options in ((SimCSE, {}), (MCSE, {"without": "info"})):
        torch.manual_seed(1)
        method = method_class(method_class.configure("paper", options), Dimensions(8, {"image": 5})).double()
        losses += [
            method.loss(batch, lambda tokens, views: _vectors())[0]
            for batch in (SentenceBatch({}), PairBatch({}, {"image": images}))
        ]
    assert len({round(float(loss.detach()), 12) for loss in losses}) == 1


def test_the_image_loss_follows_the_papers_sum_written_out() -> None:
    """MCSE Eq. 3 as loops over rows, in float64."""
    method = MCSE(MCSE.configure("paper"), Dimensions(8, {"image": 5})).double()
    vectors, images = _vectors(), torch.randn(6, 5, dtype=torch.float64)
    v = torch.nn.functional.normalize(method.image_head(images), dim=-1)
    expected = 0.0
    for k in range(2):
        s = torch.nn.functional.normalize(method.grounding_head(vectors[:, k]), dim=-1)
        for i in range(6):
            scores = [float((s[i] * v[j]).sum().detach()) / 0.05 for j in range(6)]
            expected -= (scores[i] - float(torch.logsumexp(torch.tensor(scores, dtype=torch.float64), 0))) / 6
    assert float(method.info(vectors, method.image_head(images)).detach()) == pytest.approx(expected, rel=1e-10)
