"""One run: suites evaluated once, arrays saved before the result, the machine recorded, each
sentence embedded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from executor_jobs import ignore, jobs, plan
from faults_tools import KilledError
from torch import Tensor

from harness.encoders.student import Student
from harness.evaluation.suites import SuiteScores
from harness.metrics import ArrayName
from harness.planning.plan import Plan
from harness.processors import count_cores
from harness.runs.evaluate import encode_dropout_views, remember_vectors
from harness.runs.execution import Seat
from harness.runs.run import run_one
from harness.store import Result, Store
from harness.toy import student_folder

pytestmark = pytest.mark.usefixtures("small_toy_tests")


def carried_out(made: Plan) -> Result:
    """The result of the one run of a plan."""
    return run_one(made.runs[0], made.inventory, made.store, Seat("cpu"))


def test_a_run_killed_between_its_arrays_and_its_result_has_both_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(tmp_path, "none[pooling=mean]", suites=("sts", "geometry"))
    store, calls = made.store, []

    def evaluate(embed: object, root: Path | None) -> SuiteScores:
        calls.append(1)
        return SuiteScores(
            {"ToySTS": {"spearman": 1.0}, "Avg": {}},
            arrays={ArrayName("ToySTS", "gold"): np.arange(len(calls))},
        )

    monkeypatch.setattr(made.inventory.suites["sts"], "evaluate", evaluate)

    def killed(self: Store, result: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", killed)
        with pytest.raises(KilledError):
            carried_out(made)
    assert store.files() == []
    assert len(list(tmp_path.rglob("seed-0-*.npz"))) == 1

    monkeypatch.setattr("socket.gethostname", lambda: "another-machine")
    result = carried_out(made)
    assert calls == [1], "a suite that was done is not evaluated again"
    first, second = result.sessions
    assert first.host != second.host == "another-machine"
    assert (result.started, result.hardware) == (first.started, second.hardware)
    assert not list(tmp_path.rglob("sessions.json")), "they are in the result"
    assert store.load()[0] == [result]
    assert store.arrays(result)[ArrayName("ToySTS", "gold")].tolist() == [0]


def test_a_result_without_arrays_has_none_and_records_machine_packages_and_commit(
    tmp_path: Path,
) -> None:
    result = carried_out(plan(tmp_path, "none[pooling=mean]"))
    assert Store(tmp_path).arrays(result) == {}
    assert not list(tmp_path.rglob("seed-*.npz"))
    machine = {"device": "cpu", "processor": "", "cores": count_cores(), "threads": 1}
    assert {**result.hardware, "processor": ""} == machine
    assert result.peak_memory_mb > 50
    assert result.packages["torch"] == torch.__version__.partition("+")[0]
    assert result.revision is None or len(result.revision.rstrip("+")) == 40


def test_runs_at_a_time_share_the_cores_unless_a_person_sets_the_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert Seat.equal("cpu", 1).threads == count_cores()
    assert Seat.equal("cpu", 10**6).threads == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Seat.equal("cpu", 2).threads == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert Seat.equal("cpu", 1).threads == count_cores()


def test_a_run_with_a_teacher_of_images_and_captions_keeps_both_spaces(tmp_path: Path) -> None:
    result = carried_out(plan(tmp_path, "kdmcse", suites=["figures"], steps=2, eval_every=2))
    arrays = Store(tmp_path).arrays(result)
    # the toy teacher knows its captions, a method after two steps does not
    assert np.median(arrays[ArrayName("ToyRetrieval", "worst_rank", "teacher")]) < 10
    assert np.median(arrays[ArrayName("ToyRetrieval", "worst_rank", "own")]) > 50
    for space in ("teacher", "own"):
        assert arrays[ArrayName("ToyRetrieval", "similarity_true", space)].sum() == 100
        assert arrays[ArrayName("ToyRetrieval", "similarity_other", space)].sum() == 100 * 99
    assert [evaluation.suite for evaluation in result.evaluations] == ["figures"]


def test_a_batch_is_encoded_a_few_rows_at_a_time_in_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of the fingerprint; the result records it."""
    seen: list[int] = []

    def encode(self: Student, inputs: Mapping[str, Tensor], views: int) -> Tensor:
        seen.append(len(inputs["input_ids"]))
        return original(self, inputs, views)

    original = Student.encode
    monkeypatch.setattr(Student, "encode", encode)
    (job,) = jobs(tmp_path, "simcse", steps=2, eval_every=2)
    result = replace(job, chunk=3).perform(Seat.equal("cpu", 1), ignore)
    assert isinstance(result, Result)
    assert (result.hardware["chunk"], result.fingerprint) == (3, job.id)
    assert seen == 2 * [3, 3, 2, 3, 3, 2], "both passes of two steps"


TEXTS = ["the red circle", "the blue ring", "the red circle"]


def test_each_sentence_is_embedded_once() -> None:
    asked: list[int] = []

    def counting(sentences: Sequence[str]) -> np.ndarray:
        asked.append(len(sentences))
        return np.array([[sum(map(ord, text))] for text in sentences])

    embed = remember_vectors({}, counting)
    for texts in (TEXTS, TEXTS, [*TEXTS, "another"]):
        np.testing.assert_array_equal(embed(texts), [[sum(map(ord, text))] for text in texts])
    assert asked == [2, 1]


def test_views_depend_on_their_seed_alone_and_leave_the_callers_random_state() -> None:
    student, state = Student.load(student_folder()), torch.random.get_rng_state()
    first = encode_dropout_views(student, TEXTS[:2], 3, seed=5)
    assert first.shape == (2, 3, student.width)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(3)
    np.testing.assert_array_equal(first, encode_dropout_views(student, TEXTS[:2], 3, seed=5))
    assert not np.allclose(first, encode_dropout_views(student, TEXTS[:2], 3, seed=6))
    assert not np.allclose(first[0, 0], first[0, 1]), "dropout is active"
