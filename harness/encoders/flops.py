"""Floating-point operations of an encoder's training, by formula: they do not depend on how it
computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from harness.encoders.rows import EncoderInputs, TokenRows
from harness.encoders.student import Student


def count_token_flops(student: Student) -> int:
    """Count the operations of both passes of a token in the matrices of all layers, those of
    ALBERT's layers as often as they are used.

    A weight costs 2 in the forward pass and 4 in the backward pass, or 2 there if it is not trained
    (Kaplan et al. 2020, Table 1).
    """
    config: Any = student.model.config
    layers = config.num_hidden_layers
    uses = layers // getattr(config, "num_hidden_groups", layers)

    operations = 0
    for module in student.model.modules():
        if isinstance(module, nn.Linear):
            cost = 6 if module.weight.requires_grad else 4
            operations += cost * module.weight.numel()
    return int(uses) * operations


def count_training_flops(
    student: Student, per_token: int, inputs: EncoderInputs, views: int
) -> int:
    """Count the operations of both passes of a batch, `inputs` and `views` as for `Student.encode`.

    A token costs `per_token`, which is `count_token_flops`, and 4 d L for attention in each layer, in a
    row of L tokens, and twice that in the backward pass. Padding, a second encoding in pieces and
    what the last layer leaves out are of this program and not counted, nor are heads, losses,
    searches for neighbours and a method's other models.
    """
    embedding = 0
    if isinstance(inputs, TokenRows):
        lengths = inputs.lengths
    elif "attention_mask" in inputs:
        lengths = inputs["attention_mask"].sum(1).cpu().numpy()
    else:
        ((name, media),) = inputs.items()
        kernel: Any = student.patches[name].projection
        height, width = media.shape[-2:]
        patch_height, patch_width = kernel.kernel_size
        patches = (height // patch_height) * (width // patch_width)
        lengths = np.full(len(media), patches + 1)
        embedding = 4 * kernel.weight.numel() * patches * len(media)  # pixels have no gradient

    config: Any = student.model.config
    tokens = int(lengths.sum())
    squares = int((lengths.astype(np.int64) ** 2).sum())
    attention = 12 * config.num_hidden_layers * config.hidden_size * squares
    return int(views * (per_token * tokens + attention + embedding))
