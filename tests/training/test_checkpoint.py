"""Checkpoints and model folders are complete or absent, and damaged ones stop nothing."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import torch

from harness.training.checkpoint import load_checkpoint, replace_folder, save_checkpoint

CPU = torch.device("cpu")


def test_a_checkpoint_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "checkpoint.pt"
    assert load_checkpoint(path, CPU) is None
    save_checkpoint(path, {"step": 3, "student": {"w": torch.arange(3)}})
    state = load_checkpoint(path, CPU)
    assert state is not None
    assert state["step"] == 3
    assert torch.equal(state["student"]["w"], torch.arange(3))
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize("kept", [0, 40, 200])
def test_a_damaged_checkpoint_is_renamed_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: int
) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"step": 3, "w": torch.arange(1000)})
    path.write_bytes(path.read_bytes()[:kept])
    with caplog.at_level(logging.WARNING):
        assert load_checkpoint(path, CPU) is None
    assert "training restarts" in caplog.text
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.damaged"]


def test_a_folder_that_cannot_be_filled_stays_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "best"
    replace_folder(folder, lambda path: (path / "old").write_text("kept") and None)

    def fail(path: Path) -> None:
        (path / "half").write_text("x")
        raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        replace_folder(folder, fail)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["best", "old"]


def test_files_in_folders_below_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[int] = set()
    real = os.fsync

    def noting(number: int) -> None:
        flushed.add(os.fstat(number).st_ino)
        real(number)

    monkeypatch.setattr(os, "fsync", noting)

    def fill(path: Path) -> None:
        (path / "top").write_text("x")
        (path / "1_Pooling").mkdir()
        (path / "1_Pooling" / "below").write_text("x")

    replace_folder(tmp_path / "best", fill)
    files = [path for path in (tmp_path / "best").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"top", "below"}
    assert flushed == {path.stat().st_ino for path in files}
