"""The cache of teacher features."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.encoders.features import cached_features
from harness.encoders.teachers import ImageTeacher
from harness.errors import UserError
from harness.sources import cache_folder


@pytest.fixture
def computed() -> tuple[list[int], Callable[[], np.ndarray]]:
    calls: list[int] = []

    def compute() -> np.ndarray:
        calls.append(1)
        return np.arange(12, dtype=np.float32).reshape(3, 4)

    return calls, compute


def test_features_are_computed_once_and_mapped(computed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    calls, compute = computed
    first, second = cached_features("key", compute), cached_features("key", compute)
    np.testing.assert_array_equal(first, second)
    assert isinstance(second, np.memmap)
    assert len(calls) == 1
    cached_features("another key", compute)
    assert len(calls) == 2


@pytest.mark.parametrize("harm", [lambda data: data[:-4], lambda data: data[:-1] + b"\x7f", lambda data: b""])
def test_damaged_features_are_computed_again(computed, tmp_path: Path, monkeypatch, caplog, harm) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    calls, compute = computed
    cached_features("key", compute)
    (path,) = cache_folder().rglob("*.npy")
    path.write_bytes(harm(path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(cached_features("key", compute), compute())
    assert "damaged" in caplog.text
    assert len(calls) == 3


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match="no"):
        cached_features("key", lambda: (_ for _ in ()).throw(RuntimeError("no")))
    assert not list(tmp_path.rglob("*.npy"))


def test_a_folder_that_is_no_teacher_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="teacher folder") as refusal:
        ImageTeacher(tmp_path)
    assert "\n" not in str(refusal.value)
