"""The process of one job: it performs the job, sends events and its end to the driver, and then exits."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NoReturn

from harness.planning.events import Event
from harness.processors import end_with_parent, first_when_memory_ends
from harness.runs.resources import Allocation
from harness.stopping import request_stop
from harness.store.logs import make_way
from harness.work.job import Again, End, Job

#: What a worker receives, pickled: the job and what it may use.
Assignment = tuple[Job, Allocation]
#: What it sends: events, then the end, or why there is none.
Message = Event | End | Again | str


def serve(channel: Connection, environment: dict[str, str], parent: int) -> NoReturn:
    """Perform the one job that arrives on the channel and end this process, as soon as the parent ends too.

    SIGTERM asks the job to stop once it has saved. The driver handles Ctrl-C, which reaches the whole process group.
    """
    code = 1
    try:
        end_with_parent(parent)
        first_when_memory_ends()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, frame: request_stop())
        os.environ.update(environment)
        _perform(channel)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # what was inherited from the parent is not this process's to clean up


def _log_crashes(job: Job) -> None:
    """Let a crash in the code of a library write where it happened into the job's log."""
    with suppress(OSError):
        if job.log_path:
            make_way(job.log_path)
            faulthandler.enable(job.log_path.open("a"), all_threads=False)


def _perform(channel: Connection) -> None:
    def send(message: Message) -> None:
        try:
            channel.send(message)
        except OSError:  # the driver is gone
            os._exit(1)

    try:
        assignment: Assignment = pickle.loads(channel.recv_bytes())
    except Exception as error:
        send(f"it cannot be read in its process: {type(error).__name__}: {error}")
    else:
        job, allocation = assignment
        _log_crashes(job)
        send(job.perform(allocation, send))
