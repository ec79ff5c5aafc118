"""One run: its suites are evaluated once, and its arrays are saved before its result, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from executor_jobs import ignore, jobs, plan
from torch import Tensor

from harness.encoders.student import Student
from harness.evaluation.suites import SuiteScores
from harness.metrics import ArrayName
from harness.planning.plan import Plan
from harness.runs.environment import Allocation, Machine
from harness.runs.run import run_one
from harness.store import Result, Store


class KilledError(Exception):
    pass


def carried_out(made: Plan) -> Result:
    """The result of the one run of a plan."""
    return run_one(made.runs[0], made.inventory, made.store, Machine("cpu", 1), ignore)


def test_a_run_killed_between_its_arrays_and_its_result_has_both_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(tmp_path, "none[pooling=mean]", suites=("sts", "geometry"))
    store, calls = made.store, []

    def evaluate(embed: object, root: Path | None) -> SuiteScores:
        calls.append(1)
        return SuiteScores(
            {"ToySTS": {"spearman": 1.0}, "Avg": {}}, arrays={ArrayName("ToySTS", "gold"): np.arange(len(calls))}
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

    result = carried_out(made)
    assert calls == [1], "a suite that was done is not evaluated again"
    assert store.load()[0] == [result]
    assert store.arrays(result)[ArrayName("ToySTS", "gold")].tolist() == [0]


def test_a_result_without_arrays_has_none(tmp_path: Path) -> None:
    assert Store(tmp_path).arrays(carried_out(plan(tmp_path, "none[pooling=mean]"))) == {}
    assert not list(tmp_path.rglob("seed-*.npz"))


def test_a_run_with_a_teacher_of_images_and_captions_keeps_both_spaces(tmp_path: Path) -> None:
    result = carried_out(plan(tmp_path, "kdmcse", suites=["figures"], steps=2, eval_every=2))
    arrays = Store(tmp_path).arrays(result)
    # the toy teacher knows its captions, a method after two steps does not
    assert np.median(arrays[ArrayName("ToyRetrieval", "worst_rank", "teacher")]) < 10
    assert np.median(arrays[ArrayName("ToyRetrieval", "worst_rank", "own")]) > 50
    for space in ("teacher", "own"):
        assert arrays[ArrayName("ToyRetrieval", "similarity_true", space)].sum() == 1000
        assert arrays[ArrayName("ToyRetrieval", "similarity_other", space)].sum() == 999_000
    assert [one.suite for one in result.evaluations] == ["figures"]


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
    result = replace(job, chunk=3).perform(Allocation.equal("cpu", 1), ignore)
    assert isinstance(result, Result)
    assert (result.hardware["chunk"], result.fingerprint) == (3, job.id)
    assert seen == 2 * [3, 3, 2, 3, 3, 2], "both passes of two steps"
