"""Floating-point operations of an encoder's training, by formula, so that they do not depend on how it computes them.

A token costs 2 operations for each weight of the layers' matrices, and 4 d L for its attention in each layer, in a
sentence of L tokens (Kaplan et al. 2020, Table 1); the backward pass costs twice the forward pass. Padding, a second
encoding in pieces, and what the last layer leaves out are not considered: they are of this program, not of a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from harness.encoders.rows import TokenRows
from harness.encoders.student import Student


def weights_per_token(model: nn.Module) -> int:
    """Count the weights of matrices that each token is multiplied by, those of shared layers (ALBERT) at each use."""
    config: Any = model.config
    uses = config.num_hidden_layers // getattr(config, "num_hidden_groups", config.num_hidden_layers)
    matrices = [part.weight for part in model.modules() if isinstance(part, nn.Linear)]
    return int(uses) * sum(weight.numel() for weight in matrices)


def training_flops(student: Student, weights: int, inputs: Mapping[str, Tensor], views: int) -> int:
    """Count the operations of both passes of a batch through an encoder with `weights` per token.

    `inputs` and `views` are those of `Student.encode`.
    """
    config: Any = student.model.config
    embedding = 0
    if isinstance(inputs, TokenRows):
        lengths = inputs.lengths
    elif "attention_mask" in inputs:
        lengths = inputs["attention_mask"].sum(1).cpu().numpy()
    else:
        ((name, media),) = inputs.items()
        kernel = cast(nn.Conv2d, student.patches[name].projection)
        patches = prod(side // size for side, size in zip(media.shape[-2:], kernel.kernel_size, strict=True))
        lengths = np.full(len(media), patches + 1)
        embedding = 4 * kernel.weight.numel() * patches * len(media)  # pixels have no gradient
    tokens, squares = int(lengths.sum()), int((lengths.astype(np.int64) ** 2).sum())
    layers = 6 * weights * tokens + 12 * config.num_hidden_layers * config.hidden_size * squares
    return views * (layers + embedding)
