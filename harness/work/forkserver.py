"""A process that has imported torch and forks one process for each job: a start takes milliseconds, not seconds.

It computes nothing and uses no GPU, so that what it forks is clean. The driver sends it the environment of a job and
one end of a socket pair, and is notified of the process that serves it and of that process's end.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle

from harness.processors import end_with_parent

#: Seconds between two looks for processes that have ended.
REAP_S = 0.1
#: What libraries import only once a model is loaded, trained or scored: three seconds for each job otherwise. The first
#: jobs do not wait for it.
LATE = (
    "scipy.stats",
    "transformers.conversion_mapping",
    "transformers.loss.loss_utils",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
)


def main(handle: int, driver: int) -> None:
    """Serve requests on a socket until the driver closes it or ends."""
    end_with_parent(driver)
    for number in (signal.SIGINT, signal.SIGTERM):  # of a whole process group; the driver decides
        signal.signal(number, signal.SIG_IGN)
    # what jobs import, here and once: forked processes have it
    from harness.runs import run
    from harness.work import jobs, worker

    assert run
    assert jobs
    late = list(LATE)
    _freeze()
    channel = Connection(handle)
    while True:
        if channel.poll(REAP_S):
            try:
                environment: dict[str, str] = channel.recv()
                served = recv_handle(channel)
            except (EOFError, OSError):
                return
            sys.stdout.flush()
            sys.stderr.flush()
            parent = os.getpid()
            child = os.fork()
            if not child:
                channel.close()
                worker.serve(Connection(served), environment, parent)
            os.close(served)
            channel.send(("started", child))
        elif late:
            with suppress(ImportError):  # of another version; jobs import what they need
                importlib.import_module(late.pop())
            _freeze()
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                channel.send(("ended", ended[0], os.waitstatus_to_exitcode(ended[1])))


def _freeze() -> None:
    """Let the collector of a forked process leave what is there alone, and its memory shared."""
    gc.collect()
    gc.freeze()
