"""MCSE's file of projections: its layout, its arithmetic, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from made_files import Payload

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


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            {"grounding": {"dense.weight": torch.zeros(2, 2)}},
            "its weights are dense.weight, not dense.weight and",
        ),
        ({"visn_model": {}}, "KeyError: 'grounding'"),
        ([1.0], "TypeError"),
        (b"not a file of torch", "restore it"),
        ({"grounding": Payload(Path("executed"))}, "UnpicklingError"),
    ],
)
def test_another_file_is_refused_in_one_line_and_nothing_in_it_executed(
    content: object, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mcse.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save(content, file)
    with pytest.raises(UserError, match=f"mcse.pt does not have MCSE's projections: .*{says}") as caught:
        read_projections(file)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "executed").exists()
