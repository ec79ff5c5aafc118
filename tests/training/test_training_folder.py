"""The folder of a training: its checkpoints and best model are complete or absent, and damaged ones
stop nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from faults_tools import cut, flip
from torch import nn

from harness.files import DamagedError
from harness.training.folder import TrainingFolder, load_checkpoint
from harness.training.record import TrainingRecord

CPU = torch.device("cpu")


class Heads(nn.Linear):
    """Stands for a method that keeps all of its state."""

    kept = nn.Module.state_dict


class Written:
    """A student of which the folder asks only that it saves itself."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def save(self, folder: Path) -> None:
        (folder / "model.safetensors").write_text("weights")
        if self.fails:
            raise RuntimeError("full")
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text("{}")


def test_a_checkpoint_is_read_back_and_the_one_before_is_kept(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path / "new")
    assert folder.list_checkpoints() == []
    for step in (3, 9, 10):
        folder.save({"step": step, "student": {"w": torch.arange(step)}})
    assert sorted(path.name.split("-")[1] for path in folder.path.iterdir()) == ["10", "9"]
    for step, path in zip((10, 9), folder.list_checkpoints(), strict=True):
        state = load_checkpoint(path, CPU)
        assert state["step"] == step
        assert torch.equal(state["student"]["w"], torch.arange(step))


def test_a_checkpoint_that_is_not_as_it_was_written_is_refused(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path)
    folder.save({"step": 3, "w": torch.arange(1000)})
    (path,) = folder.list_checkpoints()
    content = path.read_bytes()
    for number in range(10):
        for harm, where in ((cut, number), (flip, number / 10)):
            path.write_bytes(content)
            harm(path, where)
            with pytest.raises(DamagedError, match="its content does not match its name"):
                load_checkpoint(path, CPU)


def test_two_best_models_are_kept_and_one_that_cannot_be_saved_changes_neither(
    tmp_path: Path,
) -> None:
    folder, heads = TrainingFolder(tmp_path), Heads(2, 2)
    for step in (3, 4, 5):
        folder.keep_best(Written(), heads, step)
    with pytest.raises(RuntimeError, match="full"):
        folder.keep_best(Written(fails=True), heads, 6)
    assert {path.name for path in tmp_path.iterdir()} == {"best", "previous-best"}
    assert folder.restore_best(5, "")
    assert not folder.restore_best(3, "")
    assert folder.restore_best(4, "")
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    assert not folder.restore_best(5, "")


def test_an_ended_training_without_its_best_model_has_not_ended(tmp_path: Path) -> None:
    """Not even for the next process, which may find a best model of the training that has begun
    anew.
    """
    folder = TrainingFolder(tmp_path)
    for _ in range(2):
        folder.keep_best(Written(), Heads(2, 2), 3)
        assert not folder.has_ended
        folder.end(TrainingRecord(dev_steps=[3], dev_scores=[70.0]))
        assert folder.has_ended
        (tmp_path / "best" / "model.safetensors").write_text("others")
        assert not folder.has_ended
        assert folder.load_ended(Written(), nn.Linear(2, 2)) is None


def test_files_of_a_best_model_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[int] = set()
    real = os.fsync

    def noting(number: int) -> None:
        flushed.add(os.fstat(number).st_ino)
        real(number)

    monkeypatch.setattr(os, "fsync", noting)
    TrainingFolder(tmp_path).keep_best(Written(), Heads(2, 2), 3)
    parts = [tmp_path, tmp_path / "best", *(tmp_path / "best").rglob("*")]
    assert {"model.safetensors", "config.json", "CHECKSUMS"} < {path.name for path in parts}
    assert flushed == {path.stat().st_ino for path in parts}


def test_a_checkpoint_is_flushed_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name too, or a power cut would cost it."""
    names_when_flushed: list[list[str]] = []
    real = os.fsync

    def noting(number: int) -> None:
        if os.path.samestat(os.fstat(number), tmp_path.stat()):
            names_when_flushed.append([path.name for path in tmp_path.iterdir()])
        real(number)

    monkeypatch.setattr(os, "fsync", noting)
    TrainingFolder(tmp_path).save({"step": 1})
    assert names_when_flushed == [
        [path.name for path in TrainingFolder(tmp_path).list_checkpoints()]
    ]
