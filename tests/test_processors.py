"""The memory that a process keeps, and the cores of its jobs."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from harness.processors import count_cores, count_own_cores, use_cores

#: a block of 64 MB is freed and asked for again, as in each step of a training
FAULTS = """
import resource, sys
from harness.processors import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    keep_freed_memory()
bytearray(80 * 2**20)
before = faults()
for _ in range(20):
    bytearray(b"x") * (64 * 2**20)
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_is_reused_without_asking_the_system_again() -> None:
    returned, kept = (
        int(
            subprocess.run(
                [sys.executable, "-c", FAULTS, how], capture_output=True, check=True, text=True
            ).stdout
        )
        for how in ("returned", "kept")
    )
    assert kept < 10_000 < 100_000 < returned


def test_a_share_of_the_cores_is_that_of_its_thread() -> None:
    """A job may run in a thread of a process that goes on."""
    started, done = threading.Event(), threading.Event()

    def job() -> None:
        with use_cores(1):
            started.set()
            done.wait()

    thread = threading.Thread(target=job)
    with use_cores(3):
        thread.start()
        started.wait()
        inside = count_own_cores()
    after = count_own_cores()
    done.set()
    thread.join()
    assert (inside, after) == (3, count_cores())
