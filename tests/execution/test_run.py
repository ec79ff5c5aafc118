"""One run: its suites are evaluated once, and its arrays are saved before its result, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.evaluation.suites import SuiteScores
from harness.execution.environment import Machine
from harness.execution.plan import make_plan
from harness.execution.request import Selection, make_request
from harness.execution.run import run_one
from harness.metrics import ArrayName
from harness.store import Store


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
