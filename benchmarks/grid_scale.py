"""What a large grid asks of its driver and store: the real plan, queue, tally, locks and files, in
simulated time.
"""

from __future__ import annotations

import heapq
import itertools
import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from fake_runs import list_runs, make_plan, make_result, measure_peak_mib

from harness.events import Event, TrainingProgress
from harness.work.job import RunJob
from harness.work.queue import Queue
from harness.work.resources import Seats
from harness.work.tally import Tally

T = TypeVar("T")
#: Seconds of a run; its reports: a hundred points of the loss curve, and one a second while it is
#: evaluated.
SECONDS = 2_400
POINTS = 100
EVALUATION_S = 300
#: Results that are really written, locked and indexed.
SAMPLE = 1_000


def simulate_grid(runs: int, slots: int) -> None:
    """Print what the driver of so many runs on so many GPUs does, and what its store holds."""
    with TemporaryDirectory() as folder:
        plan, plan_seconds = measure_processor(lambda: make_plan(runs, Path(folder)))
        jobs, job_seconds = measure_processor(lambda: list_runs(plan, runs))
        planned_mib = measure_peak_mib()
        print(
            f"{runs} runs of {SECONDS // 60} min on {slots} GPUs: planned in "
            f"{plan_seconds + job_seconds:.1f} s of processor"
        )
        _look_at(jobs, slots)

        simulation = _simulate(jobs, slots)
        event_seconds = simulation.processor_seconds / simulation.events
        events_a_second = slots * (POINTS + EVALUATION_S) / SECONDS
        print(
            f"  {simulation.hours:.1f} h; driver {planned_mib:.0f} MiB with the plan, "
            f"{measure_peak_mib():.0f} MiB with the ends of all runs"
        )
        print(
            f"  events: {events_a_second:.0f} a second, each {1e6 * event_seconds:.0f} us of "
            f"processor: {events_a_second * event_seconds:.2%} of a core"
        )
        print(f"  open files of the driver: {simulation.files}, and one pipe or stream a run")
        _measure_store(jobs[:SAMPLE], runs, slots)


def measure_processor(work: Callable[[], T]) -> tuple[T, float]:
    """What a function returns, and the seconds of processor that it took."""
    start = time.process_time()
    value = work()
    return value, time.process_time() - start


def _look_at(jobs: Sequence[RunJob], slots: int) -> None:
    """Print what it costs to find that no run has room."""
    cards = [str(number) for number in range(slots)]
    seats = Seats(slots, cards, lambda name: (80_000, 80_000))
    queue = Queue(jobs)

    def fits(job: object) -> bool:
        assert isinstance(job, RunJob)
        return seats.take(job.id, lambda: queue.estimate_resources(job)) is not None

    def take_all() -> list[object]:
        return list(iter(lambda: queue.take(fits), None))

    _, fill_seconds = measure_processor(take_all)
    _, look_seconds = measure_processor(lambda: queue.take(fits))
    print(
        f"  queue: {fill_seconds:.2f} s of processor to fill {slots} seats; "
        f"a look while they are taken {1000 * look_seconds:.1f} ms"
    )


class Simulation(NamedTuple):
    """What a driver did in simulated time, and the most files that it held open."""

    events: int
    hours: float
    processor_seconds: float
    files: int


def _simulate(jobs: Sequence[RunJob], slots: int) -> Simulation:
    """Run all jobs in simulated time; each event crosses a pipe."""
    clock = 0.0
    files = 0
    queue = Queue(jobs)
    tally = Tally({job.key: job.id for job in jobs}, jobs[0].store, lambda: clock)
    # when a run reports next, a number that breaks ties, the run and the point of its curve
    upcoming: list[tuple[float, int, RunJob, int]] = []
    numbers = itertools.count(1)
    start = time.process_time()
    while queue:
        while len(upcoming) < slots and isinstance(job := queue.take(), RunJob):
            tally.take(_cross_pipe(Event("start", job.key, device="cuda")))
            heapq.heappush(upcoming, (clock + SECONDS / POINTS, next(numbers), job, 1))

        clock, _, job, point = heapq.heappop(upcoming)
        if point <= POINTS:
            progress = TrainingProgress(point, POINTS, 10.0, {"text": 0.1})
            tally.take(_cross_pipe(Event("progress", job.key, progress=progress)))
            heapq.heappush(upcoming, (clock + SECONDS / POINTS, next(numbers), job, point + 1))
            continue

        done = _cross_pipe(Event("done", job.key, result=make_result(job)))
        tally.take(done)
        assert done.result is not None
        queue.end(job, done.result)
        files = max(files, len(list(Path("/proc/self/fd").iterdir())))

    events = len(jobs) * (POINTS + 2)
    return Simulation(events, clock / 3600, time.process_time() - start, files)


def _cross_pipe(event: Event) -> Event:
    crossed: Event = pickle.loads(pickle.dumps(event))
    return crossed


def _measure_store(jobs: Sequence[RunJob], runs: int, slots: int) -> None:
    """Print what locks, results, index and a second plan take, by a sample."""
    store = jobs[0].store

    def lock_all() -> None:
        for job in jobs:
            with store.lock(job.id):
                pass

    def write_all() -> None:
        for job in jobs:
            result = make_result(job)
            store.save_log(result, "a line of a log\n" * 400)
            store.save(result)

    _, lock_seconds = measure_processor(lock_all)
    start = time.monotonic()
    _, write_seconds = measure_processor(write_all)
    wall_seconds = time.monotonic() - start
    size = 0
    for path in store.files():
        size += path.stat().st_size + path.with_suffix(".log").stat().st_size

    time.sleep(3)  # until the files are old enough to be trusted
    _, cold_seconds = measure_processor(lambda: len(store.frames()))
    _, warm_seconds = measure_processor(lambda: len(store.frames()))
    (index,) = store.root.glob(".cache/*")
    index_size = index.stat().st_size
    count = len(jobs)
    _, plan_seconds = measure_processor(lambda: make_plan(count, store.root))

    ends_a_second = slots / SECONDS
    lock_ms = 1e3 * lock_seconds / count
    write_ms = 1e3 * write_seconds / count
    wall_ms = 1e3 * wall_seconds / count
    print(f"  store: {ends_a_second:.2f} runs end a second; of each, by {count} of them:")
    print(f"    lock {lock_ms:.2f} ms of processor; ", end="")
    print(f"result and log {write_ms:.1f} ms, {wall_ms:.1f} ms wall; ", end="")
    print(f"so {ends_a_second:.2f} locks and {2 * ends_a_second:.2f} files a second")

    scale = runs / count
    print(f"  all: {scale * size / 1e6:.0f} MB of results and logs; ", end="")
    print(
        f"index {scale * index_size / 1e6:.1f} MB, made in {scale * cold_seconds:.1f} s, ", end=""
    )
    print(f"read in {scale * warm_seconds:.2f} s; ", end="")
    print(f"a plan that finds them done {scale * plan_seconds:.0f} s")
