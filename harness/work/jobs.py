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
        experiment: Experiment,
        id_: str,
        key: str,
        make: Make,
        needs: Iterable[str] = (),
        takes: Resources = NO_MODEL,
    ) -> str:
        """Add a preparation, unless its id is known; return the id."""
        if id_ not in jobs:
            jobs[id_] = Preparation(
                id_,
                key,
                inventory,
                store,
                frozenset(needs),
                experiment,
                make,
                takes,
                limit_s=limit_s,
            )

        return id_

    for run in plan.todo:
        prepare = partial(add_preparation, run.experiment)
        needs = set()
        for teacher in run.experiment.teachers:
            needs.add(teacher.fingerprint)
            if teacher.resolved.trains:  # one that is to do is a run, which leaves its weights
                prepare(
                    teacher.fingerprint,
                    f"weights of {teacher.key}",
                    partial(_make_weights, teacher, store, chunk),
                    [inner.fingerprint for inner in teacher.teachers],
                    estimate_resources(teacher, chunk),
                )

        needs.update(_prepare_inputs(run, inventory, store, prepare))
        jobs[run.fingerprint] = RunJob(
            run.fingerprint,
            run.key,
            inventory,
            store,
            frozenset(needs),
            run,
            chunk,
            limit_s=limit_s,
        )

    return list(jobs.values())


def _prepare_inputs(
    run: PlannedRun, inventory: Inventory, store: Store, prepare: Prepare
) -> Iterator[str]:
    """Prepare what a run reads for its training, and for the suites that it is evaluated on."""
    experiment = run.experiment
    length = run.resolved.training.max_length
    for corpus in experiment.corpora:
        content = corpus.read.fingerprint
        if corpus.stream == "audio":
            key = f"recordings of {corpus.name}"
            yield prepare(digest("recordings", content), key, partial(_make_recordings, corpus))
        elif corpus.stream not in MEDIA:
            key = f"tokens of {corpus.name} for {run.resolved.spec.encoder}"
            encoder = experiment.encoder
            make = partial(_make_tokens, corpus, encoder.source, length)
            yield prepare(digest("tokens", content, encoder.fingerprint, length), key, make)

    owners: list[tuple[NamedTeacher, FeatureOwner]] = []
    for role in experiment.features.values():
        owners += [(role.teacher, corpus) for corpus in role.corpora]
    tests = experiment.list_test_teachers([inventory.suites[name] for name in run.todo])
    owners += [(teacher, inventory.find_retrieval_task(task)) for task, teacher in tests]
    for teacher, owner in owners:
        # else the run says why it has no features
        if not teacher.unable or teacher.is_stored(owner):
            yield from _prepare_features(teacher, owner, experiment, store, prepare)


def _prepare_features(
    teacher: NamedTeacher,
    owner: FeatureOwner,
    experiment: Experiment,
    store: Store,
    prepare: Prepare,
) -> list[str]:
    """Prepare features, after those that their teacher is fitted on."""
    ids = list[str]()
    needs = list[str]()
    gpu_memory_mb = 0
    if not teacher.is_stored(owner):
        for inner, corpus in teacher.fitted_on:
            ids += _prepare_features(inner, corpus, experiment, store, prepare)
        needs = [*teacher.runs, *ids]
        gpu_memory_mb = TEACHER_MB

    name = owner.name if isinstance(owner, UsedCorpus) else owner.source.name
    ids.append(
        prepare(
            teacher.make_key(owner),
            f"{teacher.name} features of the {teacher.of.removesuffix('s')}s of {name}",
            partial(_make_features, teacher, owner, experiment, store),
            needs,
            Resources(memory_mb=PROCESS_MB + TEACHER_MB, gpu_memory_mb=gpu_memory_mb),
        )
    )
    return ids


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
            self.make(seat.take())
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
    from harness.encoders.weights import convert_errors
    from harness.runs.inputs import load_token_file

    folder = encoder.path()
    advice = "it needs the files of a tokenizer, as transformers saves them"
    with convert_errors("model folder", folder, advice):
        tokenizer = load_tokenizer(folder)
    load_token_file(corpus, tokenizer, max_length)


def _make_recordings(corpus: UsedCorpus, seat: Seat) -> None:
    """The filter banks of an audio corpus, which computes and caches them when it is loaded."""
    corpus.read.current().load(corpus.read.root)


def _make_features(
    teacher: NamedTeacher, owner: FeatureOwner, experiment: Experiment, store: Store, seat: Seat
) -> None:
    """A teacher's features of a pair corpus or of a retrieval task."""
    from harness.runs.inputs import find_teacher_folders

    pairs = load_pairs(owner, teacher.of)
    teacher.load_features(owner, pairs, seat.device, find_teacher_folders(experiment, store))
