"""Golden values (tests/golden) as test parameters, and what it takes to put their inputs into a
method.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

CLOSE = 1e-9
GOLDEN = Path(__file__).parent / "golden"


def entries(file: str, loss: str) -> list[Any]:
    """The entries of one loss in a file of golden values, named by their cases."""
    listed = json.loads((GOLDEN / f"{file}.json").read_text())["entries"]
    cases = [pytest.param(entry, id=entry["case"]) for entry in listed if entry["loss"] == loss]
    assert cases, f"{file}.json has no entry '{loss}'"
    return cases


def tensors(entry: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The inputs in float64; those that the public code differentiates take gradients."""
    return {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in entry["inputs"].items()
    }


def assert_golden(
    entry: Mapping[str, Any], inputs: dict[str, torch.Tensor], output: str, value: torch.Tensor
) -> None:
    """One output of an entry: its value, and the norms of its gradients."""
    assert float(value.detach()) == pytest.approx(entry["outputs"][output], rel=CLOSE), output
    gradients = torch.autograd.grad(
        value, list(inputs.values()), retain_graph=True, allow_unused=True
    )
    for name, gradient in zip(inputs, gradients, strict=True):
        if name in entry["grad_norm"][output]:
            norm = 0.0 if gradient is None else float(gradient.norm())
            assert norm == pytest.approx(entry["grad_norm"][output][name], rel=CLOSE, abs=1e-12), (
                name
            )


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers in float64, of a seed alone."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class Given(torch.nn.Module):
    """A text head whose outputs are given, as the golden entries have them."""

    def __init__(self, outputs: torch.Tensor) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return self.outputs


def put(head: torch.nn.Module, weight: torch.Tensor, bias: torch.Tensor, layer: int = 0) -> None:
    """Give a layer of a head weights that are inputs of the graph."""
    linear = head[layer]
    del linear.weight, linear.bias
    linear.weight, linear.bias = weight, bias


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """The cosine of two vectors as loops in float64."""
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(float(x) ** 2 for x in a) * sum(float(y) ** 2 for y in b))


def divergence(wanted: list[float], actual: list[float]) -> float:
    """KL(softmax(wanted) || softmax(actual)) as loops."""
    q, p = ([math.exp(x) / sum(map(math.exp, row)) for x in row] for row in (wanted, actual))
    return sum(a * math.log(a / b) for a, b in zip(q, p, strict=True))
