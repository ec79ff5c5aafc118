"""Device, threads, software and code revision of a run, and the share of a machine that a job is
given.

All of these are recorded, and never part of a fingerprint.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import harness
from harness.code import list_python_files
from harness.command_line import DEFAULT_DEVICE, Names, option
from harness.errors import UserError
from harness.processors import count_cores, keep_freed_memory, read_thread_limit
from harness.registry import GROUPS, read_installed_entries
from harness.sources import digest

if TYPE_CHECKING:
    from harness.events import Listener

Device = Literal["cpu", "cuda"]
DeviceChoice = Literal["auto", "cpu", "cuda"]
#: Runs in parallel: a number, or as many as fit.
Jobs = int | Literal["auto"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How the runs of a plan are executed."""

    jobs: Jobs | None = option(
        None,
        "Runs in parallel (default: 1; GPUs: auto; SLURM: all); auto: as many as cores or GPU memory allow.",
        "N|auto",
    )
    device: DeviceChoice = option(DEFAULT_DEVICE, "Device for training and evaluation.")
    executor: str | None = option(None, "Where runs are executed.", "NAME")
    executor_options: Mapping[str, str] | None = None
    chunk: int | None = option(
        None,
        "Encode a batch N rows at a time: the same gradient with less memory, in about a third more time.",
        "N",
    )
    run_timeout: str | float | None = option(
        None,
        "Time limit of a run or of its preparation, such as 4h; a run that exceeds it has failed.",
        "TIME",
    )
    track: Names = option("", "Also record the runs with trackers, such as wandb.", "A,B")
    progress: bool | Listener = False


@dataclass(frozen=True, eq=False)
class Seat:
    """What a job may use in the process that performs it.

    `cpus` are cores for its threads and its helper processes together. `gpu_share` is the fraction
    of its GPU's memory, 1 where it has the GPU alone. `environment` are variables of its process,
    `card` is the number of its GPU among those of the machine.
    """

    device: DeviceChoice = "auto"
    cpus: int = 1
    gpu_share: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    card: int | None = None

    @classmethod
    def equal(cls, device: DeviceChoice, jobs: int) -> Seat:
        """An equal share of this machine's cores for each of `jobs` jobs at a time."""
        return cls(device, max(1, count_cores() // jobs))

    @property
    def threads(self) -> int:
        """Threads of tensor operations: OMP_NUM_THREADS where it is set, else one a core.

        Sums of floating-point numbers depend on the number of threads in their last bits.
        """
        return read_thread_limit() or self.cpus

    def take(self) -> Seat:
        """The seat with the device decided; this process is then limited to its threads and share
        of the GPU.
        """
        import torch

        device = pick_device(self.device)
        torch.set_num_threads(self.threads)
        keep_freed_memory()
        if device == "cuda":
            if self.gpu_share < 1:
                torch.cuda.set_per_process_memory_fraction(self.gpu_share)
            torch.cuda.reset_peak_memory_stats()  # of this process's previous job
        return replace(self, device=device)

    def hardware(self, chunk: int | None) -> dict[str, str | int]:
        """Device, processor, cores, threads and rows encoded at a time, as results record them."""
        properties: dict[str, str | int] = {
            "device": self.device,
            "processor": read_processor(),
            "cores": count_cores(),
            "threads": self.threads,
        }
        if chunk is not None:
            properties["chunk"] = chunk
        if self.device == "cuda":
            import torch

            properties["accelerator"] = torch.cuda.get_device_name()
        return properties


#: Device files of the drivers of NVIDIA, Jetson, AMD and WSL: without any, torch has no GPU to use
#: on Linux.
GPU_FILES = ("/dev/nvidiactl", "/dev/nvmap", "/dev/kfd", "/dev/dxg")

#: Prefixes of the environment variables that processes on other nodes get from the driver.
SHARED_VARIABLES = ("HARNESS_", "HF_", "OMP_", "MKL_", "TOKENIZERS_")
#: Last words of the names of variables with secrets, which are passed to no other node: batch
#: scripts and the logs of clusters can be read by others.
SECRETS = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIALS")
#: a value with a name or password before its host
_SECRET_ADDRESS = re.compile(r"://[^/@]*@")


def list_shared_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a driver that processes on other nodes get, in order; none has a secret."""
    shared = {}
    for name, value in sorted(environment.items()):
        is_secret = name.rpartition("_")[2] in SECRETS or _SECRET_ADDRESS.search(value)
        if name.startswith(SHARED_VARIABLES) and not is_secret:
            shared[name] = value
    return shared


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


def read_package_versions() -> dict[str, str]:
    """Installed versions of the packages that can change numbers, by package."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


@dataclass(frozen=True)
class Software:
    """Versions by package, and a hash of the code of this project and its plug-ins by top-level
    module.

    Processes that share work must agree on it.
    """

    packages: Mapping[str, str]
    code: Mapping[str, str]

    @classmethod
    @cache
    def here(cls) -> Software:
        """The software of this process, read once."""
        packages = {}
        modules = set()
        for group in GROUPS.values():
            for point in read_installed_entries().select(group=group):
                modules.add(point.module.partition(".")[0])
                if point.dist:
                    packages[point.dist.name] = point.dist.version

        packages |= read_package_versions()

        code = {}
        for module in sorted(modules):
            files = [[name, path.read_text("utf-8")] for name, path in list_python_files(module)]
            code[module] = digest(files)
        return cls(packages, code)

    def difference(self, other: Software) -> str | None:
        """The first difference of `other` from this, in words; None where there is none."""
        for name in sorted({*self.packages, *other.packages}):
            version_here = self.packages.get(name, "none")
            version_there = other.packages.get(name, "none")
            if version_here != version_there:
                return f"{name} is {version_there} there and {version_here} here"

        for name in sorted({*self.code, *other.code}):
            if self.code.get(name) != other.code.get(name):
                return f"the code of {name} differs between there and here"
        return None


def pick_device(asked: DeviceChoice) -> Device:
    """Resolve 'auto' to cuda where there is a device, else cpu. Raises UserError for a missing CUDA
    device.
    """
    available = asked != "cpu" and has_cuda()
    if asked == "cuda" and not available:
        raise UserError(
            "--device cuda: torch finds no CUDA device here; use --device cpu, or see `harness doctor`"
        )
    return "cuda" if available else "cpu"


def has_cuda() -> bool:
    """Whether torch finds a CUDA device; without a GPU driver, the import of torch, which takes
    seconds, is skipped.
    """
    if sys.platform == "linux" and "torch" not in sys.modules:
        has_driver = any(map(os.path.exists, GPU_FILES))
        if not has_driver:
            return False
    import torch

    return torch.cuda.is_available()


@cache
def read_processor() -> str:
    """Model name of the processor."""
    file = Path("/proc/cpuinfo")
    if file.is_file():
        for line in file.read_text().splitlines():
            field_name, _, model = line.partition(":")
            if field_name.startswith("model name") and model.strip():
                return model.strip()
    return platform.processor() or platform.machine()


@cache
def read_revision() -> str | None:
    """Commit of the code, with '+' for uncommitted changes; None outside a checkout."""
    folder = Path(harness.__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return None

    def ask_git(*words: str) -> str:
        command = ["git", "-C", str(folder), *words]
        return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()

    try:
        commit = ask_git("rev-parse", "HEAD")
        if ask_git("status", "--porcelain", "--untracked-files=no"):
            commit += "+"
    except (OSError, subprocess.CalledProcessError):
        return None

    return commit


def describe_machine() -> dict[str, str]:
    """Processor, cores, memory and CUDA devices of this machine, in words."""
    import torch

    properties = {
        "processor": read_processor(),
        "cores": str(count_cores()),
        "memory": _describe_memory(),
    }
    for index in range(torch.cuda.device_count()):
        memory = torch.cuda.get_device_properties(index).total_memory / 2**30
        properties[f"cuda:{index}"] = f"{torch.cuda.get_device_name(index)}, {memory:.0f} GiB"
    if not torch.cuda.is_available():
        properties["cuda"] = "none; runs use the CPU"
    return properties


def _describe_memory() -> str:
    try:
        page = os.sysconf("SC_PAGE_SIZE") / 2**30
        total = os.sysconf("SC_PHYS_PAGES") * page
        free = os.sysconf("SC_AVPHYS_PAGES") * page
    except (ValueError, OSError):
        return "unknown"
    return f"{total:.1f} GiB, {free:.1f} GiB free"
