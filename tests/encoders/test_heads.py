"""MCSE's file of projections: its layout, its arithmetic, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.encoders.heads import read_projections
from harness.errors import UserError


def saved(file: Path, width: int = 4, features: int = 6, dimensions: int = 3) -> dict[str, Any]:
    """A file as MCSE's program saves it: the weights of its modules `visn_model` and `grounding`."""
    torch.manual_seed(0)
    sides = {"visn_model": ("mlp.dense.", features), "grounding": ("dense.", width)}
    found = {
        module: {f"{prefix}weight": torch.randn(dimensions, size), f"{prefix}bias": torch.randn(dimensions)}
        for module, (prefix, size) in sides.items()
    }
    torch.save(found, file)
    return found


def test_both_sides_are_one_layer_and_a_tanh(tmp_path: Path) -> None:
    found = saved(tmp_path / "mcse.pt")
    texts, images = read_projections(tmp_path / "mcse.pt")
    vectors, features = torch.randn(5, 4), torch.randn(5, 6)
    grounding, mlp = found["grounding"], found["visn_model"]
    expected = torch.tanh(vectors @ grounding["dense.weight"].T + grounding["dense.bias"])
    torch.testing.assert_close(texts(vectors), expected)
    expected = torch.tanh(features @ mlp["mlp.dense.weight"].T + mlp["mlp.dense.bias"])
    torch.testing.assert_close(images(features), expected)


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self.target,)


def test_no_code_of_the_file_is_executed(tmp_path: Path) -> None:
    torch.save({"grounding": Harmful(str(tmp_path / "made")), "visn_model": {}}, tmp_path / "mcse.pt")
    with pytest.raises(UserError, match=r"mcse.pt does not have MCSE's projections: UnpicklingError"):
        read_projections(tmp_path / "mcse.pt")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            {"grounding": {"dense.weight": torch.zeros(2, 2)}},
            "its weights are dense.weight, not dense.weight and dense.b",
        ),
        ({"visn_model": {}}, "KeyError: 'grounding'"),
        ([1.0], "TypeError"),
    ],
)
def test_another_layout_is_refused_in_one_line(content: object, says: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "mcse.pt")
    with pytest.raises(UserError, match=says) as caught:
        read_projections(tmp_path / "mcse.pt")
    assert "\n" not in str(caught.value)


def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mcse.pt").write_bytes(b"not a file of torch")
    with pytest.raises(UserError, match="restore it"):
        read_projections(tmp_path / "mcse.pt")
