"""What runs are evaluated with is prepared like what they train on: once, before them, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from executor_jobs import plan

from harness.planning.events import Event
from harness.profiles import load_profile
from harness.profiles.schema import TeacherTable
from harness.runs.environment import Allocation
from harness.runs.train import Bench, run_features
from harness.store import Store
from harness.work.estimates import TEACHER_MB, Estimates
from harness.work.job import Job, RunJob
from harness.work.jobs import FeaturesOfTask, jobs_of

READER = "none[pooling=mean]/none/toy-bert/seed-0"


def of_tests(listed: Sequence[Job]) -> list[FeaturesOfTask]:
    return [job for job in listed if isinstance(job, FeaturesOfTask)]


def test_features_of_test_images_are_one_job_of_all_runs_that_are_evaluated_on_them(tmp_path: Path) -> None:
    listed = jobs_of(
        plan(tmp_path, "simcse", "mcse", "mcse[images=shuffled]", seeds=(0, 1), suites=["sts", "retrieval", "figures"])
    )
    (features,) = of_tests(listed)
    assert features.key == "toy-clip features of the images of ToyRetrieval"
    assert features.resources(Estimates()).gpu_memory_mb == TEACHER_MB
    needed = {job.key.split("/")[0] for job in listed if features.id in job.needs}
    assert needed == {"mcse", "mcse[images=shuffled]"}
    assert not of_tests(jobs_of(plan(tmp_path, "mcse", suites=["sts"])))


def test_captions_have_features_for_the_suite_that_asks_their_teacher(tmp_path: Path) -> None:
    kinds = {
        suite: {job.teacher.of for job in of_tests(jobs_of(plan(tmp_path, "kdmcse", suites=[suite])))}
        for suite in ("retrieval", "figures")
    }
    assert kinds == {"retrieval": {"image"}, "figures": {"image", "caption"}}


def test_a_run_finds_what_was_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    listed = jobs_of(plan(tmp_path, "kdmcse", suites=["figures"]))
    prepared, (run,) = of_tests(listed), [job for job in listed if isinstance(job, RunJob)]
    made: list[Event] = []
    for job in prepared:
        job.perform(Allocation("cpu"), made.append)
    assert {event.run for event in made} == {job.key for job in prepared}
    task, events = prepared[0].task, list[Event]()
    data = task.source.load(None)
    features = run_features(run.run.experiment, Bench(Store(tmp_path), "cpu", events.append))
    content = run.inventory.retrieval_content("ToyRetrieval")
    captions = features.of_captions(data.texts, content)
    assert captions is not None
    assert (len(captions), len(features.of_images(data.images, content))) == (len(data.texts), 1000)
    assert not events, "nothing is computed"


def test_a_teacher_is_fitted_on_features_that_were_prepared_once_after_its_run(tmp_path: Path) -> None:
    lit = TeacherTable(kind="lit", images="toy-clip", captions=f"run:{READER}", corpus="toy-pairs")
    tiny = load_profile("tiny")
    profile = tiny.model_copy(update={"teachers": {**tiny.teachers, "lit": lit}})
    listed = jobs_of(plan(tmp_path, "kdmcse[images=lit]", profile=profile, suites=["figures"]))
    assert len({job.id for job in listed}) == len({job.key for job in listed}) == len(listed), "each once"
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
    places = {job.id: place for place, job in enumerate(listed)}
    assert all(places[need] < places[job.id] for job in listed for need in job.needs)
