"""A Ray cluster of several nodes on this machine, for the tests of its executor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed; its executor was not tested")

#: Small, and without the processes that serve a dashboard's logs.
NODE = {"object_store_memory": 80 * 2**20, "memory": 8 * 2**30, "include_log_monitor": False}


@contextmanager
def cluster(cpus: int, **head: Any) -> Iterator[Any]:
    """A cluster with a head of so many cores, joined by this process; nodes are added by
    `add_node(**NODE)`.
    """
    from ray.cluster_utils import Cluster

    # workers without a job's environment would start for nothing; others may need the memory of
    # this machine
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_prestart_worker_first_driver="0",
        RAY_memory_monitor_refresh_ms="0",
    )
    about = {**NODE, "num_cpus": cpus, "include_dashboard": False, "no_monitor": True, **head}
    nodes = Cluster(initialize_head=True, head_node_args=about)
    try:
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()
