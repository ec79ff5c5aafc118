"""The executor of one machine: each job in a process of its own, on all cores or on all GPUs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path

from harness.errors import PlugInError, UserError
from harness.planning.events import Event, Listener
from harness.processors import cores
from harness.runs.environment import free_memory_mb, pick_device
from harness.runs.resources import Allocation, DeviceChoice, Jobs
from harness.work.base import Executor
from harness.work.job import Again, Job
from harness.work.processes import ForkServer, JobProcess
from harness.work.queue import RETRY_S, Queue
from harness.work.run_job import RunJob
from harness.work.seats import VISIBLE, CardSeats, CoreSeats, Seat, Seats, most_on_cards, visible_gpus

#: The part of the machine's free memory that runs on the CPU may take by expectation.
USABLE_MEMORY = 0.8


class Local(Executor):
    """Runs jobs in processes on this machine. A process that dies fails its own job only."""

    @classmethod
    def default_jobs(cls, device: DeviceChoice) -> Jobs:
        """As many as fit on GPUs, where a step of one run leaves a card idle; one on the CPU."""
        return "auto" if pick_device(device) == "cuda" else 1

    def work(self, queue: Queue, listen: Listener) -> None:
        """Start a process for each job that fits, and pass on events, until every job has ended."""
        with ForkServer() as server:
            table = _Table(self.seats(queue, server), server, queue, listen)
            stopped, look_at = False, 0.0
            while queue:
                if time.monotonic() >= look_at:
                    while table.seat_next():
                        pass
                    look_at = time.monotonic() + RETRY_S
                if queue.stopping and not stopped:
                    stopped = True
                    table.stop()
                if table.attend():
                    look_at = 0.0

    def seats(self, queue: Queue, server: ForkServer) -> Seats:
        """The slots of this machine."""
        jobs = self.options.jobs
        if pick_device(self.options.device) == "cuda":
            cards = visible_gpus(partial(_memory_of, server))
            runs = sum(isinstance(job, RunJob) for job in queue.waiting)
            return CardSeats(cards, most_on_cards(len(cards), runs) if jobs == "auto" else jobs)
        return CoreSeats(_jobs_on_cores(queue) if jobs == "auto" else jobs)


@dataclass(frozen=True)
class _MemoryOfCard:
    """Asks for the memory of the card that its process sees, as a job does nothing else."""

    log_path: Path | None = None

    def perform(self, allocation: Allocation, listen: Listener) -> tuple[float, float]:
        """Return the free and the total memory in MB."""
        import torch

        free, total = torch.cuda.mem_get_info(0)
        return free / 1e6, total / 1e6


def _memory_of(server: ForkServer, name: str) -> tuple[float, float]:
    """The free and the total memory of a card in MB. The driver itself takes no card: it would hold memory there."""
    answer = server.ask((_MemoryOfCard(), Allocation("cuda")), {VISIBLE: name})
    if not isinstance(answer, tuple):
        raise UserError(f"the GPU {name} cannot be used: {answer}; name others in {VISIBLE}")
    return answer


def _jobs_on_cores(queue: Queue) -> int:
    """As many runs as there are cores, unless memory allows fewer or there are fewer runs."""
    runs = [job for job in queue.waiting if isinstance(job, RunJob)]
    largest = max((queue.resources(job).memory_mb for job in runs), default=1)
    fit = int(USABLE_MEMORY * free_memory_mb() / largest)
    return max(1, min(cores(), len(runs), fit))


class _Table:
    """Processes on seats."""

    def __init__(self, seats: Seats, server: ForkServer, queue: Queue, listen: Listener) -> None:
        self.seats, self.server, self.queue, self.listen = seats, server, queue, listen
        self.taken: dict[Connection, tuple[JobProcess, Seat]] = {}
        #: jobs that were out of memory beside others on a card
        self.alone: set[Job] = set()

    def seat_next(self) -> bool:
        """Start the next job that fits; return whether there was one."""
        found: list[Seat] = []

        def fits(job: Job) -> bool:
            seat = self.seats.take(job.id, lambda: self.queue.resources(job), alone=job in self.alone)
            found.extend([seat] if seat else [])
            return seat is not None

        job = self.queue.take(fits)
        if job is None:
            return False
        (seat,) = found
        try:
            process = self.server.start(job, seat.allocation, dict(seat.environment))
        except PlugInError as error:
            self.seats.free(seat)
            self.queue.end(job, job.fail(error, self.listen))
        else:
            self.taken[process.channel] = process, seat
        return True

    def attend(self) -> bool:
        """Wait for messages and handle them; return whether a job ended."""
        before = len(self.taken)
        for process, _ in self.taken.values():
            process.end_if_late()
        for channel in wait(list(self.taken), timeout=RETRY_S):
            assert isinstance(channel, Connection)
            process, seat = self.taken[channel]
            message = process.receive()
            if isinstance(message, Event):
                self.listen(message)
                continue
            del self.taken[channel]
            channel.close()
            self.seats.free(seat)
            if message is Again.MEMORY:
                self.alone.add(process.job)
            end = process.job.fail(message, self.listen) if isinstance(message, str) else message
            self.queue.end(process.job, end)
        return len(self.taken) < before

    def stop(self) -> None:
        """Ask all processes to stop once they have saved."""
        for process, _ in self.taken.values():
            process.stop()
