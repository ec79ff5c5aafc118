"""Batches made ahead by processes: the same numbers, one line for an error, and nobody left behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from made_files import image_bytes

from harness.corpora.labelled_images import AugmentedImages
from harness.encoders.vision import Augmentation
from harness.errors import UserError
from harness.fetching.archives import write_parquet
from harness.toy.corpora import ToyImages
from harness.training import streams
from harness.training.batching import Order
from harness.training.streams import MediaInputs, Prefetcher, count_free_workers


def jpegs(count: int) -> list[bytes]:
    draws = (np.random.default_rng(number) for number in range(count))
    return [image_bytes(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8), "JPEG") for rng in draws]


def source(items: list[bytes], size: int = 24) -> MediaInputs:
    media = AugmentedImages(items, np.arange(len(items)), Augmentation(size))
    return MediaInputs(media, Order(len(items), 4, 0, "toy", "images"), seed=0)


def test_batches_are_bit_for_bit_those_of_no_worker_from_any_step() -> None:
    made, state = source(jpegs(10)), torch.get_rng_state()
    plain = [made.make_inputs(step)["pixels"] for step in range(9)]
    assert not torch.equal(plain[0][:2], plain[3][:2])
    ahead = Prefetcher(made, 9, 2)
    for step in (0, 1, 7, 2, 3):
        assert torch.equal(ahead.take(step)["pixels"], plain[step]), step
    ahead.close()
    assert torch.equal(torch.get_rng_state(), state), "the global generator is not drawn from"


def test_the_number_of_threads_changes_no_bit() -> None:
    made, before = source(jpegs(4), size=224), torch.get_num_threads()
    try:
        batches = []
        for threads in (1, 4):
            torch.set_num_threads(threads)
            batches.append(made.make_inputs(0)["pixels"])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*batches)


def test_the_time_that_steps_wait_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 3.0, 10.0, 14.0])
    monkeypatch.setattr(streams.time, "perf_counter", lambda: next(clock))
    ahead = Prefetcher(source(jpegs(4)), 3, 0)
    for step in range(2):
        ahead.take(step)
    assert ahead.waited == 7.0


def test_an_error_in_a_worker_is_the_same_one_line() -> None:
    made = source([*jpegs(3), b"no image"])
    for workers in (0, 1):
        ahead = Prefetcher(made, 1, workers)
        with pytest.raises(UserError, match=r"^the labelled image number 4 cannot be decoded"):
            ahead.take(0)
        ahead.close()


#: a user's script, which has no guard against being imported by the workers
SCRIPT = """
import os, signal, sys
from pathlib import Path
import torch
from harness.corpora.labelled_images import LabelledImages
from harness.training.batching import Order
from harness.training.streams import Prefetcher, MediaInputs

def children(pid):
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}

def servers_and_workers():
    servers = {pid for pid in children(os.getpid()) if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()}
    return servers, {worker for server in servers for worker in children(server)}

print("started", flush=True)
media = LabelledImages("images.parquet", "", size=224).load(Path(sys.argv[1]))
ahead = Prefetcher(MediaInputs(media, Order(len(media), 4, 0, "toy", "images"), 0), 10**6, 2)
ahead.take(0)
servers, workers = servers_and_workers()
assert (len(servers), len(workers)) == (1, 2)
for pid in servers | workers:  # a batch system sends them to every process of a job
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        os.kill(pid, number)
for step in range(1, 8):
    assert len(ahead.take(step)["labels"]) == 4
ahead.close()
assert servers_and_workers() == (servers, set())
ahead.take(0)
print(*children(os.getpid()), *servers_and_workers()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see processes")
def test_workers_outlive_signals_but_neither_their_stream_nor_their_run(tmp_path: Path) -> None:
    write_parquet(tmp_path / "images.parquet", {"jpeg": jpegs(8), "label": list(range(8))})
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, str(tmp_path / "script.py"), str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "started\n"
        line = run.stdout.readline()
        pids = [int(pid) for pid in line.split()]
        assert len(pids) == 2 + 2, (
            f"the server, the tracker of its resources, and two workers: {line}"
        )
        ends = [os.pidfd_open(pid) for pid in pids]
        run.kill()
    for end in ends:
        assert select.select([end], [], [], 60)[0], "it has ended"
        os.close(end)


def test_workers_are_used_where_decoding_is_work_and_cores_are_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files, toys = AugmentedImages([], np.arange(0), Augmentation(8)), ToyImages(size=4).load(None)
    monkeypatch.setattr(streams.os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    monkeypatch.setattr(streams.torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(streams, "SHARED", (Path("/"), 0))
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert [
        count_free_workers(media, where) for media in (files, toys) for where in (cpu, cuda)
    ] == [
        2,
        5,
        0,
        0,
    ]
    monkeypatch.setattr(streams.torch, "get_num_threads", lambda: 6)
    assert count_free_workers(files, cpu) == 0
    for folder, least in ((Path("/"), 2**70), (Path("/nowhere"), 1)):
        monkeypatch.setattr(streams, "SHARED", (folder, least))
        assert count_free_workers(files, cuda) == 0 or (
            folder.name == "nowhere" and sys.platform != "linux"
        )
