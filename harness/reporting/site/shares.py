"""Work on many pages, shared among the processor's cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence

from harness.processors import end_with_parent, own_cores

#: Fewer pages than this are written before a second process would have started.
WORTH = 200


def in_shares(work: Callable[[Sequence[int]], None], count: int) -> None:
    """Call `work` with the numbers below `count`: in processes that each take a share of them, where that is worth it.

    `work` leaves files behind and nothing else. What it raises is raised here.
    """
    # elsewhere a process cannot be copied with what it has read, or not safely
    cores = min(own_cores(), count // WORTH) if sys.platform == "linux" else 1
    shares = [range(first, count, cores) for first in range(cores)] if cores > 1 else [range(count)]
    gc.freeze()  # a collection in a copy would copy all the memory that they share
    process = multiprocessing.get_context("fork").Process
    processes = [process(target=_child, args=(work, share, os.getpid())) for share in shares[1:]]
    try:
        for child in processes:
            child.start()
        work(shares[0])
    finally:
        for child in processes:
            if child.pid:
                child.join()
        gc.unfreeze()
    for child, share in zip(processes, shares[1:], strict=True):
        if child.exitcode:
            work(share)  # again, and here: it raises what went wrong, unless only the process had died


def _child(work: Callable[[Sequence[int]], None], share: Sequence[int], parent: int) -> None:
    end_with_parent(parent)
    try:
        work(share)
    except BaseException:  # raised again by the parent, in one place
        sys.exit(1)
