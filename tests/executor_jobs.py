"""Short jobs on the toy world, shared by the tests of executors."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.planning.events import Event, Listener
from harness.planning.inventory import Inventory
from harness.planning.plan import Plan, make_plan
from harness.planning.request import Request
from harness.processors import own_cores
from harness.profiles import Profile, load_profile
from harness.runs.environment import Allocation, DeviceChoice, Resources
from harness.spec import Variant, parse_setting
from harness.store import Store
from harness.work.estimates import Estimates
from harness.work.job import End, Job, Prepared, RunJob
from harness.work.jobs import jobs_of

STUDENT = "simcse/toy/toy-bert/seed-0"
#: needs STUDENT as its teacher
TAUGHT = f"dalr[text=run:{STUDENT}]"


def plan(
    results: Path,
    *methods: str,
    seeds: tuple[int, ...] = (0,),
    suites: Sequence[str] = ("sts",),
    profile: Profile | None = None,
    **overrides: object,
) -> Plan:
    """A plan of runs of three steps each; `none` trains nothing and is planned without others."""
    trains = not any(method.startswith("none") for method in methods)
    request = Request(
        profile=profile or load_profile("tiny"),
        methods=[Variant.parse(method) for method in methods],
        settings=[parse_setting("toy")],
        encoders=["toy-bert"],
        seeds=seeds,
        suites=suites,
        overrides={"steps": 3, "eval_every": 3, "batch_size": 8, **overrides} if trains else {},
    )
    return make_plan(request, Store(results))


def jobs(results: Path, *methods: str, seeds: tuple[int, ...] = (0,), **overrides: object) -> list[RunJob]:
    """The runs of such a plan as jobs, without their preparations."""
    made = jobs_of(plan(results, *methods, seeds=seeds, **overrides))
    return [job for job in made if isinstance(job, RunJob)]


@dataclass(frozen=True, eq=False)
class Stub(Job):
    """A job of a second or less that notes where it was performed, in `folder`; it needs no torch.

    Its memory is that of a GPU. Beside others on a card it needs `wants` of the card's memory.
    """

    name: str
    folder: Path
    memory_mb: int = 0
    wants: float = 0.0
    seconds: float = 0.0

    @property
    def id(self) -> str:
        return self.name

    @property
    def key(self) -> str:
        return self.name

    def resources(self, known: Estimates) -> Resources:
        return Resources(gpu_memory_mb=self.memory_mb)

    def check(self, device: DeviceChoice) -> None:
        """Runs anywhere."""

    def carry_out(self, allocation: Allocation, listen: Listener) -> End:
        card = os.environ["CUDA_VISIBLE_DEVICES"]
        note = {
            "card": card,
            "pid": os.getpid(),
            "share": allocation.gpu_share,
            "cores": own_cores(),
            "from": time.time(),
        }
        time.sleep(self.seconds)
        path = self.folder / f"{self.name}-{os.getpid()}.json"
        path.write_text(json.dumps({**note, "until": time.time()}))
        if allocation.gpu_share < self.wants:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return Prepared(self.id)

    def fail(self, error: BaseException | str, listen: Listener) -> Prepared:
        return Prepared(self.id, str(error))


def stubs(results: Path, count: int, **about: Any) -> list[Stub]:
    """Jobs without needs."""
    (results / "notes").mkdir(parents=True, exist_ok=True)
    inventory = Inventory(load_profile("tiny"), None, {})
    place = (inventory, Store(results), frozenset[str]())
    return [Stub(*place, f"stub-{number}", results / "notes", **about) for number in range(count)]


def notes(results: Path) -> list[dict[str, Any]]:
    """Where the stubs were performed, in the order of their starts."""
    found = [
        json.loads(path.read_text()) | {"name": path.stem.rpartition("-")[0]} for path in results.glob("notes/*.json")
    ]
    return sorted(found, key=lambda note: note["from"])


def ignore(event: Event) -> None:
    """A listener that does nothing."""
