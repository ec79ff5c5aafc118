"""Where a run happened: hardware, versions, code revision. Recorded, never part of a fingerprint."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import harness

PACKAGES = (
    "sentence-harness",
    "torch",
    "transformers",
    "tokenizers",
    "open_clip_torch",
    "numpy",
    "scipy",
    "pandas",
    "mteb",
)


def package_versions() -> dict[str, str]:
    """Installed versions of what moves numbers, by package."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def pick_device(asked: str) -> str:
    """'auto' is cuda where there is one, else cpu. Raises UserError for a cuda that is not there."""
    import torch

    from harness.errors import UserError

    available = torch.cuda.is_available()
    if asked == "cuda" and not available:
        raise UserError("--device cuda: torch finds no CUDA device here; use --device cpu, or see `harness doctor`")
    return ("cuda" if available else "cpu") if asked == "auto" else asked


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_a_run(jobs: int) -> int:
    """Threads of each of `jobs` runs at a time: OMP_NUM_THREADS where it is set, else an equal share of the cores.

    Sums of floating-point numbers depend on the number of threads in their last bits.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else max(1, cores() // jobs)


@cache
def processor() -> str:
    """The processor's model name."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def hardware(device: str, threads: int) -> dict[str, Any]:
    """Device, processor, cores and threads of a run."""
    found: dict[str, Any] = {"device": device, "processor": processor(), "cores": cores(), "threads": threads}
    if device == "cuda":
        import torch

        found["accelerator"] = torch.cuda.get_device_name()
    return found


def peak_memory_mb(device: str) -> float:
    """Largest resident memory of this process so far in MB, or on CUDA the largest allocated memory."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


@cache
def revision() -> str | None:
    """The commit of the code, with '+' where the tree has changes; None outside a checkout."""
    folder = Path(harness.__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return None
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return head + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()
