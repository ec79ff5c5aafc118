"""Batches of images or recordings prepared ahead of their steps by worker processes.

A batch is a function of its step, so it is the same with any number of workers and after a resume at any step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from harness.corpora.base import Media
from harness.errors import UserError
from harness.processors import own_cores
from harness.seeds import generator
from harness.training.batching import Order

#: More workers than these were never faster on the machines we measured.
MOST = 8
#: Shared memory for finished batches and the bytes that must be free there: 48 images at 224 x 224 are 14 MB, and
#: each worker keeps two batches.
SHARED = Path("/dev/shm"), 512 * 2**20
#: what a batch system or a terminal sends to stop a run
STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR2}


@dataclass(frozen=True)
class MediaInputs(Dataset[dict[str, Tensor] | str]):
    """The inputs of one stream by step number."""

    media: Media
    order: Order
    seed: int

    def inputs(self, step: int) -> dict[str, Tensor]:
        """Read the inputs of a step and the classes, `labels`. Raises UserError for an unreadable item."""
        rng = generator(axis="augmentation", seed=self.seed, stream=self.order.stream, step=step)
        rows = self.order.batch(step)
        return {"labels": torch.from_numpy(self.media.labels[rows]), **self.media.batch(rows, rng)}

    def __getitem__(self, step: int) -> dict[str, Tensor] | str:
        """Read the inputs in a worker; return a UserError as its text, since a loader would add a traceback to it."""
        try:
            return self.inputs(step)
        except UserError as error:
            return str(error)


class Prefetcher:
    """The inputs of one stream step by step, prepared by `workers` processes; with none, when they are requested."""

    def __init__(self, source: MediaInputs, steps: int, workers: int) -> None:
        self.source, self.steps, self.workers = source, steps, workers
        #: seconds that steps have waited for their inputs
        self.waited = 0.0
        self._next = 0
        self._made: Iterator[dict[str, Tensor] | str] | None = None

    def of(self, step: int) -> dict[str, Tensor]:
        """Return the inputs of a step; workers continue with the steps after it. Raises UserError."""
        clock = time.perf_counter()
        try:
            return self._taken(step)
        finally:
            self.waited += time.perf_counter() - clock

    def _taken(self, step: int) -> dict[str, Tensor]:
        if not self.workers:
            return self.source.inputs(step)
        if self._made is None or step != self._next:
            self._made = _started(self._loader(step))
        found, self._next = next(self._made), step + 1
        if isinstance(found, str):
            raise UserError(found)
        return found

    def close(self) -> None:
        self._made = None

    def _loader(self, first: int) -> DataLoader[dict[str, Tensor] | str]:
        return DataLoader(
            self.source,
            batch_size=None,
            sampler=range(first, self.steps),
            num_workers=self.workers,
            worker_init_fn=_serve,
            # torch has threads here, which a forked process does not survive
            multiprocessing_context="forkserver",
            # a loader draws a seed, which must not come from the run's generator
            generator=torch.Generator(),
        )


def free_workers(media: Media, device: torch.device) -> int:
    """Return the number of workers for a stream: 0 where a batch is little work or none of this run's cores is free."""
    if not media.costly or not _room():
        return 0
    taken = torch.get_num_threads() if device.type == "cpu" else 1
    return max(0, min(MOST, own_cores() - taken))


def _room() -> bool:
    place, least = SHARED
    if not place.is_dir():
        return True
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize >= least


def _started(loader: DataLoader[dict[str, Tensor] | str]) -> Iterator[dict[str, Tensor] | str]:
    """Start a loader's workers, from a server that has imported what they need.

    Signals are for the parent, which stops its workers: a batch system sends them to every process of a job. The
    server and its workers inherit that they are blocked. Nor do they import the user's script, which may have no
    `if __name__ == "__main__"`.
    """
    get_context("forkserver").set_forkserver_preload([__name__])
    resource_tracker.ensure_running()  # the server starts it otherwise, which unblocks signals
    script, blocked = sys.modules["__main__"], signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        ensure_running()
        return iter(loader)
    finally:
        sys.modules["__main__"] = script
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _serve(worker: int) -> None:
    """Let this worker end when the run dies; a killed run cannot stop its workers."""
    threading.Thread(target=_end_with_run, daemon=True).start()


def _end_with_run() -> None:
    run = parent_process()  # not the server, which lives as long as its workers
    if run is not None:
        run.join()
    os._exit(1)
