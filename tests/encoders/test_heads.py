"""MCSE's file of projections: its layout, its arithmetic, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from made_files import Payload

from harness.encoders.heads import read_projections
from harness.errors import UserError


def test_both_sides_are_one_layer_and_a_tanh(tmp_path: Path) -> None:
    """In a file as MCSE's program saves it: the weights of its modules `visn_model` and
    `grounding`.
    """
    sides = {"visn_model": ("mlp.dense.", 6), "grounding": ("dense.", 4)}
    content = {
        module: {f"{prefix}weight": torch.randn(3, size), f"{prefix}bias": torch.randn(3)}
        for module, (prefix, size) in sides.items()
    }
    torch.save(content, tmp_path / "mcse.pt")
    texts, images = read_projections(tmp_path / "mcse.pt")
    for head, module, prefix, width in (
        (texts, "grounding", "dense", 4),
        (images, "visn_model", "mlp.dense", 6),
    ):
        vectors, weights = torch.randn(5, width), content[module]
        expected = torch.tanh(vectors @ weights[f"{prefix}.weight"].T + weights[f"{prefix}.bias"])
        torch.testing.assert_close(head(vectors), expected)


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
    with pytest.raises(UserError, match=f"mcse.pt does not have MCSE's projections: .*{says}"):
        read_projections(file)
    assert not (tmp_path / "executed").exists()
