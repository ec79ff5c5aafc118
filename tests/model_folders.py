"""Folders of models, changed file by file and tensor by tensor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

Weights = dict[str, Tensor]


def change(folder: Path, changed: Callable[[Weights], Weights]) -> None:
    """Change the weights."""
    save_file(
        changed(load_file(folder / "model.safetensors")),
        folder / "model.safetensors",
        {"format": "pt"},
    )


def as_bin(folder: Path) -> None:
    """Keep the weights in the former format."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def edit(file: Path, **values: object) -> None:
    """Change values of a JSON file, which need not be there."""
    file.write_text(json.dumps((json.loads(file.read_text()) if file.is_file() else {}) | values))
