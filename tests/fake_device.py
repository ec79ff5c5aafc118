"""A CUDA device without a card: tensors on it are torch's fake ones, with a shape and a type but no
data.

Tensors on the CPU stay real. An operation that mixes both devices fails as on a real one. A forward
pass works; a backward pass does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map

CUDA = torch.device("cuda")


@contextmanager
def fake_cuda() -> Iterator[FakeDevice]:
    """Let 'cuda' be such a device, with autocast to bf16 and fp16; what is copied from it to the
    CPU is read as zeros.

    Reading a number, and a shape that depends on data, are refused. The random state of the device,
    of which there is none, is not kept.
    """
    with ExitStack() as stack:
        for name, value in (
            ("torch.cuda.amp.common.amp_definitely_not_available", lambda: False),
            ("torch.cuda.is_bf16_supported", lambda *given, **named: True),
            ("torch.random.fork_rng", lambda devices: nullcontext()),
            ("torch.cuda.get_device_capability", lambda device: (8, 0)),
            # a trial compares numbers, of which there are none
            ("harness.encoders.kernels._find_failure", lambda *given: None),
            ("harness.encoders.student.Student._is_packed_rightly", lambda student: True),
        ):
            stack.enter_context(patch(name, value))
        stack.enter_context(patch.object(FakeTensor, "numpy", _zeros, create=True))
        yield stack.enter_context(FakeDevice())


class FakeDevice(FakeTensorMode):
    """Fakes what has a tensor of the device among its inputs or is created there, and computes the
    rest.

    `copies` counts the tensors that were copied from it.
    """

    def __init__(self) -> None:
        super().__init__(static_shapes=True)
        self.copies = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_leaves((args, kwargs))
        if any(
            isinstance(arg, FakeTensor) or (isinstance(arg, torch.device) and arg.type == "cuda")
            for arg in given
        ):
            faked = tree_map(self._faked, (args, kwargs or {}))
            output = super().__torch_dispatch__(func, types, *faked)
            if (
                func is torch.ops.aten._to_copy.default
                and output.device.type == "cpu" != args[0].device.type
            ):
                self.copies += 1
            return output
        return func(*args, **(kwargs or {}))

    def _faked(self, value: Any) -> Any:
        real = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
        return self.from_tensor(value) if real else value


def tf32() -> tuple[bool, bool]:
    """Whether products and convolutions of float32 may use TF32 on a card."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def _zeros(tensor: torch.Tensor) -> np.ndarray:
    """Read a fake tensor; refused where a real one is."""
    if tensor.device.type != "cpu" or tensor.requires_grad:
        raise TypeError(
            f"a tensor on {tensor.device} (gradient: {tensor.requires_grad}) cannot be read by numpy"
        )
    kind = torch.empty(0, dtype=tensor.dtype).numpy().dtype
    return np.zeros(tuple(tensor.shape), dtype=kind)
