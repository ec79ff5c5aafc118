"""Poolings on given layers; test_student.py has them on a real encoder."""

from __future__ import annotations

import pytest
import torch

from harness.encoders.poolings import pooling_named
from harness.errors import UserError
from harness.registry import names

LAYERS = tuple(torch.arange(24.0).view(2, 3, 4) * scale for scale in (1, 10, 100))
MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])


def test_means_leave_padding_out() -> None:
    for name, hidden in (("mean", LAYERS[2]), ("avg-first-last", (LAYERS[0] + LAYERS[2]) / 2)):
        expected = torch.stack([hidden[0].mean(0), hidden[1, :2].mean(0)])
        torch.testing.assert_close(pooling_named(name)(LAYERS, MASK), expected)


def test_cls_and_pooler_take_the_first_position_of_the_last_layer() -> None:
    for name in ("cls", "pooler"):
        torch.testing.assert_close(pooling_named(name)(LAYERS, MASK), LAYERS[2][:, 0])
    assert [name for name in names("pooling") if pooling_named(name).head] == ["pooler"]


def test_only_poolings_of_several_layers_ask_for_all() -> None:
    assert [name for name in names("pooling") if pooling_named(name).all_layers] == ["avg-first-last"]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UserError, match="unknown pooling 'median'; did you mean mean"):
        pooling_named("median")
