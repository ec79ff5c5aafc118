"""The executors of one machine: each job in a process of its own, on all cores or GPUs; or in this process."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait

from harness.errors import PlugInError, UserError
from harness.planning.events import Listener
from harness.processors import cores, memory_kills
from harness.runs.environment import DeviceChoice, Jobs, pick_device
from harness.store.logs import make_way
from harness.work.base import Executor, ExecutorOptions
from harness.work.crew import Crew, Death, Out, Report, perform
from harness.work.failures import SMALLER, death_text, sending
from harness.work.forkserver import Child, ForkServer
from harness.work.job import Job, RunJob
from harness.work.queue import Queue
from harness.work.resources import (
    MOST_ON_A_CARD,
    VISIBLE,
    CardSeats,
    CoreSeats,
    Seat,
    Seats,
    free_memory_mb,
    visible_gpus,
)

#: The fraction of the machine's free memory that runs on the CPU may be expected to take.
USABLE_MEMORY = 0.8
#: Seconds between two reads of the reports of processes.
LOOK_S = 0.1


class Local(Executor):
    """Runs jobs in processes on this machine. A process that dies fails its own job only."""

    @classmethod
    def default_jobs(cls, device: DeviceChoice) -> Jobs:
        """As many as fit on GPUs, since the steps of one run do not fill a card; one on the CPU."""
        return "auto" if pick_device(device) == "cuda" else 1

    def work(self, queue: Queue, listen: Listener) -> None:
        with ForkServer() as server:
            _Processes(queue, listen, server, self.seats(queue, server)).work()

    def seats(self, queue: Queue, server: ForkServer) -> Seats:
        jobs = self.options.jobs
        if pick_device(self.options.device) == "cuda":
            cards = visible_gpus(partial(_memory_of, server))
            runs = sum(isinstance(job, RunJob) for job in queue.waiting)
            return CardSeats(cards, min(runs, MOST_ON_A_CARD * len(cards)) if jobs == "auto" else jobs)
        return CoreSeats(_jobs_on_cores(queue) if jobs == "auto" else jobs)


def _memory_of_card() -> tuple[float, float]:
    """The free and the total memory in MB of the card that this process sees."""
    import torch

    free, total = torch.cuda.mem_get_info(0)
    return free / 1e6, total / 1e6


def _memory_of(server: ForkServer, name: str) -> tuple[float, float]:
    """The free and the total memory of a card in MB. A new process reads them: the driver would keep memory there."""
    child = server.call(_memory_of_card, environment={VISIBLE: name})
    with child.channel:
        try:
            answer: tuple[float, float] = child.channel.recv()
        except (EOFError, OSError) as error:
            why = death_text(child.exit_code(), "")
            raise UserError(f"the GPU {name} cannot be used: {why}; name others in {VISIBLE}") from error
    return answer


def _jobs_on_cores(queue: Queue) -> int:
    """As many runs as there are cores, unless memory allows fewer or there are fewer runs."""
    runs = [job for job in queue.waiting if isinstance(job, RunJob)]
    largest = max((queue.resources(job).memory_mb for job in runs), default=1)
    fit = int(USABLE_MEMORY * free_memory_mb() / largest)
    return max(1, min(cores(), len(runs), fit))


def perform_pickled(content: bytes, report: Report) -> None:
    """Perform the job that was sent to this process."""
    try:
        job, allocation = pickle.loads(content)
    except Exception as error:
        report.write_end(f"it cannot be read in its process: {type(error).__name__}: {error}")
        return
    _log_crashes(job)
    perform(job, allocation, report)


def _log_crashes(job: Job) -> None:
    """On a crash in the code of a library, write its location into the job's log."""
    with suppress(OSError):
        if job.log_path:
            make_way(job.log_path)
            faulthandler.enable(job.log_path.open("a"), all_threads=False)


@dataclass(eq=False, kw_only=True)
class _Process(Out):
    child: Child
    seat: Seat


class _Processes(Crew[_Process]):
    def __init__(self, queue: Queue, listen: Listener, server: ForkServer, seats: Seats) -> None:
        super().__init__(queue, listen)
        self.server, self.seats = server, seats
        self._memory_kills = memory_kills()

    def start(self) -> None:
        seats: list[Seat] = []

        def fits(job: Job) -> bool:
            seat = self.seats.take(job.id, lambda: self.queue.resources(job), alone=job in self.queue.alone)
            seats.extend([seat] if seat else [])
            return seat is not None

        while (job := self.queue.take(fits)) is not None:
            seat = seats.pop()
            try:
                with sending():
                    content = pickle.dumps((job, seat.allocation))
            except PlugInError as error:
                self.seats.free(seat)
                self.queue.end(job, job.fail(error, self.listen))
                continue
            report = Report.of(job, uuid.uuid4().hex)
            child = self.server.call(perform_pickled, content, report, environment=seat.environment)
            self.out[job] = _Process(job, report, time.monotonic(), child=child, seat=seat)

    def wait(self) -> None:
        if self.out:
            wait([process.child.channel for process in self.out.values()], timeout=LOOK_S)
        else:
            time.sleep(LOOK_S)

    def death(self, out: _Process) -> Death | None:
        if not out.child.channel.poll():
            return None
        code = out.child.exit_code()
        if code == os.EX_IOERR:
            return Death(f"its report cannot be written below {out.report.folder}; free some space, and run it again")
        if code == -signal.SIGKILL and memory_kills() > self._memory_kills:
            self._memory_kills += 1
            return Death(f"out of memory: Linux killed its process; {SMALLER}; --jobs N carries out fewer at a time")
        return Death(death_text(code, out.job.log_text()))

    def stop(self) -> None:
        for process in self.out.values():
            process.child.signal(signal.SIGTERM)

    def kill(self, out: _Process) -> None:
        out.child.signal(signal.SIGKILL)

    def release(self, out: _Process) -> None:
        out.child.channel.close()
        self.seats.free(out.seat)
        out.report.remove()

    def cancel(self) -> None:
        """Do nothing: the end of the server ends all processes."""


class Serial(Executor):
    """Carries out one job at a time in this process; a run that crashes ends the process."""

    def __init__(self, options: ExecutorOptions) -> None:
        super().__init__(options)
        if options.jobs not in (1, "auto"):
            raise UserError("the executor serial carries out one run at a time; remove --jobs, or --executor serial")

    def work(self, queue: Queue, listen: Listener) -> None:
        for job in queue:
            queue.end(job, job.perform(self.share, listen))
