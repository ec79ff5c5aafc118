"""The jobs of a plan: its unfinished runs, and before them what several of them read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.inputs import MEDIA
from harness.planning.ingredients import Experiment
from harness.planning.inventory import Inventory, UsedCorpus
from harness.planning.plan import Plan, PlannedRun
from harness.planning.teachers import NamedTeacher
from harness.sources import digest
from harness.store import Store
from harness.store.folder import LAST_AFTER, attempt
from harness.work.job import Job
from harness.work.preparation import (
    FeaturesOfCorpus,
    FeaturesOfTask,
    Preparation,
    RecordingsOfCorpus,
    TokensOfCorpus,
)
from harness.work.run_job import RunJob


def jobs_of(plan: Plan, chunk: int | None = None, limit_s: float | None = None) -> list[Job]:
    """The jobs in the plan's order, each after those that it needs; `chunk` and `limit_s` are those of the jobs.

    Runs under which several processes died come last, with those that need them. The paths of jobs are absolute, since
    the code of others may change the working folder.
    """
    found: dict[str, Job] = {}
    store = Store(plan.store.root.absolute())
    for run in _deadly_last(plan.todo, store):
        needs = {teacher.fingerprint for teacher in run.experiment.teachers}
        for prepared in _Preparations(plan.inventory, store, run.experiment).of(run):
            found.setdefault(prepared.id, replace(prepared, limit_s=limit_s))
            needs.add(prepared.id)
        found[run.fingerprint] = RunJob(plan.inventory, store, frozenset(needs), run, chunk, limit_s=limit_s)
    return list(found.values())


def _deadly_last(runs: Sequence[PlannedRun], store: Store) -> list[PlannedRun]:
    last: dict[str, PlannedRun] = {}
    for run in runs:
        deadly = attempt(store, run.fingerprint).settled.deaths >= LAST_AFTER
        if deadly or any(teacher.fingerprint in last for teacher in run.experiment.teachers):
            last[run.fingerprint] = run
    return [*(run for run in runs if run.fingerprint not in last), *last.values()]


@dataclass(frozen=True)
class _Preparations:
    """What a run reads, apart from files."""

    inventory: Inventory
    store: Store
    experiment: Experiment

    def of(self, run: PlannedRun) -> Iterator[Preparation]:
        """Those of its training, and of the suites that it is evaluated on."""
        yield from self._training()
        for suite in (self.inventory.suites[name] for name in run.todo):
            kinds = ("image", "caption") if suite.asks_teacher else ("image",)
            teachers = [one for of, one in self.experiment.ingredients.test_teachers.items() if of in kinds]
            for teacher in teachers:
                yield from (job for task in suite.image_tasks for job in self._of_task(teacher, task))

    def _training(self) -> Iterator[Preparation]:
        read, place = self.experiment.ingredients, (self.inventory, self.store, frozenset[str]())
        for corpus in read.corpora:
            content = corpus.read.fingerprint
            if corpus.stream == "audio":
                yield RecordingsOfCorpus(*place, digest("recordings", content), self.experiment, corpus)
            elif corpus.stream not in MEDIA:
                key = digest("tokens", content, read.encoder.fingerprint, self._length)
                yield TokensOfCorpus(*place, key, self.experiment, corpus)
        for features in read.features.values():
            for corpus in features.corpora:
                yield from self._of_corpus(features.teacher, corpus)

    def _of_corpus(self, teacher: NamedTeacher, corpus: UsedCorpus) -> Iterator[Preparation]:
        """Features of a corpus, after those that its teacher is fitted on."""
        stored = teacher.is_stored(corpus)
        fitted = [] if stored else list(self._fitted_on(teacher))
        yield from fitted
        encoder = self.experiment.ingredients.encoder.fingerprint if teacher.of == "tokens" else None
        key = digest("features", [*teacher.identity(corpus, self._length), encoder])
        needs = frozenset(() if stored else {*teacher.runs, *(one.id for one in fitted)})
        yield FeaturesOfCorpus(self.inventory, self.store, needs, key, self.experiment, corpus, teacher)

    def _of_task(self, teacher: NamedTeacher, name: str) -> Iterator[Preparation]:
        """Features of a retrieval task, after those that their teacher is fitted on."""
        task, fitted = self.inventory.retrieval_task(name), list(self._fitted_on(teacher))
        yield from fitted
        key = digest("test features", teacher.test_identity(task.fingerprint, self._length))
        needs = frozenset({*teacher.runs, *(one.id for one in fitted)})
        yield FeaturesOfTask(self.inventory, self.store, needs, key, self.experiment, task, teacher)

    def _fitted_on(self, teacher: NamedTeacher) -> Iterator[Preparation]:
        for inner, corpus in teacher.fitted_on:
            yield from self._of_corpus(inner, corpus)

    @property
    def _length(self) -> int:
        return self.experiment.resolved.training.max_length
