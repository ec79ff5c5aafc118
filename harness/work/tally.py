"""The progress of a plan's runs, from their events: which are in progress, their current work, and
the time left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.events import Event, Stage, TrainingProgress
from harness.formatting import duration
from harness.metrics import AVERAGE
from harness.runs.log import stage_text
from harness.store import Evaluation, Result, Store
from harness.store.logs import failed_log, running_log
from harness.store.schema import describe_unscored_tasks

Clock = Callable[[], float]


@dataclass
class Work:
    """A run in progress, or a preparation for several runs. `since` is when it started, by the
    tally's clock.
    """

    key: str
    since: float
    doing: str = "loading"
    training: TrainingProgress | None = None


class Tally:
    """Counts runs by state and estimates the time left. Keys that are not planned are shown and not
    counted.
    """

    def __init__(
        self, planned: Mapping[str, str], store: Store, clock: Clock = time.monotonic
    ) -> None:
        """`planned` are the fingerprints of all runs to do, by their keys."""
        self.planned = planned
        self.store = store
        self.clock = clock
        self.began = clock()
        self.running: dict[str, Work] = {}
        self.done = 0
        self.failed: list[str] = []
        #: the seconds of finished runs by method, when the first run started, and the keys that ended
        self._seconds: dict[str, list[float]] = {}
        self._started: float | None = None
        self._ended_keys: set[str] = set()
        #: time and count of the first report on a run's stage, and the last count
        self._stages: dict[tuple[str, str, str], tuple[float, int, int]] = {}

    @property
    def total(self) -> int:
        return len(self.planned)

    @property
    def ended(self) -> int:
        return self.done + len(self.failed)

    @property
    def active(self) -> list[Work]:
        return [work for work in self.list_slowest() if work.key in self.planned]

    @property
    def preparing(self) -> int:
        """The number of preparations in progress."""
        return len(self.running) - len(self.active)

    @property
    def waiting(self) -> int:
        return max(0, self.total - self.ended - len(self.active))

    def take(self, event: Event) -> None:
        if event.kind in ("done", "failed"):
            self._end(event)
        elif event.kind == "prepared":
            self.running.pop(event.run, None)
        elif event.kind == "start":
            self.running[event.run] = Work(event.run, self.clock())
            if event.run in self.planned and self._started is None:
                self._started = self.clock()
        elif event.kind != "evaluated":
            work = self.running.setdefault(event.run, Work(event.run, self.clock()))
            work.doing = self._describe_work(event)
            work.training = event.progress or work.training

    def _end(self, event: Event) -> None:
        work = self.running.pop(event.run, None)
        self._ended_keys.add(event.run)
        if event.kind == "failed":
            self.failed.append(event.run)
            return
        self.done += 1
        if work:
            self._seconds.setdefault(_get_method(event.run), []).append(self.clock() - work.since)

    def _describe_work(self, event: Event) -> str:
        if event.progress is not None:
            return format_progress(event.progress)
        if event.stage is not None:
            return self._describe_stage(event.run, event.stage)
        return f"evaluating {event.suite}"

    def _describe_stage(self, run: str, stage: Stage) -> str:
        """How far a stage is, with its rate since its first report and the time left, where they
        are known.
        """
        key = (run, stage.what, stage.subject)
        now = self.clock()
        start, before, last = self._stages.get(key, (now, stage.done, stage.done))
        if stage.done < last:  # the same work on other rows
            start = now
            before = stage.done
        self._stages[key] = start, before, stage.done
        parts = [stage_text(stage)]
        if now > start and stage.done > before:
            rate = (stage.done - before) / (now - start)
            parts += [f"{rate:.1f}/s"] if stage.what != "tasks" else []
            parts += (
                [f"{duration((stage.total - stage.done) / rate)} left"]
                if stage.total is not None
                else []
            )
        return "  ".join(parts)

    def list_slowest(self) -> list[Work]:
        """All in progress, the longest-running first: a list of their own, since a view is drawn in
        another thread.
        """
        return sorted(self.running.values(), key=lambda work: work.since)

    def log(self, key: str) -> Path | None:
        if key not in self.planned:
            return None
        fingerprint = self.planned[key]
        path = (
            failed_log(self.store, fingerprint)
            if key in self.failed
            else running_log(self.store, fingerprint)
        )
        return path if path.is_file() else None

    @property
    def rate(self) -> float | None:
        """Runs done per hour; None before the first."""
        seconds = self.clock() - self.began
        return 3600 * self.done / seconds if self.done and seconds > 0 else None

    @property
    def completed(self) -> float:
        """The number of runs that ended, plus the trained fractions of those in progress."""
        shares = (work.training.step / work.training.steps for work in self.active if work.training)
        return self.ended + sum(shares)

    def estimate_left(self) -> float | None:
        """Seconds until all runs have ended; None before the first has finished.

        A run is expected to take the mean time of the finished ones of its method, or else of all
        of them, with as many at a time as there have been since the first one started. Waits
        between runs count as fewer at a time.
        """
        now = self.clock()
        active = self.active
        finished = [seconds for times in self._seconds.values() for seconds in times]
        if not finished or self._started is None:
            return None

        known = {work.key for work in active}
        waiting = [key for key in self.planned if key not in known and key not in self._ended_keys]
        expected = sum(map(self._estimate_run, waiting))
        rest = [
            max(_estimate_training_left(work), self._estimate_run(work.key) - (now - work.since))
            for work in active
        ]
        rest = [max(0.0, seconds) for seconds in rest]
        spent = sum(finished) + sum(now - work.since for work in active)
        at_a_time = max(spent / max(now - self._started, 1e-9), 1e-9)
        return max(max(rest, default=0.0), (sum(rest) + expected) / at_a_time)

    def _estimate_run(self, key: str) -> float:
        """The seconds that a run will take, by the finished ones of its method or else by all."""
        every = [seconds for times in self._seconds.values() for seconds in times]
        times = self._seconds.get(_get_method(key)) or every
        return sum(times) / len(times)

    def summarise(self) -> str:
        """Runs by state, the time left and the slowest, in one line."""
        counts = f"{self.done} done, {len(self.failed)} failed, {len(self.active)} running, {self.waiting} waiting"
        left = self.estimate_left()
        line = f"[{self.ended}/{self.total}] {counts}"
        line += "" if left is None else f", {duration(left)} left"
        for slowest in self.list_slowest()[:1]:
            line += f"; slowest {slowest.key}, {duration(self.clock() - slowest.since)}: {slowest.doing}"
        return line


def format_progress(progress: TrainingProgress) -> str:
    """Step, time left, rate, dev score and loss terms: what matters most stands first, for narrow
    terminals.
    """
    left = (progress.steps - progress.step) / progress.rate
    parts = [
        f"step {progress.step}/{progress.steps}",
        f"{duration(left)} left",
        f"{progress.rate:.1f} steps/s",
    ]
    if progress.dev is not None:
        parts.append(f"dev {progress.dev:.2f}")
    return "  ".join([*parts, *(f"{name} {value:.3f}" for name, value in progress.terms.items())])


def format_result(result: Result) -> str:
    """The main score of a result, why tasks have none, and the total time."""
    scores = []
    reasons = []
    for evaluation in result.current:
        for metric, value in _find_main_scores(evaluation).items():
            scores.append(f"{evaluation.suite}: {metric} {value:.2f}")
        reasons.append(describe_unscored_tasks(evaluation.suite, evaluation.warnings))
    return "  ".join(filter(None, (*scores[:1], *reasons, duration(result.seconds))))


def _find_main_scores(evaluation: Evaluation) -> Mapping[str, float]:
    """The averages over tasks; where only some tasks were scored, the first metric of each."""
    if AVERAGE in evaluation.scores or not evaluation.protocol.metrics:
        return evaluation.scores.get(AVERAGE, {})
    metric = evaluation.protocol.metrics[0].name
    return {
        f"{task} {metric}": row[metric] for task, row in evaluation.scores.items() if metric in row
    }


def _get_method(key: str) -> str:
    """The method of a run's key; of its variants, runs take about as long."""
    return key.partition("/")[0].partition("[")[0].partition("@")[0]


def _estimate_training_left(work: Work) -> float:
    made = work.training
    return (made.steps - made.step) / made.rate if made else 0.0
