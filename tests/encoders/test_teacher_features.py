"""Features on disk: resumed, mapped, checked, gathered from several arrays; and rows of different
lengths.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.encoders import features
from harness.encoders.features import Ragged, Stacked, load_cached_features, load_cached_ragged
from harness.errors import UserError
from harness.events import Event, listen_in

ROWS, CHUNK = 10, 4
#: a process that computes these features and may kill itself at its nth durable step
PROCESS = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
from harness.encoders.features import load_cached_features

log, deadly, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
steps = 0

def deadly_step(real):
    def step(*args, **folders):
        global steps
        steps += 1
        if steps == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **folders)
    return step

os.fsync, os.replace = deadly_step(os.fsync), deadly_step(os.replace)

def compute(start, stop):
    with log.open("a") as stream:
        stream.write(f"{start} {stop}\\n")
    time.sleep(pause)
    return np.arange(start * 3, stop * 3, dtype=np.float32).reshape(-1, 3)

features = load_cached_features("key", 10, compute, chunk=4)
assert (features == np.arange(30).reshape(10, 3)).all()
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


class Computed:
    """Row i holds 3i, 3i + 1 and 3i + 2; remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, start: int, stop: int) -> np.ndarray:
        self.calls.append((start, stop))
        return np.arange(start * 3, stop * 3, dtype=np.float32).reshape(-1, 3)


EXPECTED = np.arange(30, dtype=np.float32).reshape(10, 3)


def process(log: Path, deadly: int = 0, pause: float = 0) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROCESS, str(log), str(deadly), str(pause)])


def test_features_are_computed_once_in_chunks_and_mapped_read_only() -> None:
    compute, told = Computed(), list[Event]()
    with listen_in("", told.append):
        first = load_cached_features("key", ROWS, compute, chunk=CHUNK)
    assert compute.calls == [(0, 4), (4, 8), (8, 10)]
    assert [(event.stage.done, event.stage.total) for event in told if event.stage] == [
        (0, 10),
        (4, 10),
        (8, 10),
        (10, 10),
    ]
    second = load_cached_features("key", ROWS, compute, chunk=CHUNK)
    assert len(compute.calls) == 3
    for array in (first, second):
        np.testing.assert_array_equal(array, EXPECTED)
        assert isinstance(array, np.memmap)
        assert array.dtype == np.float32
        assert not array.flags.writeable


@pytest.mark.parametrize("step", [1, 3, 5, 6, 12, 17, 18, 19, 21, 23])
def test_a_kill_at_any_step_loses_at_most_one_chunk(step: int, tmp_path: Path, cache: Path) -> None:
    """Six steps a chunk: its rows and its note are flushed, named, and the name flushed; then six
    for the file.
    """
    killed = process(tmp_path / "log", deadly=step)
    assert killed.wait() == -signal.SIGKILL
    compute = Computed()
    np.testing.assert_array_equal(load_cached_features("key", ROWS, compute, chunk=CHUNK), EXPECTED)
    safe = min(step // 6, 3)
    assert compute.calls == [(0, 4), (4, 8), (8, 10)][safe:]
    assert {path.suffix for path in cache.glob("[!.]*")} == {".npy", ".json", ".lock"}


def test_of_two_processes_one_computes_and_one_waits(tmp_path: Path) -> None:
    both = [process(tmp_path / "log", pause=0.2) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    assert (tmp_path / "log").read_text().splitlines() == ["0 4", "4 8", "8 10"]


Harm = Callable[[bytes], bytes]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def interrupted() -> None:
    """Compute one chunk and fail in the second."""

    def compute(start: int, stop: int) -> np.ndarray:
        if start:
            raise RuntimeError("no")
        return EXPECTED[start:stop]

    with pytest.raises(RuntimeError, match="no"):
        load_cached_features("key", ROWS, compute, chunk=CHUNK)


@pytest.mark.parametrize(
    "harm", [lambda data: data[:-4], flipped, lambda data: b""], ids=["cut", "flipped", "emptied"]
)
@pytest.mark.parametrize(
    "made",
    [interrupted, lambda: load_cached_features("key", ROWS, Computed())],
    ids=["part", "whole"],
)
def test_a_damaged_file_is_computed_again(
    made: Callable[[], Any], harm: Harm, cache: Path, caplog
) -> None:
    made()
    (path,) = (*cache.glob("*.npy"), *cache.glob("*.parts/*.bin"))
    path.write_bytes(harm(path.read_bytes()))
    compute = Computed()
    for _ in range(2):
        np.testing.assert_array_equal(
            load_cached_features("key", ROWS, compute, chunk=CHUNK), EXPECTED
        )
    assert compute.calls == [(0, 4), (4, 8), (8, 10)]
    assert "damaged" in caplog.text


def test_parts_of_other_keys_types_and_counts_are_not_mixed_in() -> None:
    interrupted()
    for key, rows, dtype in (
        ("other", 10, "float32"),
        ("key", 9, "float32"),
        ("key", 10, "float16"),
    ):
        compute = Computed()
        np.testing.assert_array_equal(
            load_cached_features(key, rows, compute, dtype=dtype), EXPECTED[:rows]
        )
        assert compute.calls == [(0, rows)]
    with pytest.raises(UserError, match=r"shapes \(2,\) and \(3,\), some from before"):
        load_cached_features(
            "key", ROWS, lambda start, stop: np.zeros((stop - start, 2)), chunk=CHUNK
        )


@pytest.mark.parametrize(
    ("value", "dtype"), [(np.nan, "float32"), (-np.inf, "float32"), (1e6, "float16")]
)
def test_features_that_are_not_finite_are_refused_by_row(
    value: float, dtype: str, cache: Path
) -> None:
    values = EXPECTED.copy()
    values[[5, 7], 1] = value
    with pytest.raises(UserError, match=f"the rows 5, 7 are not finite numbers in {dtype}"):
        load_cached_features(
            "key", ROWS, lambda start, stop: values[start:stop], dtype=dtype, chunk=CHUNK
        )
    assert not list(cache.glob("*.npy"))


def test_a_computation_that_gives_other_rows_is_a_bug() -> None:
    with pytest.raises(ValueError, match="3 features computed"):
        load_cached_features("key", ROWS, lambda start, stop: EXPECTED[:3])
    with pytest.raises(ValueError, match="need rows"):
        load_cached_features("key", 0, Computed())


@pytest.mark.skipif(
    not Path("/proc/self/statm").is_file(), reason="resident memory is read from /proc"
)
def test_gathering_rows_of_a_large_file_needs_no_memory() -> None:
    def compute(start: int, stop: int) -> np.ndarray:
        return np.repeat(np.arange(start, stop, dtype=np.float32)[:, None], 768, axis=1)

    def resident() -> float:
        return (
            int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
        )

    rows = np.random.default_rng(0).integers(0, 82783, 64)
    load_cached_features("large", 82783, compute)
    before = resident()
    features = Stacked([load_cached_features("large", 82783, compute)])
    gathered = features[rows]
    assert resident() - before < 50
    np.testing.assert_array_equal(gathered, np.repeat(rows[:, None], 768, axis=1))


def mapped(values: np.ndarray) -> np.ndarray:
    kept = load_cached_features(
        str(len(values)),
        len(values),
        lambda start, stop: values[start:stop],
        dtype="float16",
        chunk=2,
    )
    assert kept.dtype == np.float16
    return kept


@pytest.mark.parametrize("shape", [(4,), (2, 4), ()])
@pytest.mark.parametrize("shuffled", [False, True])
def test_stacked_rows_are_those_of_the_arrays_put_together(
    shape: tuple[int, ...], shuffled: bool
) -> None:
    random = np.random.default_rng(0)
    parts = [random.normal(size=(size, *shape)).astype(np.float16) for size in (5, 0, 1, 4, 5)]
    parts[2:] = [parts[2], mapped(parts[3]), mapped(np.concatenate([parts[0][:2], parts[4]]))[2:]]
    together, stacked = np.concatenate(parts).astype(np.float32), Stacked(parts)
    if shuffled:
        # twice, the second time on top of the first
        for order in (random.permutation(15), random.integers(0, 15, 15)):
            together, stacked = together[order], stacked.take(order)
    assert (len(stacked), stacked.shape, stacked.dtype) == (15, together.shape, together.dtype)
    for rows in (
        random.integers(0, 15, 40),
        np.array([14]),
        np.array([], dtype=np.int64),
        np.arange(15),
    ):
        gathered = stacked[rows]
        np.testing.assert_array_equal(gathered, together[rows])
        assert gathered.dtype == np.float32


def test_stacked_refuses_other_shapes_and_rows() -> None:
    with pytest.raises(UserError, match=r"different shapes: \(2,\), \(3,\)"):
        Stacked([np.ones((5, 2)), np.ones((4, 3))])
    for rows in ([-1], [5]):
        with pytest.raises(IndexError, match="0 to 4"):
            Stacked([np.ones((5, 2))])[np.array(rows)]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "CHUNK", 10)


class Lengths:
    """Row i has i mod 7 places of width 3; remembers what it was asked for, and may fail at a row."""

    def __init__(self, deadly: int | None = None) -> None:
        self.asked: list[int] = []
        self.deadly = deadly

    def __call__(self, number: int) -> np.ndarray:
        if number == self.deadly:
            raise KeyboardInterrupt
        self.asked.append(number)
        return (np.arange(number % 7 * 3).reshape(-1, 3) + number).astype(np.float32)


def check(ragged: Ragged, rows: int) -> None:
    assert len(ragged) == rows
    for number in range(rows):
        np.testing.assert_array_equal(ragged[number], Lengths()(number))
        assert ragged[number].dtype == np.float32


def test_rows_come_back_with_their_own_lengths_and_are_computed_once() -> None:
    compute = Lengths()
    for _ in range(2):
        check(load_cached_ragged("key", 37, 3, compute), 37)
    assert sorted(compute.asked) == list(range(37))
    load_cached_ragged("another", 37, 3, compute)
    assert len(compute.asked) == 74


def test_a_killed_computation_goes_on_at_its_last_whole_chunk() -> None:
    with pytest.raises(KeyboardInterrupt):
        load_cached_ragged("key", 37, 3, Lengths(deadly=25))
    compute = Lengths()
    check(load_cached_ragged("key", 37, 3, compute), 37)
    assert sorted(compute.asked) == list(range(20, 37))


def test_a_damaged_file_of_rows_is_computed_again_and_one_cut_short_meanwhile_is_named(
    cache: Path,
) -> None:
    load_cached_ragged("key", 37, 3, Lengths())
    (file,) = cache.parent.glob("ragged/*.bin")
    file.write_bytes(file.read_bytes()[::-1])
    ragged = load_cached_ragged("key", 37, 3, Lengths())
    check(ragged, 37)
    file.write_bytes(file.read_bytes()[:8])
    with pytest.raises(UserError, match=r"\.bin is truncated"):
        ragged[18]
