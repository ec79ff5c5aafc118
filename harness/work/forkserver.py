"""Processes of jobs, forked from one that has imported torch: a start takes milliseconds, not
seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.context import ForkServerProcess
from multiprocessing.forkserver import ensure_running
from typing import NoReturn

from harness.errors import UserError
from harness.processors import (
    ask_to_be_killed_first,
    end_with_parent,
    make_threads_passive,
    start_with_safe_path,
    start_without_script,
)
from harness.stopping import SIGNALS, request_stop

#: What the server imports, beyond which it does nothing.
PRELOAD = "harness.work.preload"
#: Seconds between attempts to start a process: a killed server takes a moment to be gone.
PAUSES_S = (0.2, 2.0)
#: Otherwise, a library that checks for CUDA at import would make CUDA unusable in all processes
#: forked later.
SERVER_ENVIRONMENT = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def start(
    function: Callable[..., object], *given: object, environment: Mapping[str, str]
) -> ForkServerProcess:
    """Call a function of a module in a new process, with this one's environment variables and
    others.

    SIGTERM asks it to stop once it has saved. It ends with this process, and when the server is
    killed. Raises UserError if no process can be started.
    """
    for pause_s in (*PAUSES_S, None):
        try:
            return _start_process(function, given, environment)
        except (EOFError, OSError) as error:  # the server was killed, and with it all processes
            if pause_s is None:
                raise UserError(
                    "no process for runs can be started, perhaps for lack of memory; raise the limit that `ulimit -v` "
                    "shows, or use --executor serial"
                ) from error
            time.sleep(pause_s)

    raise AssertionError


def start_server() -> None:
    """Start the server unless it runs, and return at once: its imports take seconds."""
    make_threads_passive()
    # the start of a process says what is wrong
    with _set_server(), suppress(OSError):
        ensure_running()


def _start_process(
    function: Callable[..., object], given: tuple[object, ...], environment: Mapping[str, str]
) -> ForkServerProcess:
    make_threads_passive()
    # of this process as it is now: the server may be older
    own_environment = {**os.environ, **environment}
    context = get_context("forkserver")
    with _set_server():
        process = context.Process(target=_call_and_exit, args=(own_environment, function, given))
        process.start()
    return process


@contextmanager
def _set_server() -> Iterator[None]:
    """Let a server that starts in the block import what jobs need, from where this process does."""
    get_context("forkserver").set_forkserver_preload([PRELOAD])
    environment = {**SERVER_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)}
    with start_with_safe_path(), _set_variables(environment), start_without_script():
        yield


@contextmanager
def _set_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes that start in the block."""
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _call_and_exit(
    environment: Mapping[str, str], function: Callable[..., object], given: tuple[object, ...]
) -> NoReturn:
    """Carry out a call and end this process without cleaning up what is inherited from the server."""
    code = 1
    try:
        end_with_parent(os.getppid())
        threading.Thread(target=_end_with_driver, daemon=True).start()
        ask_to_be_killed_first()
        # Ctrl-C reaches the whole process group; the driver handles it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, frame: request_stop())
        # a server that loads batches has blocked them
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.environ.clear()
        os.environ.update(environment)
        function(*given)
        code = 0
    except OSError as error:
        traceback.print_exc()
        if error.errno:
            code = os.EX_IOERR
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with_driver() -> None:
    driver = parent_process()  # not the server
    if driver is not None:
        driver.join()
    os._exit(1)
