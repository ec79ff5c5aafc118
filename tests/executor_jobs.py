"""Short jobs on the toy world, and jobs that need no torch and write down what happens to them."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.events import Event, Stage, tell
from harness.grid import make_grid, resolve
from harness.planning.experiments import Experiment, Experiments
from harness.planning.inventory import Inventory
from harness.planning.plan import Plan, make_plan
from harness.planning.request import Request
from harness.processors import count_own_cores
from harness.profiles import Profile, load_profile
from harness.profiles.schema import TeacherTable
from harness.registry import get_class
from harness.runs.execution import Seat
from harness.spec import RunSpec, Variant, parse_setting
from harness.store import Result, Store
from harness.toy.corpora import ToyCorpus
from harness.work.job import End, Job, Prepared, RunJob
from harness.work.jobs import list_jobs
from harness.work.resources import Estimates, Resources

log = logging.getLogger("cluster")
STUDENT = "simcse/toy/toy-bert/seed-0"
#: how many times smaller the corpora of `small_world` are
SMALLER = 32
#: needs STUDENT as its teacher
TAUGHT = f"dalr[text=run:{STUDENT}]"
READER = "none[pooling=mean]/none/toy-bert/seed-0"


@cache
def small_world() -> Profile:
    """The profile `tiny` with a small part of each corpus, as runs of some steps read no more."""
    tiny = load_profile("tiny")
    corpora = {}
    for name, corpus in tiny.corpora.items():
        rows = get_class("corpus", corpus.kind, ToyCorpus).rows
        corpora[name] = corpus.model_copy(update={"size": rows // SMALLER})
    return tiny.model_copy(update={"corpora": corpora})


def plan(
    results: Path,
    *methods: str,
    setting: str = "toy",
    seeds: tuple[int, ...] = (0,),
    suites: Sequence[str] = ("sts",),
    profile: Profile | None = None,
    **overrides: object,
) -> Plan:
    """A plan of runs of three steps each, and of `none`, which trains nothing."""
    trains = not all(method.startswith("none") for method in methods)
    profile = profile or small_world()
    variants = [Variant.parse(method) for method in methods]
    wanted = dict.fromkeys(
        make_grid(profile, variants, [parse_setting(setting)], ["toy-bert"], seeds), suites
    )
    values = {"steps": 3, "eval_every": 3, "batch_size": 8, **overrides} if trains else {}
    return make_plan(Request(profile, wanted, values), Store(results))


def experiment(
    key: str, profile: Profile | None = None, root: Path | None = None, **overrides: Any
) -> Experiment:
    """What a run of a profile is, of the small world unless another is given."""
    profile = profile or small_world()
    return Experiments(Inventory(profile, root, {}), overrides).find(
        resolve(profile, RunSpec.parse(key), overrides)
    )


def with_teachers(profile: Profile | None = None, **tables: TeacherTable) -> Profile:
    """A profile with more teachers: the small world unless another is given."""
    tiny = profile or small_world()
    return tiny.model_copy(update={"teachers": {**tiny.teachers, **tables}})


def with_lit(profile: Profile | None = None) -> Profile:
    """Such a profile with a dual encoder fitted on toy CLIP's picture features and the untrained
    student's.
    """
    return with_teachers(
        profile,
        lit=TeacherTable(
            kind="lit", images="toy-clip", captions=f"run:{READER}", corpus="toy-pairs"
        ),
    )


def jobs(
    results: Path, *methods: str, seeds: tuple[int, ...] = (0,), **overrides: object
) -> list[RunJob]:
    """The runs of such a plan as jobs, without their preparations."""
    made = list_jobs(plan(results, *methods, seeds=seeds, **overrides))
    return [job for job in made if isinstance(job, RunJob)]


def scored(runs: Iterable[Result]) -> dict[str, object]:
    """What must be equal bit for bit in two runs of one configuration, by key; times are left out."""
    return {
        run.spec.key: (
            run.fingerprint,
            run.losses,
            run.dev,
            [(e.suite, e.scores, e.parts) for e in run.evaluations],
        )
        for run in runs
    }


def scores(results: Path) -> dict[str, object]:
    """The same of the finished runs of a folder."""
    return scored(Store(results).load()[0])


@dataclass(frozen=True, eq=False)
class Errand(Job):
    """Appends what it does to RESULTS/notes/KEY.

    It may fail, be killed, or wait for a signal until it was asked to stop as often as `stops`
    says. `memory_mb` is that of a GPU.
    """

    memory_mb: int = 0
    fails: bool = False
    killed: bool = False
    stops: int = 0

    def estimate_resources(self, known: Estimates) -> Resources:
        return Resources(memory_mb=700, gpu_memory_mb=self.memory_mb)

    def note(self, text: str) -> None:
        path = self.store.root / "notes" / self.key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as stream:
            stream.write(f"{text}\n")

    def carry_out(self, seat: Seat) -> End:
        self.note(f"{seat.device} {seat.cpus}")
        tell(Event("start", device="cpu"))
        if self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        while notes(self.store.root, self.key).count("stopped") < self.stops:
            try:
                tell(Event("prepare", stage=Stage("tokens", "stub", 0)))
            except BaseException:
                self.note("stopped")
                raise
            time.sleep(0.02)
        if self.fails:
            raise ValueError("no such luck")
        return Prepared(self.id)

    def fail(self, error: BaseException | str) -> Prepared:
        self.note(f"failed: {error}")
        return Prepared(self.id, str(error))


@dataclass(frozen=True, eq=False)
class Stub(Errand):
    """Takes `seconds` and notes where it was performed; beside others on a card it `wants` so much
    of its memory.
    """

    wants: float = 0.0
    seconds: float = 0.0

    def carry_out(self, seat: Seat) -> End:
        about = {
            "name": self.key,
            "pid": os.getpid(),
            "share": seat.gpu_share,
            "cores": count_own_cores(),
        }
        time.sleep(self.seconds)
        self.note(json.dumps({**about, "card": os.environ["CUDA_VISIBLE_DEVICES"]}))
        if seat.gpu_share < self.wants:
            from torch import OutOfMemoryError

            raise OutOfMemoryError("CUDA out of memory")
        return Prepared(self.id)


def errand(results: Path, name: str, *needs: Job, made: type[Errand] = Errand, **about: Any) -> Any:
    """A job that needs others."""
    inventory = Inventory(load_profile("tiny"), None, {})
    return made(
        f"{name:-<64}",
        name,
        inventory,
        Store(results),
        frozenset(need.id for need in needs),
        **about,
    )


def stubs(results: Path, count: int, **about: Any) -> list[Stub]:
    """Jobs without needs."""
    return [errand(results, f"stub-{number}", made=Stub, **about) for number in range(count)]


def notes(results: Path, name: str) -> list[str]:
    """What a job has written down."""
    path = results / "notes" / name
    return path.read_text().splitlines() if path.is_file() else []


def performed(results: Path) -> list[dict[str, Any]]:
    """Where stubs were performed, those of one in their order."""
    lines = (line for path in results.glob("notes/*") for line in path.read_text().splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def ignore(event: Event) -> None:
    """A listener that does nothing."""


class Told:
    """A listener that says what happens, and how far each run is."""

    def __init__(self) -> None:
        self.started, self.steps, self.resumed = (
            time.monotonic(),
            dict[str, int](),
            dict[str, int](),
        )

    def __call__(self, event: Event) -> None:
        if event.kind in ("start", "done", "failed", "prepared"):
            self.say(f"{event.kind:8} {event.run}{event.error and ': '}{event.error}")
        if event.progress:
            self.steps[event.run] = event.progress.step
            if event.progress.first and event.run not in self.resumed:
                self.resumed[event.run] = event.progress.first
                self.say(f"resumes  {event.run} at step {event.progress.first}")

    def say(self, text: str) -> None:
        log.info("%6.1f s  %s", time.monotonic() - self.started, text)
