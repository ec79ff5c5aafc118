"""The jobs of a plan: its unfinished runs, and before them what several of them read.

Tokens of a corpus, filter banks and features of a teacher are made once, so that no run waits for another with a GPU in
its hands. They lie in the cache folder; a run that does not find them there makes them itself. Models are imported
where jobs are performed: the process that distributes jobs needs no torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from harness.corpora.base import Pairs
from harness.evaluation.retrieval import RetrievalTask
from harness.evaluation.suites import HasImages
from harness.planning.events import Event, Listener, Stage
from harness.planning.ingredients import Experiment
from harness.planning.inventory import Ingredient, Inventory, UsedCorpus
from harness.planning.plan import Plan, PlannedRun
from harness.planning.teachers import KnownPairs, NamedTeacher
from harness.runs.environment import Allocation, DeviceChoice, Resources
from harness.sources import digest
from harness.spec import MEDIA
from harness.store import Store
from harness.store.folder import LAST_AFTER, attempt
from harness.work.estimates import PROCESS_MB, TEACHER_MB, Estimates
from harness.work.failures import all_of, described, time_limit
from harness.work.job import Job, Prepared, RunJob, machine_of

if TYPE_CHECKING:
    from harness.runs.train import Bench


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
        yield FeaturesOfCorpus(self.inventory, self.store, needs, key, self.experiment, teacher, corpus.name, corpus)

    def _of_task(self, teacher: NamedTeacher, name: str) -> Iterator[Preparation]:
        """Features of a retrieval task, after those that their teacher is fitted on."""
        task, fitted = self.inventory.retrieval_task(name), list(self._fitted_on(teacher))
        yield from fitted
        key = digest("test features", teacher.test_identity(task.fingerprint, self._length))
        needs = frozenset({*teacher.runs, *(one.id for one in fitted)})
        yield FeaturesOfTask(self.inventory, self.store, needs, key, self.experiment, teacher, task.source.name, task)

    def _fitted_on(self, teacher: NamedTeacher) -> Iterator[Preparation]:
        for inner, corpus in teacher.fitted_on:
            yield from self._of_corpus(inner, corpus)

    @property
    def _length(self) -> int:
        return self.experiment.resolved.training.max_length


@dataclass(frozen=True, eq=False)
class Preparation(Job):
    """Something that is made once. `experiment` is the first run that reads it."""

    digest: str
    experiment: Experiment

    @property
    def id(self) -> str:
        return self.digest

    def check(self, device: DeviceChoice) -> None:
        """Nothing; the runs are checked."""

    def resources(self, known: Estimates) -> Resources:
        return Resources(memory_mb=2 * PROCESS_MB)

    @abstractmethod
    def make(self, bench: Bench) -> None:
        """Make it, or find that it is there."""

    def carry_out(self, allocation: Allocation, listen: Listener) -> Prepared:
        """Make it on the allocation's device; events have the preparation's key."""
        from harness.runs.train import Bench

        self.experiment.check_code()
        machine = machine_of(allocation)
        with time_limit(self.limit_s):
            self.make(Bench(self.store, machine.device, lambda event: listen(self._own(event))))
        listen(Event("prepared", self.key))
        return Prepared(self.id)

    def fail(self, error: BaseException | str, listen: Listener) -> Prepared:
        """Report that it failed; the runs that need it record the failure."""
        listen(Event("prepared", self.key, error=described(error)))
        return Prepared(self.id, described(error), all_of(error))

    def _own(self, event: Event) -> Event:
        """An event of the first run under this key; those of teachers that are trained for it stay as they are."""
        return Event("prepare", self.key, stage=event.stage) if event.run == self.experiment.key else event


@dataclass(frozen=True, eq=False)
class TokensOfCorpus(Preparation):
    """The tokens of a text corpus for one encoder and length."""

    corpus: UsedCorpus

    @property
    def key(self) -> str:
        return f"tokens of {self.corpus.name} for {self.experiment.resolved.spec.encoder}"

    def make(self, bench: Bench) -> None:
        from harness.encoders.student import Student
        from harness.runs.train import token_file

        def listen(stage: Stage) -> None:
            bench.listen(Event("prepare", self.experiment.key, stage=stage))

        run, source = self.experiment.resolved, self.experiment.ingredients.encoder.source
        student = Student.load(source.path(), run.pooling, own_head=False)
        token_file(self.corpus, student.tokenizer, run.training.max_length, listen)


@dataclass(frozen=True, eq=False)
class RecordingsOfCorpus(Preparation):
    """The filter banks of an audio corpus."""

    corpus: UsedCorpus

    @property
    def key(self) -> str:
        return f"recordings of {self.corpus.name}"

    def make(self, bench: Bench) -> None:
        """Load the corpus, which keeps what it computes."""
        self.corpus.read.source.load(self.corpus.read.root)


@dataclass(frozen=True, eq=False)
class Features(Preparation):
    """One teacher's features of the images, captions or tokens of something."""

    teacher: NamedTeacher
    where: str

    @property
    def key(self) -> str:
        return f"{self.teacher.name} features of the {self.teacher.of.removesuffix('s')}s of {self.where}"

    def resources(self, known: Estimates) -> Resources:
        """Those of a frozen model; no GPU where the features are stored in a file."""
        return Resources(memory_mb=PROCESS_MB + TEACHER_MB, gpu_memory_mb=0 if self.stored else TEACHER_MB)

    @property
    @abstractmethod
    def stored(self) -> bool:
        """Whether a file has them."""


@dataclass(frozen=True, eq=False)
class FeaturesOfCorpus(Features):
    """Features of a pair corpus."""

    corpus: UsedCorpus

    @property
    def stored(self) -> bool:
        return self.teacher.is_stored(self.corpus)

    def make(self, bench: Bench) -> None:
        """Compute the features; a run that is the teacher is trained first if its weights are gone."""
        from harness.runs.train import run_features

        context = run_features(self.experiment, bench).context
        self.teacher.features(KnownPairs.of_corpus(self.corpus), context)


@dataclass(frozen=True, eq=False)
class FeaturesOfTask(Features):
    """Features of a retrieval task, which suites ask the run for."""

    task: Ingredient[RetrievalTask]

    @cached_property
    def stored(self) -> bool:
        task = self.task
        known = isinstance(task.source, HasImages) and not task.source.computes(self.teacher.name, task.root)
        return known and self.teacher.of == "image"

    def make(self, bench: Bench) -> None:
        from harness.runs.train import run_features

        features, data = run_features(self.experiment, bench), self.task.source.load(self.task.root)
        if self.teacher.of == "image":
            assert isinstance(data.images, Pairs)
            features.of_images(data.images, self.task.fingerprint)
        else:
            features.of_captions(data.texts, self.task.fingerprint)
