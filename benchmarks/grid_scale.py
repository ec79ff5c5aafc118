"""What a large grid asks of its driver and store: the real plan, queue, tally, locks and files, in
simulated time.
"""

from __future__ import annotations

import heapq
import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from fake_runs import peak_mb, planned, result_of

from harness.events import Event, TrainingProgress
from harness.work.job import RunJob
from harness.work.jobs import list_jobs
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


def scale(runs: int, slots: int) -> None:
    """Print what the driver of so many runs on so many GPUs does, and what its store holds."""
    with TemporaryDirectory() as folder:
        made, cpu = costing(lambda: planned(runs, Path(folder)))
        jobs, cpu_jobs = costing(
            lambda: [job for job in list_jobs(made) if isinstance(job, RunJob)][:runs]
        )
        before = peak_mb()
        print(
            f"{runs} runs of {SECONDS // 60} min on {slots} GPUs: planned in {cpu + cpu_jobs:.1f} s of processor"
        )
        _look_at(jobs, slots)
        events, hours, used, files = _simulated(jobs, slots)
        rate = slots * (POINTS + EVALUATION_S) / SECONDS
        each = used / events
        print(
            f"  {hours:.1f} h; driver {before:.0f} MiB with the plan, {peak_mb():.0f} MiB with the ends of all runs"
        )
        print(
            f"  events: {rate:.0f} a second, each {1e6 * each:.0f} us of processor: {rate * each:.2%} of a core"
        )
        print(f"  open files of the driver: {files}, and one pipe or stream a run")
        _stored(jobs[:SAMPLE], runs, slots)


def costing(work: Callable[[], T]) -> tuple[T, float]:
    """What a function returns, and the seconds of processor that it took."""
    start = time.process_time()
    return work(), time.process_time() - start


def _look_at(jobs: Sequence[RunJob], slots: int) -> None:
    """Print what it costs to find that no run has room."""
    cards = [str(number) for number in range(slots)]
    seats = Seats(slots, cards, lambda name: (80_000, 80_000))
    queue = Queue(jobs)

    def fits(job: object) -> bool:
        assert isinstance(job, RunJob)
        return seats.take(job.id, lambda: queue.estimate_resources(job)) is not None

    _, first = costing(lambda: list(iter(lambda: queue.take(fits), None)))
    _, again = costing(lambda: queue.take(fits))
    print(
        f"  queue: {first:.2f} s of processor to fill {slots} seats; a look while they are taken {1000 * again:.1f} ms"
    )


def _simulated(jobs: Sequence[RunJob], slots: int) -> tuple[int, float, float, int]:
    """Events, simulated hours, seconds of processor for them, and open files: each event crosses a
    pipe.
    """
    clock = 0.0
    number = 0
    most = 0
    queue = Queue(jobs)
    tally = Tally({job.key: job.id for job in jobs}, jobs[0].store, lambda: clock)
    soon: list[tuple[float, int, RunJob, int]] = []
    cpu = time.process_time()
    while queue:
        while len(soon) < slots and isinstance(job := queue.take(), RunJob):
            tally.take(_crossed(Event("start", job.key, device="cuda")))
            soon.append((clock + SECONDS / POINTS, number := number + 1, job, 1))
        clock, _, job, point = heapq.heappop(soon)
        if point <= POINTS:
            event = Event(
                "progress", job.key, progress=TrainingProgress(point, POINTS, 10.0, {"text": 0.1})
            )
            tally.take(_crossed(event))
            heapq.heappush(soon, (clock + SECONDS / POINTS, number := number + 1, job, point + 1))
            continue
        done = _crossed(Event("done", job.key, result=result_of(job)))
        tally.take(done)
        assert done.result is not None
        queue.end(job, done.result)
        most = max(most, len([*Path("/proc/self/fd").iterdir()]))
    return len(jobs) * (POINTS + 2), clock / 3600, time.process_time() - cpu, most


def _crossed(event: Event) -> Event:
    found: Event = pickle.loads(pickle.dumps(event))
    return found


def _stored(jobs: Sequence[RunJob], runs: int, slots: int) -> None:
    """Print what locks, results, index and a second plan take, by a sample."""
    store = jobs[0].store
    count = len(jobs)

    def locked() -> None:
        for job in jobs:
            with store.lock(job.id):
                pass

    def written() -> None:
        for job in jobs:
            result = result_of(job)
            store.save_log(result, "a line of a log\n" * 400)
            store.save(result)

    _, lock = costing(locked)
    clock = time.monotonic()
    _, write = costing(written)
    wall = time.monotonic() - clock
    files = store.files()
    size = sum(path.stat().st_size + path.with_suffix(".log").stat().st_size for path in files)
    time.sleep(3)  # until the files are old enough to be trusted
    _, cold = costing(lambda: len(store.frames()))
    _, warm = costing(lambda: len(store.frames()))
    (index,) = store.root.glob(".cache/*")
    _, again = costing(lambda: planned(count, store.root))
    ends = slots / SECONDS
    more = runs / count
    print(f"  store: {ends:.2f} runs end a second; of each, by {count} of them:")
    print(
        f"    lock {1e3 * lock / count:.2f} ms of processor; result and log {1e3 * write / count:.1f} ms, ",
        end="",
    )
    print(
        f"{1e3 * wall / count:.1f} ms wall; so {ends:.2f} locks and {2 * ends:.2f} files a second"
    )
    print(
        f"  all: {more * size / 1e6:.0f} MB of results and logs; index {more * index.stat().st_size / 1e6:.1f} MB, ",
        end="",
    )
    print(
        f"made in {more * cold:.1f} s, read in {more * warm:.2f} s; a plan that finds them done {more * again:.0f} s"
    )
