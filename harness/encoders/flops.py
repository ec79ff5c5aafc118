"""Floating-point operations of an encoder's training, by formula: they do not depend on how it
computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from harness.encoders.rows import TokenRows
from harness.encoders.student import Student


def token_flops(student: Student) -> int:
    """Count the operations of both passes of a token in the matrices of all layers, those of
    ALBERT's layers as often as they are used.

    A weight costs 2 in the forward pass and 4 in the backward pass, or 2 there if it is not trained
    (Kaplan et al. 2020, Table 1).
    """
    config: Any = student.model.config
    uses = config.num_hidden_layers // getattr(
        config, "num_hidden_groups", config.num_hidden_layers
    )
    layers = [part for part in student.model.modules() if isinstance(part, nn.Linear)]
    operations = 0
    for layer in layers:
        operations += layer.weight.numel() * (6 if layer.weight.requires_grad else 4)
    return int(uses) * operations


def training_flops(
    student: Student, per_token: int, inputs: Mapping[str, Tensor], views: int
) -> int:
    """Count the operations of both passes of a batch, `inputs` and `views` as for `Student.encode`.

    A token costs `per_token`, which is `token_flops`, and 4 d L for attention in each layer, in a
    row of L tokens, and twice that in the backward pass. Padding, a second encoding in pieces and
    what the last layer leaves out are of this program and not counted, nor are heads, losses,
    searches for neighbours and a method's other models.
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
        patches = prod(
            side // size for side, size in zip(media.shape[-2:], kernel.kernel_size, strict=True)
        )
        lengths = np.full(len(media), patches + 1)
        embedding = 4 * kernel.weight.numel() * patches * len(media)  # pixels have no gradient
    tokens = int(lengths.sum())
    squares = int((lengths.astype(np.int64) ** 2).sum())
    attention = 12 * config.num_hidden_layers * config.hidden_size * squares
    return int(views * (per_token * tokens + attention + embedding))
