"""Losses against the public implementations (tests/golden), in float64, with their gradients.

`simcse_unsup`: cross-entropy of cos(z1_i, z2_j)/temp with the diagonal as target. `simcse_sup`: the
same over (N, 2N) logits, cos(z1_i, z3_j)/temp on the right, `hard_negative_weight` added on its
diagonal. `kdmcse_margin_similarity`: theta = arccos(cos(x_i, y_j)); off the diagonal, where theta >
margin, it becomes theta - margin, or theta - (1 - soft) * margin with soft labels; logits are the
cosines of these angles over temp. `supcon` and `simclr`: all 2N vectors are anchors;
log-probabilities averaged over the positives, then over anchors, times temperature /
base_temperature. `nonling_simclr_cross_view`: InfoNCE of view 1 with view 2.
`nonling_supcon_cross_view`: the same logits, the target of a row being the rank of its class in the
batch. `dalr_soft_alignment`: KL(softmax(soft_logits/soft_tau) || softmax(logits/tau)), mean over
rows. `dalr_consistency_pairs`: mean over 2n pairs of 1 - cos(text, matched) and max(0, cos(text,
unmatched) - margin). `dalr_in_batch_g2l`: cross-entropy of local_ik . global_i against the tokens
of all other sentences, over temp, mean over real tokens, then over sentences. `dalr_listmle`: each
row in the teacher's order, less its maximum: gamma times the mean over rows of the sum over places
of log(sum of exp from there on + 1e-7) - score. `dalr_listnet`: cross-entropy of the rows'
softmaxes, both without the diagonal, times gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from golden_tools import assert_golden, entries, tensors
from torch import Tensor

from harness.losses.contrastive import (
    class_rank_cross_entropy,
    cosine_matrix,
    info_nce,
    info_nce_hard,
    margin_info_nce,
    supcon,
)
from harness.losses.matching import (
    in_batch_g2l,
    list_mle,
    list_net,
    pair_consistency,
    soft_alignment,
)


def classes(inputs: dict[str, Tensor]) -> Tensor | None:
    return inputs["labels"].detach().long() if "labels" in inputs else None


def constant(inputs: dict[str, Tensor], name: str) -> Tensor | None:
    return inputs[name].detach() if name in inputs else None


#: loss -> its file and this project's, of an entry's inputs and parameters
LOSSES: dict[str, tuple[str, Callable[[Any, Any], Tensor]]] = {
    "simcse_unsup": ("contrastive", lambda i, p: info_nce(i["z1"], i["z2"], p["temp"])),
    "simcse_sup": (
        "supervised",
        lambda i, p: info_nce_hard(i["z1"], i["z2"], i["z3"], p["temp"], p["hard_negative_weight"]),
    ),
    "kdmcse_margin_similarity": (
        "kdmcse",
        lambda i, p: margin_info_nce(
            cosine_matrix(i["x"], i["y"]), p["temp"], p["margin"], constant(i, "soft"), near="keep"
        ),
    ),
    **dict.fromkeys(
        ("supcon", "simclr"),
        (
            "supcon",
            lambda i, p: supcon(
                *i["features"].unbind(1), classes(i), p["temperature"], p["base_temperature"]
            ),
        ),
    ),
    "nonling_simclr_cross_view": (
        "supcon",
        lambda i, p: info_nce(*i["features"].chunk(2), p["temperature"]),
    ),
    "nonling_supcon_cross_view": (
        "supcon",
        lambda i, p: class_rank_cross_entropy(
            *i["features"].chunk(2), classes(i), p["temperature"]
        ),
    ),
    "dalr_soft_alignment": (
        "dalr",
        lambda i, p: soft_alignment(i["logits"], i["soft_logits"], p["tau"], p["soft_tau"]),
    ),
    "dalr_consistency_pairs": (
        "dalr",
        lambda i, p: pair_consistency(i["text"], i["matched"], i["unmatched"], p["margin"]),
    ),
    "dalr_in_batch_g2l": (
        "dalr",
        lambda i, p: in_batch_g2l(i["local"], i["global"], p["temp"], constant(i, "mask")),
    ),
    "dalr_listmle": (
        "dalr",
        lambda i, p: p["gamma"] * list_mle(i["student"], i["teacher"].detach(), floor=1e-7),
    ),
    "dalr_listnet": ("dalr", lambda i, p: p["gamma"] * list_net(i["student"], i["teacher"])),
}


@pytest.mark.parametrize(
    "entry", [entry for loss, (file, _) in LOSSES.items() for entry in entries(file, loss)]
)
def test_a_loss_is_the_public_codes(entry: dict[str, Any]) -> None:
    inputs, (_, loss) = tensors(entry), LOSSES[entry["loss"]]
    (output,) = entry["grad_norm"]
    assert_golden(entry, inputs, output, loss(inputs, entry["params"]))
