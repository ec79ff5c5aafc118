"""The jobs of a plan: what is prepared before them, the order in which a queue gives them out, and
how they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from executor_jobs import READER, STUDENT, TAUGHT, ignore, jobs, plan, stubs, with_lit

from harness.errors import UserError
from harness.events import Event, listen_in
from harness.runs.execution import Seat
from harness.runs.inputs import find_teacher_folders, load_inputs
from harness.store import Failure, Result, Store
from harness.work import queue as queue_module
from harness.work.job import Again, Job, Prepared, RunJob
from harness.work.jobs import list_jobs
from harness.work.queue import Queue
from harness.work.resources import TEACHER_MB, Estimates


def of_tests(listed: Sequence[Job]) -> list[Job]:
    return [job for job in listed if job.key.endswith("s of ToyRetrieval")]


def test_what_runs_share_is_prepared_once_before_them(tmp_path: Path) -> None:
    listed = list_jobs(plan(tmp_path, "mcse", "kdmcse", TAUGHT, seeds=(0, 1)))
    keys = [job.key for job in listed if not isinstance(job, RunJob)]
    assert len(set(keys)) == len(keys), "each corpus is tokenised once, each teacher reads it once"
    assert {
        "tokens of toy-text for toy-bert",
        "toy-clip features of the images of toy-pairs",
    } <= set(keys)
    position = {job.id: number for number, job in enumerate(listed)}
    assert all(position[need] < position[job.id] for job in listed for need in job.needs)
    student = next(job for job in listed if job.key == STUDENT)
    (of_student,) = (job for job in listed if job.key.startswith(f"run:{STUDENT} features"))
    assert of_student.needs == {student.id}
    assert all(of_student.id in job.needs for job in listed if job.key.startswith(TAUGHT))
    assert not any(
        need in position and listed[position[need]].key.startswith("run:") for need in student.needs
    )


def test_features_of_test_images_are_one_job_of_all_runs_that_are_evaluated_on_them(
    tmp_path: Path,
) -> None:
    listed = list_jobs(
        plan(
            tmp_path,
            "simcse",
            "mcse",
            "mcse[images=shuffled]",
            seeds=(0, 1),
            suites=["sts", "retrieval", "figures"],
        )
    )
    (features,) = of_tests(listed)
    assert features.key == "toy-clip features of the images of ToyRetrieval"
    assert features.estimate_resources(Estimates()).gpu_memory_mb == TEACHER_MB
    needed = {job.key.split("/")[0] for job in listed if features.id in job.needs}
    assert needed == {"mcse", "mcse[images=shuffled]"}
    kinds = {
        suite: {
            job.key.split()[4]
            for job in of_tests(list_jobs(plan(tmp_path, "kdmcse", suites=[suite])))
        }
        for suite in ("sts", "retrieval", "figures")
    }
    assert kinds == {"sts": set(), "retrieval": {"images"}, "figures": {"images", "captions"}}, (
        "as the suite asks"
    )


def test_a_run_finds_what_was_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    listed = list_jobs(plan(tmp_path, "kdmcse", suites=["figures"]))
    prepared, (run,) = (
        [job for job in listed if not isinstance(job, RunJob)],
        [job for job in listed if isinstance(job, RunJob)],
    )
    made: list[Event] = []
    for job in prepared:
        job.perform(Seat("cpu"), made.append)
    assert {event.run for event in made} == {job.key for job in prepared}
    events = list[Event]()
    folders = find_teacher_folders(run.run.experiment, run.store)
    with listen_in("", events.append):
        tests = load_inputs(run.run, run.inventory, Seat("cpu"), folders).tests
    assert {name: len(rows) for name, rows in tests.items()} == {
        ("ToyRetrieval", of): 1000 for of in ("image", "caption")
    }
    assert not events, "nothing is computed"


def test_a_teacher_is_fitted_on_features_that_were_prepared_once_after_its_run(
    tmp_path: Path,
) -> None:
    listed = list_jobs(plan(tmp_path, "kdmcse[images=lit]", profile=with_lit(), suites=["figures"]))
    assert len({job.id for job in listed}) == len({job.key for job in listed}) == len(listed), (
        "each once"
    )
    named = {job.key: job for job in listed}
    fitted = {
        named["toy-clip features of the images of toy-pairs"].id,
        named[f"run:{READER} features of the captions of toy-pairs"].id,
    }
    projected = [job for job in listed if job.key.startswith("lit features")]
    assert {job.key.removeprefix("lit features of the ") for job in projected} >= {
        "images of toy-pairs",
        "images of ToyRetrieval",
    }
    assert all(job.needs == {*fitted, named[READER].id} for job in projected)
    assert named[READER].id in named[f"run:{READER} features of the captions of toy-pairs"].needs
    position = {job.id: number for number, job in enumerate(listed)}
    assert all(position[need] < position[job.id] for job in listed for need in job.needs)


def test_a_job_waits_for_the_training_of_its_teacher(tmp_path: Path) -> None:
    student, taught, other = jobs(tmp_path, TAUGHT, "simcse[temperature=0.1]")
    assert student.key == STUDENT
    assert student.id in taught.needs
    queue = Queue([taught, student, other])
    assert [queue.take(), queue.take(), queue.take()] == [student, other, None]
    queue.end(student, Prepared(student.id))
    assert queue.take() is taught
    assert len(queue) == 2


def test_what_needs_a_failed_job_fails_with_the_first_cause_and_costs_no_time(
    tmp_path: Path,
) -> None:
    first, second, third, other = jobs(
        tmp_path, f"dalr[text=run:{TAUGHT}/toy/toy-bert/seed-0]", "simcse[temperature=0.1]"
    )
    events: list[Event] = []
    queue = Queue([third, second, first, other], events.append)
    assert queue.take() is first
    queue.end(first, first.fail("no more memory"))
    assert {end.spec.key for end in queue.ends if isinstance(end, Failure)} == {
        first.key,
        second.key,
        third.key,
    }
    assert [event.kind for event in events] == ["failed"] * 3
    causes = [
        failure.error for failure in Store(tmp_path).failures() if failure.fingerprint != first.id
    ]
    assert causes == [f"{STUDENT} failed, which is needed here: no more memory"] * 2
    assert [queue.take(), queue.take(), len(queue)] == [other, None, 1]


def test_a_job_that_another_process_holds_comes_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = jobs(tmp_path, "simcse", seeds=(0, 1))
    queue = Queue([first, second])
    assert queue.take() is first
    queue.end(first, Again.HELD)
    assert [queue.take(), queue.take()] == [second, None]
    monkeypatch.setattr(queue_module, "RETRY_S", 0.0)
    queue.end(second, Again.HELD)
    assert [record.getMessage() for record in caplog.records] == [
        f"{first.key}: another command is working on it; waiting for it after the other runs"
    ]
    assert queue.take() is second


def test_a_job_that_does_not_fit_lets_others_pass_and_keeps_its_place(tmp_path: Path) -> None:
    first, second, third = jobs(tmp_path, "simcse", seeds=(0, 1, 2))
    queue = Queue([first, second, third])
    assert queue.take(lambda job: job is not first) is second
    queue.end(second, Again.MEMORY)
    assert [queue.take(), queue.take(), queue.take()] == [first, second, third]


def test_a_look_at_a_long_queue_asks_few_of_its_jobs(tmp_path: Path) -> None:
    waiting, asked = stubs(tmp_path, 1_000), list[Job]()
    queue = Queue(waiting)
    assert queue.take(lambda job: bool(asked.append(job))) is None
    assert asked == waiting[: queue_module.ASKED]
    last = queue_module.ASKED - 1
    assert queue.take(lambda job: job is waiting[last]) is waiting[last]


def test_a_stopped_queue_gives_out_nothing_and_ends_with_the_jobs_in_work(tmp_path: Path) -> None:
    first, second = jobs(tmp_path, "simcse", seeds=(0, 1))
    queue = Queue([first, second])
    assert queue.take() is first
    queue.stop()
    assert (queue.take(), len(queue)) == (None, 1)
    queue.end(first, Again.STOPPED)
    assert not queue


def test_a_held_lock_is_respected_and_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "none")
    with job.store.lock(job.id):
        assert job.perform(Seat("cpu", 1), ignore) is Again.HELD
    events: list[Event] = []
    result = job.perform(Seat("cpu", 1), events.append)
    assert isinstance(result, Result)
    kinds = [event.kind for event in events]
    assert kinds[:2] == ["start", "suite"]
    assert kinds[-1] == "evaluated", "its end is for the queue to announce"
    assert set(kinds[2:-1]) == {"evaluate"}
    assert job.perform(Seat("cpu", 1), events.append) == result
    assert len(events) == len(kinds), "nothing is done again"


def test_a_failure_is_recorded_with_its_log_and_reported(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "none")
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if event.kind == "suite":
            raise RuntimeError("no more memory")

    failure = job.perform(Seat("cpu", 1), listen)
    assert isinstance(failure, Failure)
    assert failure.error.startswith("RuntimeError: no more memory (")
    assert "no more memory" in failure.traceback
    assert Store(tmp_path).failures() == [failure]
    (log,) = (tmp_path / "failed").glob("*.log")
    assert "stopped by RuntimeError: no more memory" in log.read_text()
    assert job.fail(UserError("the file x is missing")).error == "the file x is missing", (
        "a line as it is"
    )
