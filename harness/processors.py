"""Processor cores of this process, and how OpenMP threads use them."""

from __future__ import annotations

import os


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_per_run(jobs: int) -> int:
    """Threads of each of `jobs` runs at a time: OMP_NUM_THREADS where it is set, else an equal share of the cores.

    Sums of floating-point numbers depend on the number of threads in their last bits.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else max(1, cores() // jobs)


def passive_threads() -> None:
    """Let waiting OpenMP threads sleep instead of spin, unless OMP_WAIT_POLICY is set.

    Spinning makes small models many times slower on a machine that other processes keep busy. OpenMP reads the
    variable when torch is imported: call this before, or before starting a process that imports torch.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
