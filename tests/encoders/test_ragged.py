"""Arrays of different lengths on disk: computed once, resumed, read row by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.encoders import features
from harness.encoders.features import Ragged, cached_ragged
from harness.errors import UserError


def row(number: int) -> np.ndarray:
    """Length number mod 7 (none among them), width 3."""
    return (np.arange(number % 7 * 3).reshape(-1, 3) + number).astype(np.float32)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(features, "CHUNK", 10)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))


def check(found: Ragged, rows: int) -> None:
    assert len(found) == rows
    for number in range(rows):
        np.testing.assert_array_equal(found[number], row(number))
        assert found[number].dtype == np.float32


def test_rows_come_back_with_their_own_lengths_and_are_computed_once() -> None:
    asked: list[int] = []

    def compute(number: int) -> np.ndarray:
        asked.append(number)
        return row(number)

    for _ in range(2):
        check(cached_ragged("key", 37, 3, compute), 37)
    assert sorted(asked) == list(range(37))
    cached_ragged("another", 37, 3, compute)
    assert len(asked) == 74


def test_a_killed_computation_goes_on_at_its_last_whole_chunk() -> None:
    asked: list[int] = []

    def dies(number: int) -> np.ndarray:
        if number == 25:
            raise KeyboardInterrupt
        return row(number)

    def goes_on(number: int) -> np.ndarray:
        asked.append(number)
        return row(number)

    with pytest.raises(KeyboardInterrupt):
        cached_ragged("key", 37, 3, dies)
    check(cached_ragged("key", 37, 3, goes_on), 37)
    assert sorted(asked) == list(range(20, 37))


def test_a_damaged_chunk_is_computed_again_and_one_cut_short_meanwhile_is_named(tmp_path: Path) -> None:
    cached_ragged("key", 37, 3, row)
    (chunk,) = tmp_path.glob("ragged/*/000001.bin")
    chunk.write_bytes(chunk.read_bytes()[::-1])
    found = cached_ragged("key", 37, 3, row)
    check(found, 37)
    chunk.write_bytes(chunk.read_bytes()[:8])
    with pytest.raises(UserError, match=r"000001\.bin is truncated"):
        found[18]
