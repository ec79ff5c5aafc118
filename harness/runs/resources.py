"""Resources that a job needs, and those it gets. Neither is part of a fingerprint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.processors import asked_threads, cores

Device = Literal["cpu", "cuda"]
DeviceChoice = Literal["auto", "cpu", "cuda"]
#: Runs in parallel: a number, or as many as fit.
Jobs = int | Literal["auto"]


@dataclass(frozen=True)
class Resources:
    """What one job needs: processor cores, memory in MB, and memory of one GPU in MB (0: it uses no GPU).

    The cores are those for a GPU run with its loader workers; a run on the CPU can use more.
    """

    cpus: int = 1
    memory_mb: int = 2_000
    gpu_memory_mb: int = 0

    def gpus(self, card_mb: float) -> float:
        """The fraction of a GPU of `card_mb` MB, at most 1."""
        return min(1.0, self.gpu_memory_mb / card_mb)


@dataclass(frozen=True)
class Allocation:
    """What a job may use in the process that performs it.

    `cpus` are cores for its threads and its helper processes together. `gpu_share` is the fraction of its GPU's
    memory, 1 where it has the GPU alone.
    """

    device: DeviceChoice = "auto"
    cpus: int = 1
    gpu_share: float = 1.0

    @classmethod
    def equal(cls, device: DeviceChoice, jobs: int) -> Allocation:
        """An equal share of this machine's cores for each of `jobs` jobs at a time."""
        return cls(device, max(1, cores() // jobs))

    @property
    def threads(self) -> int:
        """Threads of tensor operations: OMP_NUM_THREADS where it is set, else one a core.

        Sums of floating-point numbers depend on the number of threads in their last bits.
        """
        return asked_threads() or self.cpus
