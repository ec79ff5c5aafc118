"""Projections of captions and images that authors published beside an encoder: the file `mcse.pt` of MCSE.

It holds two modules' weights (MCSE src/train_mix.py, src/model.py): `grounding` projects [CLS] itself, and the `mlp` of
`visn_model` ResNet-50 features, both by a linear layer and a tanh into 256 dimensions.
"""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor, nn

from harness.encoders.heads import TanhHead
from harness.errors import RESTORE, UserError, first_line

#: the module's weights in the file, and the beginning of their names: of captions, then of images
_HEADS = (("grounding", "dense."), ("visn_model", "mlp.dense."))


def read_projections(file: Path) -> tuple[nn.Module, nn.Module]:
    """Read the heads of captions (..., d) -> (..., p) and of image features (..., f) -> (..., p).

    No code of the file is executed. Raises UserError for a file of another layout.
    """
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
        texts, images = (_head(found[module], prefix) for module, prefix in _HEADS)
    except (
        OSError,
        EOFError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RuntimeError,
        UnpicklingError,
    ) as error:
        why = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{file} does not have MCSE's projections: {why}; {RESTORE}") from error
    return texts, images


def _head(weights: dict[str, Tensor], prefix: str) -> nn.Module:
    """Build a head from its weights. Raises ValueError for others than those of one linear layer."""
    if set(weights) != {f"{prefix}weight", f"{prefix}bias"}:
        raise ValueError(f"its weights are {', '.join(sorted(weights))}, not {prefix}weight and {prefix}bias")
    weight, bias = weights[f"{prefix}weight"], weights[f"{prefix}bias"]
    head = TanhHead(weight.shape[1], weight.shape[0])
    head.load_state_dict({"0.weight": weight.float(), "0.bias": bias.float()})
    return head.eval()
