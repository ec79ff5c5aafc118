"""Whether a training compiles its encoder: where that is possible, and takes less than it saves."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

import torch

from harness.profiles import Training

#: Steps that pay for compiling. On an H200 it takes 46 s and makes a step of SimCSE (BERT-base, 64
#: rows, bf16) 7 ms shorter (33 to 26 ms); `make card` measures both on other cards.
COMPILED_FROM_STEPS = 6_500
#: autocast types whose steps become shorter; TF32 gained nothing
COMPILED_PRECISIONS = ("fp32", "bf16", "fp16")
#: the first generation of cards that Triton, by which torch compiles, writes code for
FIRST_CAPABILITY = (7, 0)


def choose_compiled(training: Training, steps: int, device: torch.device) -> bool:
    """Whether a training of so many steps compiles its encoder on a device.

    `compile = "auto"` never does on a CPU, where a compiled step is slower.
    """
    if training.compile != "auto":
        return training.compile
    if device.type != "cuda" or training.precision not in COMPILED_PRECISIONS:
        return False
    return steps >= COMPILED_FROM_STEPS and can_compile(device)


def can_compile(device: torch.device) -> bool:
    """Whether torch can compile for a CUDA device: a card that Triton knows, Triton, and the C
    compiler and Python's headers, by which Triton starts what it has compiled.
    """
    if torch.cuda.get_device_capability(device) < FIRST_CAPABILITY:
        return False
    if importlib.util.find_spec("triton") is None:
        return False
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return False
    return any(shutil.which(compiler) for compiler in (os.environ.get("CC", ""), "clang", "gcc"))
