"""A text teacher evaluated in the place of an encoder: its own vectors, with what it was made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from executor_jobs import experiment, with_teachers

import harness
from harness.encoders.teachers import open_teacher
from harness.errors import UserError
from harness.evaluation.sts import spearman
from harness.profiles import load_profile
from harness.profiles.schema import TeacherTable
from harness.registry import get
from harness.runs.inputs import TeacherVectors, load_training_inputs
from harness.toy import clip_folder

pytestmark = pytest.mark.usefixtures("small_toy_tests")

SENTENCES = ["the plain red circle at the left by noon", "a blue square", "two green squares"]
STUDENT = "run:none[pooling=mean]/none/toy-bert/seed-0"
FITTED = TeacherTable(kind="lit", images="toy-clip", captions=STUDENT, corpus="toy-pairs")


@pytest.mark.long
def test_a_fitted_teachers_vectors_are_those_of_its_fit_not_of_what_it_was_fitted_on() -> None:
    key = "none[pooling=mean,teacher=fitted]/none/toy-bert/seed-0"
    made = experiment(key, with_teachers(fitted=FITTED))
    (run,) = made.teachers
    assert run.key == STUDENT.removeprefix("run:")
    folders = {run.fingerprint: run.encoder.source.path()}
    teacher = load_training_inputs(made, "cpu", folders).student
    assert isinstance(teacher, TeacherVectors)
    vectors, untrained = teacher.embed(SENTENCES), teacher.encoder.embed(SENTENCES)
    assert vectors.shape[1] != untrained.shape[1]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)
    words = made.features["caption"].teacher.fit_in_words
    assert words.startswith(f"projections of toy-clip and {STUDENT}, fitted on toy-pairs")
    plain = experiment("none[pooling=mean]/none/toy-bert/seed-0", load_profile("tiny"))
    assert made.fingerprint != plain.fingerprint
    assert "heads" in made.identity


def test_a_run_of_a_teacher_alone_is_scored_by_its_vectors(tmp_path: Path) -> None:
    (run,) = harness.run(
        "tiny", methods="none[teacher=toy-clip]", suites="sts", results=tmp_path
    ).runs
    pairs = [pair for some in get("similarity task", "ToySTS").load(None).values() for pair in some]
    vectors = [
        open_teacher("open-clip", clip_folder()).captions([pair[side] for pair in pairs])
        for side in (0, 1)
    ]
    first, second = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors)
    expected = spearman((first * second).sum(1), np.array([pair[2] for pair in pairs]))
    scored = run.evaluations[0].scores["ToySTS"]["spearman"]
    assert scored == pytest.approx(100 * expected, abs=0.01)
    assert run.teachers["caption"].teacher == "toy-clip"
    with pytest.raises(UserError, match="evaluated the vectors of a teacher"):
        harness.load_model(run.spec.key, results=tmp_path)
