"""Runs as teachers, dual encoders fitted on the way, and features that are computed once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import executor_jobs
import numpy as np
import pytest

from harness.encoders.student import Student
from harness.errors import UserError
from harness.planning.events import Event, Listener
from harness.planning.plan import Plan, PlannedRun
from harness.profiles import load_profile
from harness.runs.log import stage_text
from harness.runs.train import Bench, run_features, training_data
from harness.spec import CONTROLS
from harness.store import Result, Store
from harness.toy import student_folder
from harness.toy.corpora import ToyPairs
from harness.training.streams import TrainingData
from harness.work.base import execute

TEACHER = "run:simcse/toy/toy-bert/seed-0"


def plan(tmp_path: Path, *methods: str, **about: Any) -> Plan:
    return executor_jobs.plan(tmp_path / "results", *methods, **about)


def run(made: Plan) -> list[str]:
    events: list[Event] = []
    ends = execute(made, events.append, device="cpu")
    assert all(isinstance(end, Result) for end in ends), ends
    return [stage_text(event.stage) for event in events if event.stage and event.kind == "prepare"]


def data_of(run: PlannedRun, tmp_path: Path, listen: Listener = lambda event: None) -> TrainingData:
    bench = Bench(Store(tmp_path / "results"), "cpu", listen)
    tokenizer = Student.load(student_folder()).tokenizer
    return training_data(run_features(run.experiment, bench), tokenizer)


def test_another_teacher_is_another_experiment(tmp_path: Path) -> None:
    texts = [TEACHER, "run:simcse/toy/toy-bert/seed-1", "run:simcse[temperature=0.1]/toy/toy-bert/seed-0"]
    prints = [plan(tmp_path, f"dalr[text={text}]").runs[-1].fingerprint for text in texts]
    assert len(set(prints)) == 3


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ("run:simcse/nowhere/toy-bert/seed-0", "no setting 'nowhere'"),
        ("run:mcse/toy-text/toy-bert/seed-0", "cannot be trained: mcse needs image-caption pairs"),
        ("run:simcse/toy/no-bert/seed-0", "no encoder 'no-bert'"),
    ],
)
def test_a_teacher_that_cannot_be_is_one_line(tmp_path: Path, teacher: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refusal:
        plan(tmp_path, f"dalr[text={teacher}]")
    assert "\n" not in str(refusal.value)


def test_a_run_trains_its_teacher_first_and_reads_its_sentences(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    made = plan(tmp_path, f"dalr[text={TEACHER}]")
    told = run(made)
    assert any(TEACHER in text for text in told)
    results = [json.loads(path.read_text()) for path in (tmp_path / "results").rglob("seed-0-*.json")]
    assert {result["spec"]["method"] for result in results} == {"simcse", "dalr"}
    (dalr,) = (result for result in results if result["spec"]["method"] == "dalr")
    assert dalr["teachers"]["teacher1"] == {"teacher": TEACHER, "of": "caption", "source": "computed"}
    assert not plan(tmp_path, f"dalr[text={TEACHER}]").todo
    # what the run learnt from is what the finished teacher says of the captions
    one = next(run for run in made.runs if run.resolved.spec.variant.name == "dalr")
    data = data_of(one, tmp_path)
    folder = Store(tmp_path / "results").work(made.runs[0].fingerprint) / "best"
    rows = np.arange(5)
    captions = ToyPairs(**load_profile("tiny").corpora["toy-pairs"].options).load(None).texts
    said = Student.load(folder).embed(captions[:5])
    np.testing.assert_allclose(data.features["teacher1"][rows], said, atol=1e-5)


def test_a_teacher_whose_weights_were_removed_is_trained_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    run(plan(tmp_path, "simcse"))
    shutil.rmtree(tmp_path / "results" / ".work")
    made = plan(tmp_path, f"dalr[text={TEACHER}]")
    assert [one.key for one in made.todo] == [f"dalr[text={TEACHER}]/toy/toy-bert/seed-0"]
    run(made)
    assert (Store(tmp_path / "results").work(made.runs[0].fingerprint) / "best").is_dir()


def test_features_are_computed_once_for_all_runs(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    first, second = list[Event](), list[Event]()
    data_of(plan(tmp_path, "kdmcse").runs[0], tmp_path, first.append)
    assert any("toy-clip: features of captions" in stage_text(event.stage) for event in first if event.stage)
    data_of(plan(tmp_path, "kdmcse[margin=0.2]").runs[0], tmp_path, second.append)
    assert not second


@pytest.mark.long
def test_a_lit_teacher_gives_pictures_and_captions_one_space(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    made = plan(tmp_path, "kdmcse[images=lit]", profile=executor_jobs.with_lit())
    (one,) = (run for run in made.runs if run.resolved.spec.variant.name == "kdmcse")
    data = data_of(one, tmp_path)
    rows = np.arange(400)
    images, captions = (data.features[role][rows] for role in ("image", "caption"))
    assert images.shape == captions.shape
    cosines = captions @ images.T
    rank = (cosines > np.diag(cosines)[:, None]).sum(1)
    assert np.median(rank) < 60, "chance is 200"


def test_controls_are_drawn_from_the_real_features_or_noise(tmp_path: Path) -> None:
    found = {}
    for text in ("mcse", *(f"mcse[images={control}]" for control in CONTROLS)):
        made = plan(tmp_path, text)
        found[text] = data_of(made.runs[0], tmp_path).features["image"]
    rows = np.arange(len(found["mcse"]))
    plain, shuffled, random, noise = (values[rows] for values in found.values())
    assert not np.array_equal(plain, shuffled)
    np.testing.assert_array_equal(np.sort(plain, axis=0), np.sort(shuffled, axis=0))
    real, drawn = ({image.tobytes() for image in images} for images in (plain, random))
    assert drawn < real, "n draws with replacement miss some images"
    assert (plain == random).all(axis=1).mean() < 0.1, "a caption has the features of any image"
    assert noise.shape == plain.shape
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 1) < 0.01
