"""One run: its suites are evaluated once, and its arrays are saved before its result, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from harness.encoders.student import Student
from harness.evaluation.suites import SuiteScores
from harness.metrics import ArrayName
from harness.planning.plan import make_plan
from harness.planning.request import make_request
from harness.planning.selection import Selection
from harness.runs.environment import Allocation, Machine
from harness.runs.run import run_one
from harness.store import Result, Store
from harness.work.job import RunJob
from harness.work.jobs import jobs_of


class KilledError(Exception):
    pass


def test_a_run_killed_between_its_arrays_and_its_result_has_both_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = make_request(Selection("tiny", methods="none[pooling=mean]", seeds=1, suites="sts,geometry"))
    store = Store(tmp_path)
    (run,) = (plan := make_plan(request, store)).runs
    calls = []

    def evaluate(embed: object, root: Path | None) -> SuiteScores:
        calls.append(1)
        return SuiteScores(
            {"ToySTS": {"spearman": 1.0}, "Avg": {}}, arrays={ArrayName("ToySTS", "gold"): np.arange(len(calls))}
        )

    monkeypatch.setattr(plan.inventory.suites["sts"], "evaluate", evaluate)

    def killed(self: Store, result: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", killed)
        with pytest.raises(KilledError):
            run_one(run, plan.inventory, store, Machine("cpu", 1), lambda event: None)
    assert store.files() == []
    assert len(list(tmp_path.rglob("seed-0-*.npz"))) == 1

    result = run_one(run, plan.inventory, store, Machine("cpu", 1), lambda event: None)
    assert calls == [1], "a suite that was done is not evaluated again"
    assert store.load()[0] == [result]
    assert store.arrays(result)[ArrayName("ToySTS", "gold")].tolist() == [0]


def test_a_result_without_arrays_has_none(tmp_path: Path) -> None:
    request = make_request(Selection("tiny", methods="none[pooling=mean]", seeds=1, suites="sts"))
    (run,) = (plan := make_plan(request, Store(tmp_path))).runs
    result = run_one(run, plan.inventory, Store(tmp_path), Machine("cpu", 1), lambda event: None)
    assert Store(tmp_path).arrays(result) == {}
    assert not list(tmp_path.rglob("seed-*.npz"))


def test_a_run_with_a_teacher_of_images_and_captions_keeps_both_spaces(tmp_path: Path) -> None:
    request = make_request(
        Selection("tiny", methods="kdmcse", seeds=1, suites="figures", set=("steps=2", "eval_every=2", "batch_size=8"))
    )
    (run,) = (plan := make_plan(request, Store(tmp_path))).runs
    result = run_one(run, plan.inventory, Store(tmp_path), Machine("cpu", 1), lambda event: None)
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
    short = ("steps=2", "eval_every=2", "batch_size=8")
    plan = make_plan(
        make_request(Selection("tiny", methods="simcse", seeds=1, suites="sts", set=short)), Store(tmp_path)
    )
    (job,) = (job for job in jobs_of(plan, chunk=3) if isinstance(job, RunJob))
    result = job.perform(Allocation.equal("cpu", 1), lambda event: None)
    assert isinstance(result, Result)
    assert (result.hardware["chunk"], result.fingerprint) == (3, plan.runs[0].fingerprint)
    assert seen == 2 * [3, 3, 2, 3, 3, 2], "both passes of two steps"
