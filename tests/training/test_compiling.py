"""When a training compiles its encoder: `compile = "auto"` where that pays, on a card that is faked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.profiles import Training
from harness.spec import select_identifying
from harness.training import compiling
from harness.training.compiling import COMPILED_FROM_STEPS, choose_compiled

CUDA = torch.device("cuda")
CPU = torch.device("cpu")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A card that can be compiled for: with Triton, a C compiler and Python's headers."""
    (tmp_path / "Python.h").touch()
    compiler = tmp_path / "gcc"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(compiling.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    return monkeypatch


@pytest.mark.parametrize(
    ("precision", "device", "steps", "is_compiled"),
    [
        ("bf16", CUDA, COMPILED_FROM_STEPS, True),
        ("fp16", CUDA, COMPILED_FROM_STEPS, True),
        ("fp32", CUDA, COMPILED_FROM_STEPS, True),
        ("tf32", CUDA, COMPILED_FROM_STEPS, False),
        ("bf16", CUDA, COMPILED_FROM_STEPS - 1, False),
        ("bf16", CPU, COMPILED_FROM_STEPS, False),
    ],
)
@pytest.mark.usefixtures("card")
def test_a_training_is_compiled_on_a_card_where_that_pays(
    precision: str, device: torch.device, steps: int, is_compiled: bool
) -> None:
    training = Training.model_validate({"precision": precision})
    assert training.compile == "auto"
    assert choose_compiled(training, steps, device) is is_compiled


@pytest.mark.parametrize("lacks", ["compiler", "headers", "Triton", "a newer card"])
def test_what_compiling_needs_is_looked_for_first(
    lacks: str, card: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if lacks == "compiler":
        (tmp_path / "gcc").unlink()
    elif lacks == "headers":
        (tmp_path / "Python.h").unlink()
    elif lacks == "Triton":
        card.setattr(compiling.importlib.util, "find_spec", lambda name: None)
    else:
        card.setattr("torch.cuda.get_device_capability", lambda device: (6, 1))
    training = Training(precision="bf16")
    assert not choose_compiled(training, COMPILED_FROM_STEPS, CUDA)
    asked = training.model_copy(update={"compile": True})
    assert choose_compiled(asked, 1, CPU), "what the user asks for is not second-guessed"


def test_the_machines_choice_makes_no_other_training() -> None:
    auto = Training()
    plain = auto.model_copy(update={"compile": False})
    compiled = auto.model_copy(update={"compile": True})
    assert auto.identity == plain.identity != compiled.identity
    assert select_identifying(auto.model_dump())["compile"] is False
