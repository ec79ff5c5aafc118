"""A process that has imported torch and forks one process for each call: a start takes milliseconds, not seconds.

It computes nothing and uses no GPU, so that what it forks is clean. The driver sends it the environment of a call and
one end of a socket pair, and is notified of the process that serves it and of that process's end.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import NoReturn

from harness.errors import UserError
from harness.processors import end_with_parent, first_when_memory_ends, passive_threads, safe_path
from harness.stopping import request_stop

#: Seconds between two looks for processes that have ended.
REAP_S = 0.1
#: Modules that libraries import only once a model is loaded, trained or scored, imported here to save three seconds per
#: job. The first jobs do not wait for them.
LATE = (
    "scipy.stats",
    "transformers.conversion_mapping",
    "transformers.loss.loss_utils",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
)
#: Modules of jobs, imported once here for all forked processes.
FIRST = ("harness.runs.run", "harness.work.jobs", "harness.work.local")
#: Seconds to wait for the exit code of a process that has closed its channel: the server may be importing a library.
EXIT_S = 30.0
#: Otherwise, a library that checks for CUDA at import would make CUDA unusable in all processes forked later.
SERVER_ENVIRONMENT = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
COMMAND = "import sys; from harness.work.forkserver import main; main(*sys.argv[1:])"


@dataclass(frozen=True, eq=False)
class Child:
    """A process that carries out one call. It closes the channel when it ends, after the answer if that is not None."""

    pid: int
    channel: Connection
    server: ForkServer

    def signal(self, number: int) -> None:
        if not self.server.has_ended(self.pid):
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def exit_code(self) -> int | None:
        """The exit code of a process that has closed its channel; None if the server does not report it."""
        return self.server.exit_code(self.pid)


class ForkServer:
    """Starts processes for calls. On leaving the context, all of them are killed."""

    def __enter__(self) -> ForkServer:
        passive_threads()
        self._launch()
        return self

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, safe_path():
            self._process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **SERVER_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
            )
        self._channel = Connection(ours.detach())
        self._codes: dict[int, int] = {}
        self._alive = set[int]()

    def __exit__(self, *error: object) -> None:
        self._listen(0)
        for pid in self._alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def call(self, function: Callable[..., object], *given: object, environment: Mapping[str, str]) -> Child:
        """Call a function of a module in a new process. Raises UserError if no process can be started."""
        content = pickle.dumps((function, given))
        try:
            child = self._forked(environment)
        except (EOFError, OSError):  # the server was killed, and with it all processes
            child = self._forked_anew(environment)
        with suppress(OSError):  # the process died at once: its channel is closed
            child.channel.send_bytes(content)
        return child

    def _forked_anew(self, environment: Mapping[str, str]) -> Child:
        self._process.wait()
        self._channel.close()
        try:
            self._launch()
            return self._forked(environment)
        except (EOFError, OSError) as error:
            raise UserError(
                "no process for runs can be started, perhaps for lack of memory; raise the limit that `ulimit -v` "
                "shows, or use --executor serial"
            ) from error

    def _forked(self, environment: Mapping[str, str]) -> Child:
        ours, theirs = socket.socketpair()
        channel = Connection(ours.detach())
        with theirs:
            self._channel.send(dict(environment))
            send_handle(self._channel, theirs.fileno(), self._process.pid)
        kind, pid, *code = self._channel.recv()
        while kind != "started":
            self._note(pid, code[0])
            kind, pid, *code = self._channel.recv()
        self._alive.add(pid)
        self._codes.pop(pid, None)
        return Child(pid, channel, self)

    def _note(self, pid: int, code: int) -> None:
        self._codes[pid] = code
        self._alive.discard(pid)

    def has_ended(self, pid: int) -> bool:
        """Whether the server has reported the end of a process."""
        self._listen(0)
        return pid in self._codes

    def exit_code(self, pid: int) -> int | None:
        """The exit code of a process that ends; None if the server does not report it."""
        while pid not in self._codes and self._listen(EXIT_S):
            pass
        return self._codes.get(pid)

    def _listen(self, seconds: float) -> bool:
        """Read the server's messages on processes that ended; return whether there was one in time."""
        heard = False
        with suppress(EOFError, OSError):
            while self._channel.poll(0 if heard else seconds):
                _, pid, code = self._channel.recv()
                self._note(pid, code)
                heard = True
        return heard


def main(handle: str, driver: str) -> None:
    """Serve requests on a socket until the driver closes it or ends."""
    end_with_parent(int(driver))
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole process group; the driver decides
        signal.signal(number, signal.SIG_IGN)
    for name in FIRST:
        importlib.import_module(name)
    late = list(LATE)
    _freeze()
    channel = Connection(int(handle))
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
                _serve(Connection(served), environment, parent)
            os.close(served)
            channel.send(("started", child))
        elif late:
            with suppress(ImportError):  # a library of another version; jobs import what they need
                importlib.import_module(late.pop())
            _freeze()
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                channel.send(("ended", ended[0], os.waitstatus_to_exitcode(ended[1])))


def _freeze() -> None:
    """Exempt existing objects from garbage collection in forked processes, so that their memory stays shared."""
    gc.collect()
    gc.freeze()


def _serve(channel: Connection, environment: dict[str, str], parent: int) -> NoReturn:
    """Carry out the call that arrives on the channel and end this process, as soon as the parent ends too.

    SIGTERM asks a job to stop once it has saved. The driver handles Ctrl-C, which reaches the whole process group.
    """
    code = 1
    try:
        end_with_parent(parent)
        first_when_memory_ends()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, frame: request_stop())
        os.environ.update(environment)
        function, given = pickle.loads(channel.recv_bytes())
        answer = function(*given)
        if answer is not None:
            channel.send(answer)
        code = 0
    except EOFError:  # the driver is gone
        pass
    except OSError as error:
        traceback.print_exc()
        code = os.EX_IOERR if error.errno else code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without cleaning up what is inherited from the parent
