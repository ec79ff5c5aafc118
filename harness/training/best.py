"""The best model of a training: a folder `best` with its heads and its step, and how it is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from harness.checksums import CHECKSUMS, DamagedError, check_folder
from harness.encoders.student import Student
from harness.errors import first_line
from harness.method import Method

BEST: Final = "best"
HEADS_FILE: Final = "heads.safetensors"
STEP_FILE: Final = "STEP"


def best_step(folder: Path) -> int:
    """The step of the best model of a training folder, once the model is found to be as it was written.

    Raises FileNotFoundError where there is none, DamagedError for a damaged one.
    """
    best = folder / BEST
    if not best.exists():
        raise FileNotFoundError(f"there is no {best}")
    check_folder(best)
    return int((best / STEP_FILE).read_text())


def check_best(folder: Path) -> None:
    """Raise DamagedError where the best model of a training folder has changed since it was written.

    Those of runs that ended under earlier versions, which exports and teachers read, have no checksums, and pass.
    """
    best = folder / BEST
    if not best.is_dir():
        raise DamagedError("it is missing")
    if (best / CHECKSUMS).exists() or (best / STEP_FILE).exists():
        check_folder(best)


def load_best(folder: Path, student: Student, method: Method) -> None:
    """Load the best model of a training folder into a student and its method, both as the run built them.

    A pooler in the file belongs to the method's heads and is ignored. Raises DamagedError, before anything is loaded,
    for a file that has changed since it was written, and naming the first weight that is missing or does not fit.
    """
    check_best(folder)
    found = _weights(folder / BEST / "model.safetensors")
    encoder = {name: value for name, value in found.items() if not name.startswith("pooler.")}
    heads = _weights(folder / BEST / HEADS_FILE)
    for module, weights in ((student.model, encoder), (method, heads)):
        _check_fit(module, weights)
    student.model.load_state_dict(encoder)
    method.load_state_dict(heads)


def _weights(file: Path) -> dict[str, Tensor]:
    try:
        found: dict[str, Tensor] = load_file(str(file))
        return found
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{file.name} cannot be read: {first_line(error)}") from error


def _check_fit(module: nn.Module, weights: dict[str, Tensor]) -> None:
    expected = module.state_dict()
    for name, value in expected.items():
        if name not in weights:
            raise DamagedError(f"it has no weight {name}")
        if weights[name].shape != value.shape:
            raise DamagedError(
                f"its weight {name} has the shape {tuple(weights[name].shape)}, not {tuple(value.shape)}"
            )
    for name in weights.keys() - expected.keys():
        raise DamagedError(f"it has an unexpected weight {name}")
