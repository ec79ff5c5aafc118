"""Device, threads and revision of a run, as results record them."""

from __future__ import annotations

import pytest
import torch

from harness.errors import UserError
from harness.processors import cores
from harness.runs.environment import Allocation, Machine, package_versions, peak_memory_mb, pick_device, revision


def test_a_device_is_picked_and_a_missing_one_refused() -> None:
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="no CUDA device"):
            pick_device("cuda")


def test_runs_at_a_time_share_the_cores_unless_a_person_sets_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert Allocation.equal("cpu", 1).threads == cores()
    assert Allocation.equal("cpu", 10**6).threads == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Machine.of(Allocation.equal("cpu", 2)) == Machine("cpu", 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert Allocation.equal("cpu", 1).threads == cores()


def test_a_result_records_machine_packages_and_commit() -> None:
    machine = Machine("cpu", 2)
    assert machine.hardware() | {"processor": ""} == {
        "device": "cpu",
        "processor": "",
        "cores": cores(),
        "threads": 2,
    }
    assert peak_memory_mb("cpu") > 50
    assert package_versions()["torch"] == torch.__version__.partition("+")[0]
    commit = revision()
    assert commit is None or len(commit.rstrip("+")) == 40
