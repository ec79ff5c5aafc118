"""Checkpoints and model folders are complete or absent, and damaged ones stop nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from harness.checksums import DamagedError
from harness.training.checkpoint import checkpoints, load_checkpoint, replace_folder, save_checkpoint

CPU = torch.device("cpu")


def test_a_checkpoint_is_read_back_and_the_one_before_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert checkpoints(folder) == []
    for step in (3, 9, 10):
        save_checkpoint(folder, {"step": step, "student": {"w": torch.arange(step)}})
    assert sorted(path.name.split("-")[1] for path in folder.iterdir()) == ["10", "9"]
    for step, path in zip((10, 9), checkpoints(folder), strict=True):
        state = load_checkpoint(path, CPU)
        assert state["step"] == step
        assert torch.equal(state["student"]["w"], torch.arange(step))


def test_a_checkpoint_that_is_not_as_it_was_written_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"step": 3, "w": torch.arange(1000)})
    (path,) = checkpoints(tmp_path)
    content = path.read_bytes()
    for number in range(10):
        place = len(content) * number // 10
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(DamagedError, match="its content does not match its name"):
                load_checkpoint(path, CPU)


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
