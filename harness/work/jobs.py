"""The jobs of a plan: its unfinished runs, and before them the preparation of inputs that several
runs share.

Weights of a teacher, tokens of a corpus, filter banks and features are made once, so that no run
occupies a GPU while waiting for another run. All but weights are kept in the cache folder; a run
that does not find them there makes them itself. Models are imported where jobs are performed: the
process that distributes jobs needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from harness.encoders.locate import ModelSource
from harness.planning.experiments import Experiment
from harness.planning.inventory import Inventory, UsedCorpus
from harness.planning.plan import Plan, PlannedRun
from harness.planning.teachers import FeatureOwner, NamedTeacher, load_pairs
from harness.runs.execution import Seat
from harness.sources import digest
from harness.spec import MEDIA
from harness.store import Store
from harness.work.failures import describe_error, limit_time
from harness.work.job import Job, Prepared, RunJob
from harness.work.resources import (
    PROCESS_MB,
    TEACHER_MB,
    Estimates,
    Resources,
    estimate_resources,
)

#: makes an input, with a seat
Make = Callable[[Seat], None]
#: adds a preparation to the jobs: its id, key, `Make`, the ids it needs and its resources; returns
#: the id
Prepare = Callable[..., str]
#: Needs of a preparation without a model.
NO_MODEL = Resources(memory_mb=2 * PROCESS_MB)


def list_jobs(plan: Plan, chunk: int | None = None, limit_s: float | None = None) -> list[Job]:
    """The jobs in the plan's order, each after those that it needs; `chunk` and `limit_s` are those
    of the jobs.

    The paths of jobs are absolute, since plug-in code may change the working folder.
    """
    jobs: dict[str, Job] = {}
    inventory = plan.inventory
    store = Store(plan.store.root.absolute())

    def add_preparation(
        read: Experiment,
        id_: str,
        key: str,
        make: Make,
        needs: Iterable[str] = (),
        takes: Resources = NO_MODEL,
    ) -> str:
        """Add a preparation, unless its id is known; return the id."""
        made = Preparation(
            id_, key, inventory, store, frozenset(needs), read, make, takes, limit_s=limit_s
        )
        return jobs.setdefault(id_, made).id

    for run in plan.todo:
        prepare = partial(add_preparation, run.experiment)
        for teacher in run.experiment.teachers:
            if teacher.resolved.trains:  # one that is to do is a run, which leaves its weights
                of_teachers = (other.fingerprint for other in teacher.teachers)
                make = partial(_make_weights, teacher, store, chunk)
                prepare(
                    teacher.fingerprint,
                    f"weights of {teacher.key}",
                    make,
                    of_teachers,
                    estimate_resources(teacher, chunk),
                )
        needs = {teacher.fingerprint for teacher in run.experiment.teachers}
        needs.update(_prepare_inputs(run, inventory, store, prepare))
        about = run.fingerprint, run.key, inventory, store, frozenset(needs)
        jobs[run.fingerprint] = RunJob(*about, run, chunk, limit_s=limit_s)
    return list(jobs.values())


def _prepare_inputs(
    run: PlannedRun, inventory: Inventory, store: Store, prepare: Prepare
) -> Iterator[str]:
    """Prepare what a run reads for its training, and for the suites that it is evaluated on."""
    read = run.experiment
    length = run.resolved.training.max_length
    for corpus in read.corpora:
        content = corpus.read.fingerprint
        if corpus.stream == "audio":
            yield prepare(
                digest("recordings", content),
                f"recordings of {corpus.name}",
                partial(_make_recordings, corpus),
            )
        elif corpus.stream not in MEDIA:
            key = f"tokens of {corpus.name} for {run.resolved.spec.encoder}"
            make = partial(_make_tokens, corpus, read.encoder.source, length)
            yield prepare(digest("tokens", content, read.encoder.fingerprint, length), key, make)
    asked: list[tuple[NamedTeacher, FeatureOwner]] = []
    asked += [(role.teacher, corpus) for role in read.features.values() for corpus in role.corpora]
    tests = read.test_features([inventory.suites[name] for name in run.todo])
    asked += [(teacher, inventory.retrieval_task(task)) for task, teacher in tests]
    for teacher, owner in asked:
        if not teacher.unable or teacher.is_stored(
            owner
        ):  # else the run says why it has no features
            yield from _prepare_features(teacher, owner, read, store, prepare)


def _prepare_features(
    teacher: NamedTeacher, owner: FeatureOwner, read: Experiment, store: Store, prepare: Prepare
) -> list[str]:
    """Prepare features, after those that their teacher is fitted on."""
    stored = teacher.is_stored(owner)
    fitted = (
        []
        if stored
        else [
            _prepare_features(inner, corpus, read, store, prepare)
            for inner, corpus in teacher.fitted_on
        ]
    )
    before = [id_ for ids in fitted for id_ in ids]
    name = owner.name if isinstance(owner, UsedCorpus) else owner.source.name
    key = f"{teacher.name} features of the {teacher.of.removesuffix('s')}s of {name}"
    make = partial(_make_features, teacher, owner, read, store)
    needs = [] if stored else [*teacher.runs, *before]
    takes = Resources(memory_mb=PROCESS_MB + TEACHER_MB, gpu_memory_mb=0 if stored else TEACHER_MB)
    return [*before, prepare(teacher.key(owner), key, make, needs, takes)]


@dataclass(frozen=True, eq=False)
class Preparation(Job):
    """A shared input that is made once. `experiment` is the first run that reads it, `takes` the
    resources it needs.

    `make` is a function of this module with its first arguments; it makes the input, unless that
    exists.
    """

    experiment: Experiment
    make: Make
    takes: Resources

    def estimate_resources(self, known: Estimates) -> Resources:
        return self.takes

    def carry_out(self, seat: Seat) -> Prepared:
        """Make it on the seat's device."""
        self.experiment.check_code()
        with limit_time(self.limit_s):
            self.make(seat.taken())
        return Prepared(self.id)

    def fail(self, error: BaseException | str) -> Prepared:
        """Its end; the runs that need it record the failure."""
        return Prepared(self.id, describe_error(error))


def _make_weights(teacher: Experiment, store: Store, chunk: int | None, seat: Seat) -> None:
    """The weights of a run that is a teacher and was finished; it is trained again if they were
    removed.
    """
    from harness.runs.train import make_weights

    make_weights(teacher, store, seat.device, chunk)


def _make_tokens(corpus: UsedCorpus, encoder: ModelSource, max_length: int, seat: Seat) -> None:
    """The tokens of a text corpus for one encoder and length."""
    from harness.encoders.tokenizer import load_tokenizer
    from harness.encoders.weights import reading
    from harness.runs.inputs import token_file

    with reading(
        "model folder",
        encoder.path(),
        "it needs the files of a tokenizer, as transformers saves them",
    ):
        tokenizer = load_tokenizer(encoder.path())
    token_file(corpus, tokenizer, max_length)


def _make_recordings(corpus: UsedCorpus, seat: Seat) -> None:
    """The filter banks of an audio corpus, which computes and caches them when it is loaded."""
    corpus.read.current().load(corpus.read.root)


def _make_features(
    teacher: NamedTeacher, owner: FeatureOwner, read: Experiment, store: Store, seat: Seat
) -> None:
    """A teacher's features of a pair corpus or of a retrieval task."""
    from harness.runs.inputs import teacher_folders

    teacher.features(
        owner, load_pairs(owner, teacher.of), seat.device, teacher_folders(read, store)
    )
