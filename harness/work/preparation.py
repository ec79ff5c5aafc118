"""Work that several runs share, as jobs of their own: tokens of a corpus, filter banks, features of a teacher.

Each is done once, before the runs that read it, so that no run waits for another with a GPU in its hands. What is
prepared lies in the cache folder; a run that does not find it there makes it itself. Models are imported where jobs are
performed: the process that distributes jobs needs no torch.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from harness.corpora.base import Pairs
from harness.evaluation.retrieval import RetrievalTask
from harness.evaluation.suites import HasImages
from harness.planning.events import Event, Listener, Stage
from harness.planning.ingredients import Experiment
from harness.planning.inventory import Ingredient, UsedCorpus
from harness.planning.pairs import KnownPairs
from harness.planning.teachers import NamedTeacher
from harness.runs.resources import Allocation, DeviceChoice, Resources
from harness.work.estimates import PROCESS_MB, TEACHER_MB, Estimates
from harness.work.faults import all_of, described
from harness.work.job import Job, Prepared, machine_of
from harness.work.time_limit import time_limit

if TYPE_CHECKING:
    from harness.runs.train import Bench


@dataclass(frozen=True, eq=False)
class Preparation(Job):
    """Something that is made once. `experiment` is the first run that reads it."""

    digest: str
    experiment: Experiment

    @property
    def id(self) -> str:
        """A hash of everything that the outcome depends on."""
        return self.digest

    def check(self, device: DeviceChoice) -> None:
        """Nothing; the runs are checked."""

    def resources(self, known: Estimates) -> Resources:
        """No GPU."""
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
        """Corpus and encoder."""
        return f"tokens of {self.corpus.name} for {self.experiment.resolved.spec.encoder}"

    def make(self, bench: Bench) -> None:
        """Tokenise."""
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
        """The corpus."""
        return f"recordings of {self.corpus.name}"

    def make(self, bench: Bench) -> None:
        """Load the corpus, which keeps what it computes."""
        self.corpus.read.source.load(self.corpus.read.root)


@dataclass(frozen=True, eq=False)
class FeaturesOfCorpus(Preparation):
    """One teacher's features of the images, captions or tokens of a pair corpus."""

    corpus: UsedCorpus
    teacher: NamedTeacher

    @property
    def key(self) -> str:
        """Teacher, kind and corpus."""
        return _features(self.teacher, self.corpus.name)

    def resources(self, known: Estimates) -> Resources:
        """Resources of a frozen model; no GPU where the features are stored in a file."""
        return _at_work(stored=self.teacher.is_stored(self.corpus))

    def make(self, bench: Bench) -> None:
        """Compute the features; a run that is the teacher is trained first if its weights are gone."""
        from harness.runs.train import run_features

        context = run_features(self.experiment, bench).context
        self.teacher.features(KnownPairs.of_corpus(self.corpus), context)


@dataclass(frozen=True, eq=False)
class FeaturesOfTask(Preparation):
    """One teacher's features of the images or captions of a retrieval task, which suites ask the run for."""

    task: Ingredient[RetrievalTask]
    teacher: NamedTeacher

    @property
    def key(self) -> str:
        """Teacher, kind and task."""
        return _features(self.teacher, self.task.source.name)

    def resources(self, known: Estimates) -> Resources:
        """Resources of a frozen model; no GPU where the features are stored in a file."""
        return _at_work(stored=self._stored)

    @cached_property
    def _stored(self) -> bool:
        task = self.task
        known = isinstance(task.source, HasImages) and not task.source.computes(self.teacher.name, task.root)
        return known and self.teacher.of == "image"

    def make(self, bench: Bench) -> None:
        """Compute the features as the run's embedder would."""
        from harness.runs.train import run_features

        features, data = run_features(self.experiment, bench), self.task.source.load(self.task.root)
        if self.teacher.of == "image":
            assert isinstance(data.images, Pairs)
            features.of_images(data.images, self.task.fingerprint)
        else:
            features.of_captions(data.texts, self.task.fingerprint)


def _features(teacher: NamedTeacher, where: str) -> str:
    return f"{teacher.name} features of the {teacher.of.removesuffix('s')}s of {where}"


def _at_work(*, stored: bool) -> Resources:
    return Resources(memory_mb=PROCESS_MB + TEACHER_MB, gpu_memory_mb=0 if stored else TEACHER_MB)
