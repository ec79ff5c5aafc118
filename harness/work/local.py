"""The executors of one machine: each job in a process of its own, on all cores or GPUs; or in this
process.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import uuid
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from time import monotonic, sleep

from harness.errors import PlugInError, UserError
from harness.events import Listener
from harness.files import open_to_append
from harness.processors import count_cores, count_memory_kills
from harness.runs.execution import DeviceChoice, Execution, Jobs, Seat, pick_device
from harness.work.base import Death, Executor, StartedJob
from harness.work.failures import SMALLER, describe_death, raise_pickling_errors
from harness.work.forkserver import start, start_server
from harness.work.job import Job, RunJob
from harness.work.queue import Queue
from harness.work.report import Report, perform
from harness.work.resources import (
    MOST_ON_A_CARD,
    VISIBLE,
    Seats,
    list_visible_cards,
    measure_free_memory,
)

#: The fraction of the machine's free memory that runs on the CPU may be expected to take.
USABLE_MEMORY = 0.8
#: Seconds between two reads of the reports of processes.
LOOK_S = 0.1


class Local(Executor):
    """Runs jobs in processes on this machine. A process that dies fails its own job only."""

    seats: Seats

    @classmethod
    def default_jobs(cls, device: DeviceChoice) -> Jobs:
        """As many as fit on GPUs, since the steps of one run do not fill a card; one on the CPU."""
        return "auto" if pick_device(device) == "cuda" else 1

    @classmethod
    def prepare(cls) -> None:
        """Start the server that forks the processes: its imports take seconds."""
        start_server()

    def work(self, queue: Queue, listen: Listener) -> None:
        self.seats = self.make_seats(queue)
        self._seats_by_job = dict[Job, Seat]()
        self._memory_kills = count_memory_kills()
        super().work(queue, listen)

    def make_seats(self, queue: Queue) -> Seats:
        """The slots of this machine for the jobs of a queue."""
        jobs = self.jobs
        if pick_device(self.options.device) != "cuda":
            return Seats(_count_jobs_on_cores(queue) if jobs == "auto" else jobs)

        cards = list_visible_cards()
        runs = [job for job in queue.waiting if isinstance(job, RunJob)]
        fit_on_cards = min(len(runs), MOST_ON_A_CARD * len(cards))
        return Seats(fit_on_cards if jobs == "auto" else jobs, cards, _measure_card)

    def start(self) -> None:
        while (job := self.queue.take(self._take_seat)) is not None:
            seat = self._seats_by_job[job]
            try:
                with raise_pickling_errors():
                    content = pickle.dumps((job, seat))
            except PlugInError as error:
                self.seats.free(self._seats_by_job.pop(job))
                self.queue.end(job, job.fail(error))
                continue
            report = Report.of(job, uuid.uuid4().hex)
            process = start(perform_pickled, content, report, environment=seat.environment)
            self.out[job] = StartedJob(job, report, process, monotonic())

    def _take_seat(self, job: Job) -> bool:
        """Whether there is room for a job now; its seat is then kept for it."""
        is_alone = job in self.queue.alone
        seat = self.seats.take(job.id, lambda: self.queue.estimate_resources(job), alone=is_alone)
        if seat is None:
            return False
        self._seats_by_job[job] = seat
        return True

    def wait(self) -> None:
        if self.out:
            wait([started.handle.sentinel for started in self.out.values()], timeout=LOOK_S)
        else:
            sleep(LOOK_S)

    def death(self, started: StartedJob) -> Death | None:
        code: int | None = started.handle.exitcode
        if code is None:
            return None
        if code == os.EX_IOERR:
            folder = started.report.path.parent
            return Death(
                f"its report cannot be written below {folder}; free some space, and run it again"
            )

        if code == -signal.SIGKILL and count_memory_kills() > self._memory_kills:
            self._memory_kills += 1
            return Death(
                f"out of memory: Linux killed its process; {SMALLER}; --jobs N carries out fewer at a time"
            )
        return Death(describe_death(code, started.job.log_text()))

    def stop(self) -> None:
        for started in self.out.values():
            started.handle.terminate()

    def kill(self, started: StartedJob) -> None:
        started.handle.kill()

    def release(self, started: StartedJob) -> None:
        super().release(started)
        self.seats.free(self._seats_by_job.pop(started.job))

    def cancel(self) -> None:
        for started in self.out.values():
            started.handle.kill()


def _send_memory_of_card(to: Connection) -> None:
    """Send the free and the total memory in MB of the card that this process sees."""
    import torch

    free, total = torch.cuda.mem_get_info(0)
    to.send((free / 1e6, total / 1e6))


def _measure_card(name: str) -> tuple[float, float]:
    """The free and the total memory of a card in MB. A new process reads them: the driver would
    keep memory there.
    """
    receiver, sender = Pipe(duplex=False)
    with receiver:
        with sender:
            process = start(_send_memory_of_card, sender, environment={VISIBLE: name})
        try:
            memory: tuple[float, float] = receiver.recv()
        except (EOFError, OSError) as error:
            process.join()
            why = describe_death(process.exitcode or 0, "")
            raise UserError(
                f"the GPU {name} cannot be used: {why}; name others in {VISIBLE}"
            ) from error

    return memory


def _count_jobs_on_cores(queue: Queue) -> int:
    """As many runs as there are cores, unless memory allows fewer or there are fewer runs."""
    runs = [job for job in queue.waiting if isinstance(job, RunJob)]
    largest_mb = max((queue.estimate_resources(job).memory_mb for job in runs), default=1)
    fit_in_memory = int(USABLE_MEMORY * measure_free_memory() / largest_mb)
    return max(1, min(count_cores(), len(runs), fit_in_memory))


def perform_pickled(content: bytes, report: Report) -> None:
    """Perform the job that was sent to this process."""
    try:
        job, seat = pickle.loads(content)
    except Exception as error:
        report.write_end(f"it cannot be read in its process: {type(error).__name__}: {error}")
        return
    _log_crashes(job)
    perform(job, seat, report)


def _log_crashes(job: Job) -> None:
    """On a crash in the code of a library, write its location into the job's log."""
    with suppress(OSError):
        if job.log_path:
            stream = open_to_append(job.log_path, job.store.root)
            faulthandler.enable(stream, all_threads=False)


class Serial(Executor):
    """Carries out one job at a time in this process; a run that crashes ends the process."""

    def __init__(self, options: Execution) -> None:
        super().__init__(options)
        if options.jobs not in (None, 1, "auto"):
            raise UserError(
                "the executor serial carries out one run at a time; remove --jobs, or --executor serial"
            )

    def work(self, queue: Queue, listen: Listener) -> None:
        for job in queue:
            queue.end(job, job.perform(self.share, listen))
