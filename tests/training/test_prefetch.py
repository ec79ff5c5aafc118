"""Batches made ahead by processes: the same numbers, one line for an error, and nobody left behind."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image

from harness.corpora.labelled_images import EncodedImages, LabelledImages
from harness.corpora.toy.media import ToyImages
from harness.encoders.vision import Augmentation
from harness.errors import UserError
from harness.training import prefetch
from harness.training.batching import Order
from harness.training.prefetch import MediaInputs, Prefetcher, free_workers


def jpegs(count: int) -> list[bytes]:
    found = []
    for number in range(count):
        stream = io.BytesIO()
        pixels = np.random.default_rng(number).integers(0, 256, (48, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(stream, "JPEG")
        found.append(stream.getvalue())
    return found


def source(items: list[bytes], size: int = 24) -> MediaInputs:
    media = EncodedImages(items, np.arange(len(items)), Augmentation(size))
    return MediaInputs(media, Order(len(items), 4, 0, "toy", "images"), seed=0)


class SlowImages(EncodedImages):
    """Images that take time, wherever they are decoded."""

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        time.sleep(0.2)
        return super().batch(rows, rng)


def children(pid: int) -> set[int]:
    """The processes that a process has started."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def servers_and_workers() -> tuple[set[int], set[int]]:
    """The processes from which workers come, and the workers."""
    servers = {pid for pid in children(os.getpid()) if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()}
    return servers, {worker for server in servers for worker in children(server)}


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see processes")


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_are_bit_for_bit_those_of_no_worker_from_any_step(workers: int) -> None:
    made = source(jpegs(10))
    plain = [made.inputs(step)["pixels"] for step in range(9)]
    assert not torch.equal(plain[0][:2], plain[3][:2])
    for first in (0, 5):
        ahead = Prefetcher(made, 9, workers)
        for step in range(first, 9):
            assert torch.equal(ahead.of(step)["pixels"], plain[step]), step
        ahead.close()
    jumping = Prefetcher(made, 9, workers)
    for step in (7, 2, 3):
        assert torch.equal(jumping.of(step)["pixels"], plain[step])
    jumping.close()


def test_the_number_of_threads_changes_no_bit() -> None:
    made, before = source(jpegs(4), size=224), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 4):
            torch.set_num_threads(threads)
            found.append(made.inputs(0)["pixels"])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_time_that_steps_wait_is_counted(workers: int) -> None:
    """Made in the step it is the whole time of making; made ahead, what a slow worker is late."""
    made = source(jpegs(4))
    slow = replace(made, media=SlowImages(jpegs(4), np.arange(4), Augmentation(24)))
    ahead = Prefetcher(slow, 3, workers)
    for step in range(2):
        ahead.of(step)
    ahead.close()
    assert ahead.waited > 0.2


def test_workers_leave_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    ahead = Prefetcher(source(jpegs(4)), 2, 1)
    ahead.of(0)
    assert torch.equal(torch.rand(3), expected)
    ahead.close()


def test_an_error_in_a_worker_is_the_same_one_line() -> None:
    made = source([*jpegs(3), b"no image"])
    with pytest.raises(UserError) as plain:
        Prefetcher(made, 1, 0).of(0)
    ahead = Prefetcher(made, 1, 1)
    with pytest.raises(UserError) as found:
        ahead.of(0)
    ahead.close()
    assert str(found.value) == str(plain.value)
    assert "the labelled image number 4 cannot be decoded" in str(plain.value)


SIGNALS = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from test_prefetch import Prefetcher, jpegs, servers_and_workers, source
ahead = Prefetcher(source(jpegs(4)), 50, 2)
for step in range(2):
    ahead.of(step)
servers, workers = servers_and_workers()
assert (len(servers), len(workers)) == (1, 2)
for pid in servers | workers:  # a batch system sends them to every process of a job
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        os.kill(pid, number)
for step in range(2, 8):
    assert len(ahead.of(step)["labels"]) == 4
ahead.close()
assert servers_and_workers() == (servers, set())
"""


def python(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own: this one may have a fork server that another test started."""
    words = [sys.executable, "-c", script.format(tests=str(Path(__file__).parent))]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@needs_proc
def test_closing_ends_the_workers_and_signals_do_not() -> None:
    done = python(SIGNALS)
    assert done.returncode == 0, done.stderr


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from test_prefetch import Prefetcher, jpegs, source
ahead = Prefetcher(source(jpegs(4)), 2, 1)
print(len(ahead.of(0)["labels"]))
ahead.close()
"""


def test_workers_do_not_run_the_users_script_again(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("4\n", 0), done.stderr


ORPHANS = """
import sys, time
from pathlib import Path
import torch
from harness.corpora.labelled_images import LabelledImages
from harness.training.batching import Order
from harness.training.prefetch import Prefetcher, MediaInputs
torch.set_num_threads(1)
media = LabelledImages("images.parquet", "", size=224).load(Path(sys.argv[1]))
ahead = Prefetcher(MediaInputs(media, Order(len(media), 4, 0, "toy", "images"), 0), 10**6, 2)
ahead.of(0)
pid = Path("/proc/self").resolve().name
children = Path(f"/proc/self/task/{pid}/children").read_text().split()
workers = [worker for child in children for worker in Path(f"/proc/{child}/task/{child}/children").read_text().split()]
print(*children, *workers, flush=True)
time.sleep(60)
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@needs_proc
def test_workers_of_a_killed_run_end(tmp_path: Path) -> None:
    parquet.write_table(arrow.table({"jpeg": jpegs(8), "label": list(range(8))}), tmp_path / "images.parquet")
    run = subprocess.Popen([sys.executable, "-c", ORPHANS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pids = [int(pid) for pid in run.stdout.readline().split()]
    assert len(pids) == 2 + 2, "the server, the tracker of its resources, and two workers"
    assert all(map(alive, pids))
    run.send_signal(signal.SIGKILL)
    run.wait()
    limit = time.monotonic() + 60
    while any(map(alive, pids)) and time.monotonic() < limit:
        time.sleep(0.1)
    assert not any(map(alive, pids))


def test_workers_are_used_where_decoding_is_work_and_cores_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    files, toys = EncodedImages([], np.arange(0), Augmentation(8)), ToyImages(size=4).load(None)
    monkeypatch.setattr(prefetch.os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    monkeypatch.setattr(prefetch.torch, "get_num_threads", lambda: 4)
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert [free_workers(media, where) for media in (files, toys) for where in (cpu, cuda)] == [2, 5, 0, 0]
    monkeypatch.setattr(prefetch.torch, "get_num_threads", lambda: 6)
    assert free_workers(files, cpu) == 0
    monkeypatch.setattr(prefetch, "SHARED", (Path("/"), 2**70))
    assert free_workers(files, cuda) == 0


def test_real_images_come_the_same_through_a_worker(data_root: Path) -> None:
    media = LabelledImages("images_cls/cifar10_test.parquet", "", size=32, per_class=3).load(data_root)
    made = MediaInputs(media, Order(len(media), 16, 0, "cifar10", "images"), 1)
    ahead = Prefetcher(made, 4, 1)
    for step in range(4):
        assert torch.equal(ahead.of(step)["pixels"], made.inputs(step)["pixels"])
    ahead.close()
