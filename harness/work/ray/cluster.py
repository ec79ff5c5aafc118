"""A Ray cluster: joining it, comparing its nodes with this machine, and its free resources."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.errors import UserError, first_line
from harness.processors import SAFE_PATH, start_with_safe_path
from harness.runs.execution import Software, list_shared_variables

DISTRIBUTION = "sentence-harness"
#: The packages that this distribution installs.
PACKAGES = ("harness", "harness_methods", "harness_reports")

#: Seconds in which a node must answer before anything runs; the first worker of a node has to be
#: started for it.
ANSWER_S = 300.0
#: Seconds between two checks of the head, and after which a silent head counts as gone. A head may
#: restart with its state; a process that needs it meanwhile is ended by Ray after a minute, without
#: a message from this project.
LOOK_S = 2.0
GONE_S = 20.0


@dataclass
class Cluster:
    """The nodes at the start, of which others may come and go, and the head.

    `cpus` and `memory`, in bytes, are those of the largest node. `card_mb` is the memory of the
    smallest GPU, in MB; None where there is none.
    """

    cpus: float
    memory: float
    card_mb: float | None
    #: when the head was checked last, when it answered last, and whether it did at the last check
    _looked: float = field(default_factory=time.monotonic, init=False)
    _answered: float = field(default_factory=time.monotonic, init=False)
    _answers: bool = field(default=True, init=False)

    def count_slots(self, cpus: int) -> int:
        """The number of jobs with `cpus` cores each that fit now."""
        return max(1, int(ray.cluster_resources().get("CPU", 0) / cpus))

    def check_head(self) -> bool:
        """Whether it accepted connections at the last check. Raises UserError once it has not for
        GONE_S seconds.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return self._answers

        address: str = ray.get_runtime_context().gcs_address
        self._looked = now
        self._answers = _accepts_connections(address, LOOK_S)
        if self._answers:
            self._answered = now
        elif now - self._answered > GONE_S:
            raise UserError(
                f"the head of the Ray cluster, {address}, no longer answers; start a cluster "
                "or give another --executor, and run the same command to resume"
            )

        return self._answers


def _accepts_connections(address: str, seconds: float) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except (OSError, ValueError, OverflowError):  # not a number, or not one of a port
        return False
    return True


@contextmanager
def join_cluster(address: str | None, *, send_code: bool) -> Iterator[None]:
    """Join the cluster at an address as a driver; default: RAY_ADDRESS, a cluster running here, or
    a new one.

    Raises UserError where there is no cluster. A program that has joined one already stays in it.
    """
    if address and address.startswith("ray://"):
        raise UserError(
            f"--address {address}: the Ray Client cannot pass on what jobs report; give HOST:PORT of the "
            "head on a machine of the cluster, or send the command there with `ray job submit`"
        )

    if ray.is_initialized():
        yield
        return
    if address and ":" in address and not _accepts_connections(address, GONE_S):
        raise UserError(
            f"the head of a Ray cluster does not answer at {address}; start one with `ray start --head`, or correct "
            "--address"
        )

    # otherwise, when others request fractions of GPUs, Ray warns of a coming change for tasks
    # without a GPU
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with copy_code() if send_code else nullcontext() as folders:
        _connect(address, folders)
        try:
            yield
        finally:
            ray.shutdown()


def _connect(address: str | None, code: list[str] | None) -> None:
    """Connect to a cluster, with folders of code to send."""
    try:
        # Ray puts the working folder on the import path of its workers
        with start_with_safe_path(), chdir(os.sep):
            ray.init(
                address=address,
                runtime_env={"py_modules": code} if code else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False,
            )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise UserError(
            f"the Ray cluster {address or 'of this machine'} cannot be joined: {first_line(error)}; start one "
            "with `ray start --head`, or correct --address"
        ) from error


@contextmanager
def copy_code() -> Iterator[list[str]]:
    """Folders of the installed packages and of their entry points, copied under the names they are
    imported by.

    Unlike a copy of the files tracked by git, they include the metadata of the installed project,
    in which entry points are found. Dependencies are not included.
    """
    with tempfile.TemporaryDirectory(prefix="harness-code-") as target:
        installed = distribution(DISTRIBUTION)
        metadata = Path(target) / f"{DISTRIBUTION.replace('-', '_')}-{installed.version}.dist-info"
        metadata.mkdir()
        for name in ("METADATA", "entry_points.txt"):
            (metadata / name).write_text(installed.read_text(name) or "", encoding="utf-8")

        folders = [str(metadata)]
        ignore = shutil.ignore_patterns("__pycache__")
        for package in PACKAGES:
            copy = Path(target) / package
            for folder in import_module(package).__path__:
                shutil.copytree(folder, copy, ignore=ignore)
            folders.append(str(copy))

        yield folders


def make_worker_environment(threads: int, *, on_gpu: bool) -> dict[str, str]:
    """The variables of a worker process: the driver's; the number of threads (else set by Ray); no
    GPU unless asked.

    Ray writes them to a log that everybody on a node can read, so there is no secret in them. It
    hides no GPU from a task that asks for none.
    """
    variables = list_shared_variables(os.environ)
    variables["OMP_WAIT_POLICY"] = os.environ.get("OMP_WAIT_POLICY", "passive")
    variables["OMP_NUM_THREADS"] = str(threads)
    variables[SAFE_PATH] = "1"
    if not on_gpu:
        variables["CUDA_VISIBLE_DEVICES"] = ""
    return variables


def inspect(seen: Sequence[Path], software: Software, threads: int) -> Cluster:
    """Ask every node that can run jobs for its software and for folders that it must see, before
    anything runs.

    Later jobs with as many threads reuse the processes that answer, unless the jobs have a GPU.
    Raises UserError, one line, for the first node that differs or does not answer.
    """
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not nodes:
        raise UserError(
            "no node of the Ray cluster has a free core for jobs; add one with `ray start --address`"
        )

    # all are asked before the first answer is waited for
    describe = ray.remote(num_cpus=0, max_retries=0)(_describe_node)
    paths = [str(path) for path in seen]
    answers = []
    for node in nodes:
        on_node = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        environment = make_worker_environment(threads, on_gpu=_has_gpu(node))
        task = describe.options(scheduling_strategy=on_node, runtime_env={"env_vars": environment})
        answers.append(task.remote(paths))

    card_sizes = list[float]()
    for node, answer in zip(nodes, answers, strict=True):
        card_sizes += _check_node(node, answer, software)
    return Cluster(
        cpus=max(node["Resources"]["CPU"] for node in nodes),
        memory=max(node["Resources"].get("memory", 0) for node in nodes),
        card_mb=min(card_sizes, default=None),
    )


def _has_gpu(node: Mapping[str, Any]) -> bool:
    return bool(node["Resources"].get("GPU", 0))


def _describe_node(paths: list[str]) -> tuple[Software, list[str], tuple[float, ...]]:
    """This node's software, the paths that are missing on it, and the memory of its GPUs in MB.

    A task that asks for no GPU sees all of them.
    """
    missing = [path for path in paths if not Path(path).exists()]
    cards = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return Software.here(), missing, tuple(card.total_memory / 1e6 for card in cards)


def _check_node(node: Mapping[str, Any], answer: Any, software: Software) -> tuple[float, ...]:
    """The memory in MB of each GPU that Ray uses on a node. Raises UserError if it differs or does
    not answer.
    """
    host = node["NodeManagerHostname"]
    try:
        node_software, missing, card_sizes = ray.get(answer, timeout=ANSWER_S)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        raise UserError(
            f"the node {host} cannot run this project: {first_line(cause)}; install the project "
            "there, or send the code with "
            "--executor-option send-code=yes"
        ) from error

    difference = software.difference(node_software)
    if difference:
        raise UserError(
            f"the node {host} has other software than {socket.gethostname()}: {difference}; make them equal"
        )

    if missing:
        raise UserError(
            f"the node {host} cannot access {missing[0]}; share the folder, or use --no-shared-folder "
            "and copy the data to the same path there"
        )
    return card_sizes if _has_gpu(node) else ()
