"""Batches of media made ahead of their steps by worker processes.

A batch is a function of its step, so it is the same whoever makes it: with no worker, one or more, and after
a resume at any step.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from harness.corpora.base import Media
from harness.errors import UserError
from harness.seeds import generator
from harness.training.batching import Order

#: no step waits for more workers than these on any machine that was tried
MOST = 8
#: seconds between two looks of a worker at its parent
PATIENCE_S = 0.5
#: what must be free where workers leave their batches, in bytes: 48 images at 224 are 14 MB, and two a worker wait
SHARED = Path("/dev/shm"), 512 * 2**20


@dataclass(frozen=True)
class MediaInputs(Dataset[dict[str, Tensor] | str]):
    """The inputs of a stream's batch by the number of its step."""

    media: Media
    order: Order
    seed: int

    def inputs(self, step: int) -> dict[str, Tensor]:
        """The inputs. Raises UserError for an item that cannot be read."""
        rng = generator(axis="augmentation", seed=self.seed, stream=self.order.stream, step=step)
        return self.media.batch(self.order.batch(step), rng)

    def __getitem__(self, step: int) -> dict[str, Tensor] | str:
        """In a worker: the inputs, or the text of a UserError, to which a loader would add its traceback."""
        try:
            return self.inputs(step)
        except UserError as error:
            return str(error)


class Ahead:
    """The inputs of one stream step by step, made in `workers` processes or, without any, when they are asked for."""

    def __init__(self, source: MediaInputs, steps: int, workers: int) -> None:
        self.source, self.steps, self.workers = source, steps, workers
        self._next = 0
        self._made: Iterator[dict[str, Tensor] | str] | None = None

    def of(self, step: int) -> dict[str, Tensor]:
        """The inputs of a step; workers go on with the steps after it. Raises UserError."""
        if not self.workers:
            return self.source.inputs(step)
        if self._made is None or step != self._next:
            self._made = iter(self._loader(step))
        found, self._next = next(self._made), step + 1
        if isinstance(found, str):
            raise UserError(found)
        return found

    def close(self) -> None:
        """End the workers."""
        self._made = None

    def _loader(self, first: int) -> DataLoader[dict[str, Tensor] | str]:
        return DataLoader(
            self.source,
            batch_size=None,
            sampler=range(first, self.steps),
            num_workers=self.workers,
            worker_init_fn=_end_with_parent,
            # a loader draws a seed, which must not be one of the run's
            generator=torch.Generator(),
        )


def free_workers(media: Media, device: torch.device) -> int:
    """Worker processes for a stream: none where a batch is little work or no core is free.

    A run that is itself one of several processes (`--jobs`) has none: its neighbours have the cores.
    """
    if not media.costly or multiprocessing.current_process().daemon or not _room():
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    taken = torch.get_num_threads() if device.type == "cpu" else 1
    return max(0, min(MOST, cores - taken))


def _room() -> bool:
    place, least = SHARED
    if not place.is_dir():
        return True
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize >= least


def _end_with_parent(worker: int) -> None:
    """Watch for the parent's death, of which a killed parent tells nobody."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PATIENCE_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
