"""Settings of this process and those it starts: cores, OpenMP threads, freed memory, import path,
end with a parent.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import ModuleType

#: Linux's description of the processor, and the names of bfloat16 instructions of x86 and Arm in it
INFO = Path("/proc/cpuinfo")
BF16 = {"avx512_bf16", "amx_bf16", "bf16"}
#: Linux's priority for killing this process when memory runs out, -1000 to 1000.
OOM_SCORE = Path("/proc/self/oom_score_adj")
#: Linux's control groups, the file that names those of this process, and counters of the whole
#: machine
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
COUNTERS = Path("/proc/vmstat")
#: Seconds between checks of the parent, if the kernel does not watch it.
PARENT_CHECK_S = 0.5
#: M_TRIM_THRESHOLD and M_MMAP_MAX of glibc's mallopt(3), with values that make malloc keep all
#: memory
_KEEP = ((-1, -1), (-4, 0))
#: PR_SET_PDEATHSIG of Linux's prctl(2)
_DEATH_SIGNAL = 1
#: the variable by which Python leaves the working folder out of its import path
SAFE_PATH = "PYTHONSAFEPATH"

#: the number of cores that this thread's job may use, if it shares the machine
_share: ContextVar[int | None] = ContextVar("cores of this job", default=None)


def count_cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def use_cores(count: int) -> Iterator[None]:
    """Limit this thread's job with its helpers (loader workers, tokenising) to a share of the
    cores.
    """
    before = _share.set(count)
    # read by fast tokenizers when they first start threads
    os.environ.setdefault("RAYON_NUM_THREADS", str(count))
    try:
        yield
    finally:
        _share.reset(before)


def count_own_cores() -> int:
    """The share of the cores that this thread's job with its helpers may use; all of them by
    default.
    """
    return _share.get() or count_cores()


def read_thread_limit() -> int | None:
    """The number of threads that OMP_NUM_THREADS asks for, if it does."""
    text = os.environ.get("OMP_NUM_THREADS", "")
    threads = int(text) if text.isdigit() else 0
    return threads or None


def make_threads_passive() -> None:
    """Let waiting OpenMP threads sleep instead of spin, unless OMP_WAIT_POLICY is set.

    Spinning makes small models many times slower on a machine that other processes keep busy.
    OpenMP reads the variable when torch is imported: call this before, or before starting a process
    that imports torch.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def measure_peak_memory_mb(device: str) -> float:
    """Largest resident memory of this process so far in MB; on CUDA the largest allocated memory."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def keep_freed_memory() -> None:
    """Let this process reuse the memory that it frees, if the C library is glibc.

    By default glibc returns large tensors to the system after each step of a training, and the
    system clears their pages for the next one: up to a quarter of a run's time. The process keeps
    its peak memory instead.
    """
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        for option, value in _KEEP:
            ctypes.CDLL(None).mallopt(option, value)


@contextmanager
def start_with_safe_path() -> Iterator[None]:
    """Start Python processes that import nothing from the working folder, where any file could
    shadow a module.

    Processes started in the block inherit SAFE_PATH and a `sys.path` without the entries that
    Python or IPython makes of the working folder. Paths of PYTHONPATH stay.
    """
    had_variable = SAFE_PATH in os.environ
    path_before = list(sys.path)
    os.environ[SAFE_PATH] = "1"

    if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
        del sys.path[0]
    sys.path[:] = filter(None, sys.path)
    try:
        yield
    finally:
        sys.path[:] = path_before
        if not had_variable:
            del os.environ[SAFE_PATH]


@contextmanager
def start_without_script() -> Iterator[None]:
    """Start Python processes that do not import the user's script, which may have no `if __name__
    == "__main__"`.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def end_with_parent(parent: int) -> None:
    """Kill this process as soon as `parent`, the process that started it, has ended, even by
    SIGKILL.

    On Linux the kernel does so at once, when the thread that started this process ends; elsewhere a
    thread looks.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    else:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def ask_to_be_killed_first() -> None:
    """When memory runs out, let Linux kill this worker, not the driver."""
    with suppress(OSError):
        OOM_SCORE.write_text("1000")


def list_memory_groups() -> list[Path]:
    """The control group that limits the memory of this process, and those that contain it; version
    2 or 1.
    """
    if not OWN_GROUPS.is_file():
        return []

    groups = list[Path]()
    for line in OWN_GROUPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        # version 2 has one tree for all controllers, without a name
        if controllers not in ("", "memory"):
            continue

        mount = GROUPS / controllers
        inner = mount / path.lstrip("/")
        groups += [group for group in (inner, *inner.parents) if group.is_relative_to(mount)]
    return groups


def count_memory_kills() -> int:
    """How many processes of this control group, or else of this machine, Linux has killed for lack
    of memory.
    """
    counters = []
    for group in list_memory_groups():
        counters += [group / "memory.events", group / "memory.oom_control"]
    for path in (*counters, COUNTERS):
        with suppress(OSError):
            count = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
            if count:
                return int(count[1])
    return 0


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(1)


@cache
def has_bf16() -> bool:
    """Whether the processor has bfloat16 products; true if its features are unknown."""
    if not INFO.is_file():
        return True

    for line in INFO.read_text().splitlines():
        # the first of many processors, which are alike
        if line.startswith(("flags", "Features")):
            features = set(line.partition(":")[2].split())
            return not features or bool(features & BF16)
    return True
