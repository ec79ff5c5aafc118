"""Short jobs on the toy world, shared by the tests of executors."""

from __future__ import annotations

from pathlib import Path

from harness.execution.events import Event
from harness.execution.executors.jobs import jobs_of
from harness.execution.executors.run_job import RunJob
from harness.execution.plan import Plan, make_plan
from harness.execution.request import Request
from harness.profiles import load_profile
from harness.spec import Variant, parse_setting
from harness.store import Store

STUDENT = "simcse/toy/toy-bert/seed-0"
#: needs STUDENT as its teacher
TAUGHT = f"dalr[text=run:{STUDENT}]"


def plan(results: Path, *methods: str, seeds: tuple[int, ...] = (0,), **overrides: object) -> Plan:
    """A plan of runs of three steps each; `none` trains nothing and is planned without others."""
    trains = not any(method.startswith("none") for method in methods)
    request = Request(
        profile=load_profile("tiny"),
        methods=[Variant.parse(method) for method in methods],
        settings=[parse_setting("toy")],
        encoders=["toy-bert"],
        seeds=seeds,
        suites=["sts"],
        overrides={"steps": 3, "eval_every": 3, "batch_size": 8, **overrides} if trains else {},
    )
    return make_plan(request, Store(results))


def jobs(results: Path, *methods: str, seeds: tuple[int, ...] = (0,), **overrides: object) -> list[RunJob]:
    """The runs of such a plan as jobs, without their preparations."""
    made = jobs_of(plan(results, *methods, seeds=seeds, **overrides))
    return [job for job in made if isinstance(job, RunJob)]


def ignore(event: Event) -> None:
    """A listener that does nothing."""
