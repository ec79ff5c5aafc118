"""Low-rank training: killed and resumed, saved merged, with heads that train as they always do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from toy_trainers import stopped_and_resumed, trainer

import harness
from harness.encoders import adapters
from harness.encoders.student import Student
from harness.errors import UserError
from harness.runs.train import count_parameters
from harness.training.trainer import Trainer

pytest.importorskip("peft")
CPU = torch.device("cpu")
TEXTS = ["the plain red circle at the left by noon", "a big blue square"]
RANK = 4
#: in the toy student, of width 64 and inner width 256: four matrices of 64 x 64 and two of 64 x 256
OF_A_LAYER = RANK * (4 * (64 + 64) + 2 * (64 + 256))


def make(folder: Path, variant: str = f"mcse[lora_rank={RANK},pooling=mean]") -> Trainer:
    training = trainer(variant, "fp32", CPU, folder)
    training.dev = lambda embed: float(np.abs(embed(TEXTS)).sum())
    return training


def weights(training: Trainer) -> dict[str, torch.Tensor]:
    return {**training.student.state_dict(), **training.method.state_dict()}


def test_a_low_rank_training_trains_matrices_and_heads_and_resumes_bit_for_bit(
    tmp_path: Path,
) -> None:
    before = {name: value.clone() for name, value in weights(make(tmp_path / "whole")).items()}
    whole = make(tmp_path / "whole")
    heads = sum(value.numel() for value in whole.method.parameters())
    layers = len(whole.student.model.encoder.layer)
    assert count_parameters(whole) == heads + layers * OF_A_LAYER

    trained: dict[str, torch.Tensor] = {}
    vectors: list[np.ndarray] = []
    finish = whole._finish_step

    def finish_step(steps_done: int, elapsed: float) -> None:
        vectors.append(whole.student.embed(TEXTS))
        trained.update({name: value.clone() for name, value in weights(whole).items()})
        finish(steps_done, elapsed)

    whole._finish_step = finish_step  # type: ignore[method-assign]
    whole.run()
    moved = {name for name, value in trained.items() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if ".lora_" in name or not name.startswith("model.")}

    saved = Student.load(whole.folder.best, "mean")
    kept_step = whole.record.kept_step
    assert kept_step is not None
    np.testing.assert_allclose(saved.embed(TEXTS), vectors[kept_step - 1], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(saved.embed(TEXTS), whole.student.embed(TEXTS))

    resumed = stopped_and_resumed(lambda: make(tmp_path / "parts"), 3)
    torch.testing.assert_close(weights(resumed), weights(whole), rtol=0, atol=0)
    assert resumed.record.dev_scores == whole.record.dev_scores
    assert resumed.record.losses == whole.record.losses

    ended = make(tmp_path / "whole")
    ended.run()
    torch.testing.assert_close(weights(ended), weights(whole), rtol=0, atol=0)


def test_images_pass_adapted_layers_and_their_patches_train(tmp_path: Path) -> None:
    training = make(tmp_path, f"visualcse[lora_rank={RANK}]")
    training.student.train()
    before = {name: value.clone() for name, value in training.student.named_parameters()}
    for step in range(3):  # the first step of a warm-up moves nothing
        training._step(step)
    moved = {
        name
        for name, value in training.student.named_parameters()
        if not torch.equal(value, before[name])
    }
    assert any(name.startswith("patches.") for name in moved)
    assert all(".lora_" in name or name.startswith("patches.") for name in moved)


def test_no_rank_is_the_training_of_every_weight(tmp_path: Path) -> None:
    plain = make(tmp_path / "plain", "simcse")
    none = make(tmp_path / "none", "simcse[lora_rank=0]")
    assert count_parameters(plain) == sum(
        value.numel() for value in (*plain.student.parameters(), *plain.method.parameters())
    )
    for step in range(2):
        for training in (plain, none):
            training._step(step)
    torch.testing.assert_close(weights(none), weights(plain), rtol=0, atol=0)


def test_a_run_without_peft_is_refused_by_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"methods": "simcse[lora_rank=4]", "settings": "toy-text", "seeds": 1, "suites": "sts"}
    (run,) = harness.plan("tiny", **words).runs
    assert run.experiment.identity["hyperparameters"]["lora_rank"] == 4
    plain = harness.plan("tiny", **{**words, "methods": "simcse"}).runs[0]
    assert "lora_rank" not in plain.experiment.identity["hyperparameters"]
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs peft.*pip install 'sentence-harness\[lora\]'"):
        harness.run("tiny", **words)
