"""Processes for jobs, one each, forked from a process that is started once."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from types import TracebackType
from typing import Any

from harness.errors import UserError
from harness.processors import passive_threads
from harness.runs.resources import Allocation
from harness.work.faults import death_text, sending
from harness.work.job import Job
from harness.work.time_limit import GRACE_S, TimeLimitError
from harness.work.worker import Assignment, Message

#: Seconds to wait for the exit code of a process that has closed its channel: the server may be importing a library.
EXIT_S = 30.0
#: A library that asks for CUDA at import would otherwise make it unusable in all processes forked later.
SERVER_ENVIRONMENT = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
#: Without the folder of the command in sys.path, where a file could have the name of a module.
COMMAND = "import sys; from harness.work.forkserver import main; main(*map(int, sys.argv[1:]))"


@dataclass(eq=False)
class JobProcess:
    """A process that performs one job, and the channel on which it sends messages."""

    job: Job
    pid: int
    channel: Connection
    server: ForkServer
    started: float = field(default_factory=time.monotonic)
    ended_for: str = ""

    def receive(self) -> Message:
        """Return its next message, or why there will be none."""
        try:
            message: Message = self.channel.recv()
        except (EOFError, OSError):
            return self.ended_for or death_text(self.server.exit_code(self.pid), self.job.log_text())
        except Exception as error:
            self.signal(signal.SIGKILL)
            return f"its process sent what cannot be read: {type(error).__name__}: {error}"
        return message

    def end_if_late(self) -> None:
        """Kill the process where it hangs after its limit and does not react."""
        limit = self.job.limit_s
        if limit is not None and time.monotonic() - self.started > limit + 2 * GRACE_S:
            self.ended_for = str(TimeLimitError(limit))
            self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to stop once it has saved."""
        self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if not self.server.has_ended(self.pid):
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def sendable(assignment: Assignment) -> bytes:
    """A job as it is sent. Raises PlugInError where code of another package does not let itself be pickled."""
    with sending():
        return pickle.dumps(assignment)


class ForkServer:
    """Starts processes for jobs. On leaving, all of them are killed."""

    def __enter__(self) -> ForkServer:
        passive_threads()
        self._launch()
        return self

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        paths = os.pathsep.join(path for path in sys.path if path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", COMMAND, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **SERVER_ENVIRONMENT, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
            )
        self._channel = Connection(ours.detach())
        self._codes: dict[int, int] = {}
        self._alive = set[int]()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listen(0)
        for pid in self._alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def start(self, job: Job, allocation: Allocation, environment: dict[str, str]) -> JobProcess:
        """Start a process for a job. Raises PlugInError for a job that cannot be sent."""
        content = sendable((job, allocation))
        try:
            pid, channel = self._forked(environment)
        except (EOFError, OSError):  # somebody killed the server, and with it all processes
            pid, channel = self._forked_anew(environment)
        with suppress(OSError):  # of a process that died at once; `receive` finds its channel closed
            channel.send_bytes(content)
        return JobProcess(job, pid, channel, self)

    def _forked_anew(self, environment: dict[str, str]) -> tuple[int, Connection]:
        """A new process of a new server. Raises UserError where that ends too."""
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

    def ask(self, question: object, environment: dict[str, str]) -> Any:
        """Return what a short question answers in a process of its own, or why there is no answer."""
        pid, channel = self._forked(environment)
        with channel:
            try:
                channel.send_bytes(pickle.dumps(question))
                return channel.recv()
            except (EOFError, OSError):
                return death_text(self.exit_code(pid), "")

    def _forked(self, environment: dict[str, str]) -> tuple[int, Connection]:
        """A new process and the channel to it."""
        ours, theirs = socket.socketpair()
        channel = Connection(ours.detach())
        with theirs:
            self._channel.send(environment)
            send_handle(self._channel, theirs.fileno(), self._process.pid)
        kind, pid, *code = self._channel.recv()
        while kind != "started":
            self._note(pid, code[0])
            kind, pid, *code = self._channel.recv()
        self._alive.add(pid)
        self._codes.pop(pid, None)
        return pid, channel

    def _note(self, pid: int, code: int) -> None:
        self._codes[pid] = code
        self._alive.discard(pid)

    def has_ended(self, pid: int) -> bool:
        """Whether a process is known to have ended, as far as the server has said."""
        self._listen(0)
        return pid in self._codes

    def exit_code(self, pid: int) -> int | None:
        """The exit code of a process that has closed its channel; None where the server does not tell it."""
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
