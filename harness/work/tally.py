"""The progress of a plan's runs, from their events: which are in progress, their current work, and
the time left.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.events import Event, Stage, TrainingProgress
from harness.formatting import duration
from harness.metrics import AVERAGE
from harness.runs.log import describe_stage
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
        start, first_count, last_count = self._stages.get(key, (now, stage.done, stage.done))
        if stage.done < last_count:  # the same work on other rows
            start = now
            first_count = stage.done
        self._stages[key] = start, first_count, stage.done

        parts = [describe_stage(stage)]
        if now > start and stage.done > first_count:
            rate = (stage.done - first_count) / (now - start)
            if stage.what != "tasks":
                parts.append(f"{rate:.1f}/s")
            if stage.total is not None:
                parts.append(f"{duration((stage.total - stage.done) / rate)} left")

        return "  ".join(parts)

    def list_slowest(self) -> list[Work]:
        """All in progress, the longest-running first: a list of their own, since a view is drawn in
        another thread.
        """
        return sorted(self.running.values(), key=lambda work: work.since)

    def log(self, key: str) -> Path | None:
        if key not in self.planned:
            return None
        find_path = failed_log if key in self.failed else running_log
        path = find_path(self.store, self.planned[key])
        return path if path.is_file() else None

    @property
    def rate(self) -> float | None:
        """Runs done per hour; None before the first."""
        seconds = self.clock() - self.began
        if not self.done or seconds <= 0:
            return None
        return 3600 * self.done / seconds

    @property
    def completed(self) -> float:
        """The number of runs that ended, plus the trained fractions of those in progress."""
        completed: float = self.ended
        for work in self.active:
            if work.training is not None:
                completed += work.training.step / work.training.steps
        return completed

    def estimate_left(self) -> float | None:
        """Seconds until all runs have ended; None before the first has finished.

        A run is expected to take the mean time of the finished ones of its method, or else of all
        of them, with as many at a time as there have been since the first one started. Waits
        between runs count as fewer at a time.
        """
        finished_seconds = self._list_seconds()
        if not finished_seconds or self._started is None:
            return None

        now = self.clock()
        spent = sum(finished_seconds)
        seconds_left = []
        begun = set(self._ended_keys)
        for work in self.active:
            begun.add(work.key)
            spent += now - work.since
            expected = self._estimate_run(work.key) - (now - work.since)
            seconds_left.append(max(0.0, expected, _estimate_training_left(work)))

        waiting = [key for key in self.planned if key not in begun]
        to_spend = sum(seconds_left) + sum(map(self._estimate_run, waiting))
        at_a_time = max(spent / max(now - self._started, 1e-9), 1e-9)
        return max(*seconds_left, 0.0, to_spend / at_a_time)

    def _list_seconds(self) -> list[float]:
        """The seconds of all finished runs."""
        return [seconds for times in self._seconds.values() for seconds in times]

    def _estimate_run(self, key: str) -> float:
        """The seconds that a run will take, by the finished ones of its method or else by all."""
        times = self._seconds.get(_get_method(key)) or self._list_seconds()
        return sum(times) / len(times)

    def summarise(self) -> str:
        """Runs by state, the time left and the slowest, in one line."""
        line = (
            f"[{self.ended}/{self.total}] {self.done} done, {len(self.failed)} failed, "
            f"{len(self.active)} running, {self.waiting} waiting"
        )
        seconds_left = self.estimate_left()
        if seconds_left is not None:
            line += f", {duration(seconds_left)} left"
        works = self.list_slowest()
        if works:
            seconds = self.clock() - works[0].since
            line += f"; slowest {works[0].key}, {duration(seconds)}: {works[0].doing}"
        return line


def format_progress(progress: TrainingProgress) -> str:
    """Step, time left, rate, dev score and loss terms: what matters most stands first, for narrow
    terminals.
    """
    seconds_left = (progress.steps - progress.step) / progress.rate
    parts = [
        f"step {progress.step}/{progress.steps}",
        f"{duration(seconds_left)} left",
        f"{progress.rate:.1f} steps/s",
    ]
    if progress.dev is not None:
        parts.append(f"dev {progress.dev:.2f}")
    parts += [f"{name} {value:.3f}" for name, value in progress.terms.items()]
    return "  ".join(parts)


def format_result(result: Result) -> str:
    """The main score of a result, why tasks have none, and the total time."""
    main_score = ""
    parts = []
    for evaluation in result.current:
        for metric, value in _find_main_scores(evaluation).items():
            main_score = main_score or f"{evaluation.suite}: {metric} {value:.2f}"
        parts.append(describe_unscored_tasks(evaluation.suite, evaluation.warnings))

    parts = [main_score, *parts, duration(result.seconds)]
    return "  ".join(part for part in parts if part)


def _find_main_scores(evaluation: Evaluation) -> Mapping[str, float]:
    """The averages over tasks; where only some tasks were scored, the first metric of each."""
    if AVERAGE in evaluation.scores or not evaluation.protocol.metrics:
        return evaluation.scores.get(AVERAGE, {})

    metric = evaluation.protocol.metrics[0].name
    scores = {}
    for task, values in evaluation.scores.items():
        if metric in values:
            scores[f"{task} {metric}"] = values[metric]
    return scores


def _get_method(key: str) -> str:
    """The method of a run's key; of its variants, runs take about as long."""
    return re.split(r"[/\[@]", key, maxsplit=1)[0]


def _estimate_training_left(work: Work) -> float:
    training = work.training
    if training is None:
        return 0.0
    return (training.steps - training.step) / training.rate
