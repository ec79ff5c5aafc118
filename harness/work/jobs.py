"""The jobs of a plan: its unfinished runs, and before them the preparation of inputs that several runs share.

Tokens of a corpus, filter banks and features of a teacher are made once, so that no run occupies a GPU while waiting
for another run. They are kept in the cache folder; a run that does not find them there makes them itself. Models are
imported where jobs are performed: the process that distributes jobs needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from harness.corpora.base import Pairs
from harness.evaluation.retrieval import RetrievalTask
from harness.evaluation.suites import HasImages
from harness.planning.experiments import Experiment
from harness.planning.inventory import Ingredient, Inventory, UsedCorpus
from harness.planning.plan import Plan, PlannedRun
from harness.planning.teachers import KnownPairs, NamedTeacher
from harness.runs.environment import Seat
from harness.sources import digest
from harness.spec import MEDIA
from harness.store import Store
from harness.work.failures import described, time_limit
from harness.work.job import Job, Prepared, RunJob, seated
from harness.work.resources import PROCESS_MB, TEACHER_MB, Estimates, Resources

if TYPE_CHECKING:
    from harness.runs.train import Bench

    Make = Callable[[Experiment, Bench], None]


#: Needs of a preparation without a teacher's model.
NO_MODEL = Resources(memory_mb=2 * PROCESS_MB)


def jobs_of(plan: Plan, chunk: int | None = None, limit_s: float | None = None) -> list[Job]:
    """The jobs in the plan's order, each after those that it needs; `chunk` and `limit_s` are those of the jobs.

    The paths of jobs are absolute, since plug-in code may change the working folder.
    """
    jobs: dict[str, Job] = {}
    store = Store(plan.store.root.absolute())
    for run in plan.todo:
        needs = {teacher.fingerprint for teacher in run.experiment.teachers}
        for prepared in _Preparations(plan.inventory, store, run.experiment).of(run):
            jobs.setdefault(prepared.id, replace(prepared, limit_s=limit_s))
            needs.add(prepared.id)
        about = run.fingerprint, run.key, plan.inventory, store, frozenset(needs)
        jobs[run.fingerprint] = RunJob(*about, run, chunk, limit_s=limit_s)
    return list(jobs.values())


@dataclass(frozen=True)
class _Preparations:
    """The preparations of a run: the inputs that must be computed, such as tokens and features."""

    inventory: Inventory
    store: Store
    experiment: Experiment

    def of(self, run: PlannedRun) -> Iterator[Preparation]:
        """The preparations for a run's training, and for the suites that it is evaluated on."""
        yield from self._training()
        for suite in (self.inventory.suites[name] for name in run.todo):
            kinds = ("image", "caption") if suite.asks_teacher else ("image",)
            teachers = [teacher for of, teacher in self.experiment.test_teachers.items() if of in kinds]
            for teacher in teachers:
                yield from (job for task in suite.image_tasks for job in self._of_task(teacher, task))

    def _training(self) -> Iterator[Preparation]:
        read = self.experiment
        for corpus in read.corpora:
            content = corpus.read.fingerprint
            if corpus.stream == "audio":
                id_ = digest("recordings", content)
                yield self._job(f"recordings of {corpus.name}", partial(_recordings, corpus), id_)
            elif corpus.stream not in MEDIA:
                key = f"tokens of {corpus.name} for {self.experiment.resolved.spec.encoder}"
                id_ = digest("tokens", content, read.encoder.fingerprint, self._length)
                yield self._job(key, partial(_tokens, corpus), id_)
        for features in read.features.values():
            for corpus in features.corpora:
                yield from self._of_corpus(features.teacher, corpus)

    def _of_corpus(self, teacher: NamedTeacher, corpus: UsedCorpus) -> Iterator[Preparation]:
        """Features of a corpus, after the features that its teacher is fitted on."""
        stored = teacher.is_stored(corpus)
        fitted = [] if stored else list(self._fitted_on(teacher))
        yield from fitted
        encoder = self.experiment.encoder.fingerprint if teacher.of == "tokens" else None
        id_ = digest("features", [*teacher.identity(corpus, self._length), encoder])
        needs = [] if stored else [*teacher.runs, *(job.id for job in fitted)]
        make = partial(_features_of_corpus, teacher, corpus)
        yield self._job(_key(teacher, corpus.name), make, id_, needs, _model(computes=not stored))

    def _of_task(self, teacher: NamedTeacher, name: str) -> Iterator[Preparation]:
        """Features of a retrieval task, after the features that its teacher is fitted on."""
        task, fitted = self.inventory.retrieval_task(name), list(self._fitted_on(teacher))
        yield from fitted
        id_ = digest("test features", teacher.test_identity(task.fingerprint, self._length))
        needs = [*teacher.runs, *(job.id for job in fitted)]
        known = isinstance(task.source, HasImages) and not task.source.computes(teacher.name, task.root)
        make, takes = partial(_features_of_task, teacher, task), _model(computes=not (known and teacher.of == "image"))
        yield self._job(_key(teacher, task.source.name), make, id_, needs, takes)

    def _fitted_on(self, teacher: NamedTeacher) -> Iterator[Preparation]:
        for inner, corpus in teacher.fitted_on:
            yield from self._of_corpus(inner, corpus)

    def _job(
        self, key: str, make: Make, id_: str, needs: Iterable[str] = (), takes: Resources = NO_MODEL
    ) -> Preparation:
        return Preparation(id_, key, self.inventory, self.store, frozenset(needs), self.experiment, make, takes)

    @property
    def _length(self) -> int:
        return self.experiment.resolved.training.max_length


def _key(teacher: NamedTeacher, where: str) -> str:
    return f"{teacher.name} features of the {teacher.of.removesuffix('s')}s of {where}"


def _model(*, computes: bool) -> Resources:
    """Needs of a frozen model; no GPU if its features are read from a file."""
    return Resources(memory_mb=PROCESS_MB + TEACHER_MB, gpu_memory_mb=TEACHER_MB if computes else 0)


@dataclass(frozen=True, eq=False)
class Preparation(Job):
    """A shared input that is made once. `experiment` is the first run that reads it, `takes` the resources it needs.

    `make` is a function of this module with its first arguments; it makes the input, unless that exists.
    """

    experiment: Experiment
    make: Make
    takes: Resources

    def resources(self, known: Estimates) -> Resources:
        return self.takes

    def carry_out(self, seat: Seat) -> Prepared:
        """Make it on the seat's device."""
        from harness.runs.train import Bench

        self.experiment.check_code()
        device = seated(seat).device
        with time_limit(self.limit_s):
            self.make(self.experiment, Bench(self.store, device))
        return Prepared(self.id)

    def fail(self, error: BaseException | str) -> Prepared:
        """Its end; the runs that need it record the failure."""
        return Prepared(self.id, described(error))


def _tokens(corpus: UsedCorpus, experiment: Experiment, bench: Bench) -> None:
    """The tokens of a text corpus for one encoder and length."""
    from harness.encoders.weights import load_tokenizer, reading
    from harness.runs.train import token_file

    run, source = experiment.resolved, experiment.encoder.source
    with reading("model folder", source.path(), "it needs the files of a tokenizer, as transformers saves them"):
        tokenizer = load_tokenizer(source.path())
    token_file(corpus, tokenizer, run.training.max_length)


def _recordings(corpus: UsedCorpus, experiment: Experiment, bench: Bench) -> None:
    """The filter banks of an audio corpus, which computes and caches them when it is loaded."""
    corpus.read.current().load(corpus.read.root)


def _features_of_corpus(teacher: NamedTeacher, corpus: UsedCorpus, experiment: Experiment, bench: Bench) -> None:
    """A teacher's features of a pair corpus; a run that is the teacher is trained first if its weights are gone."""
    from harness.runs.train import run_features

    teacher.features(KnownPairs.of_corpus(corpus), run_features(experiment, bench).context)


def _features_of_task(
    teacher: NamedTeacher, task: Ingredient[RetrievalTask], experiment: Experiment, bench: Bench
) -> None:
    """A teacher's features of a retrieval task, which suites ask the run for."""
    from harness.runs.train import run_features

    features, data = run_features(experiment, bench), task.current().load(task.root)
    if teacher.of == "image":
        assert isinstance(data.images, Pairs)
        features.of_images(data.images, task.fingerprint)
    else:
        features.of_captions(data.texts, task.fingerprint)
