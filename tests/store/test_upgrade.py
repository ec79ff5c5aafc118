"""Files that schema 1 wrote are read as results of schema 2, with the same numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UserError
from harness.metrics import ArrayName
from harness.sources import read_arrays
from harness.store import Result, Spec, Store, TeacherUse
from harness.store.upgrade import array_names

DATA = Path(__file__).parent / "data"
FIGURES = DATA / "tiny/mcse/toy/toy-bert/seed-0-86e8952d157e.json"
PARTS = DATA / "small/none[pooling=cls]/none/all-minilm-l6-v2/seed-0-af9c62eb8862.json"
FAILED = DATA / "failed/63d87192efce.json"


def old(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def old_names(result: Result) -> dict[str, dict[str, dict[str, float]]]:
    """The scores of a result as schema 1 wrote them, parts in the names of metrics."""
    return {
        evaluation.suite: {
            task: row
            | {
                f"{metric}[{part}]": value
                for part, values in evaluation.parts.get(task, {}).items()
                for metric, value in values.items()
            }
            for task, row in evaluation.scores.items()
        }
        for evaluation in result.evaluations
    }


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of its own with the schema-1 files."""
    shutil.copytree(DATA, tmp_path / "results")
    return Store(tmp_path / "results")


@pytest.mark.parametrize("path", [FIGURES, PARTS], ids=["figures", "parts"])
def test_every_number_is_the_same(path: Path) -> None:
    result, before = Store(DATA).read(path), old(path)
    assert old_names(result) == before["scores"]
    assert {one.suite: one.seconds for one in result.evaluations} == before["timings"]["evaluate_s"]
    assert result.train_seconds == before["timings"]["train_s"]
    assert result.seconds == pytest.approx(before["timings"]["total_s"])
    for name in ("dev", "losses", "spec"):
        assert getattr(result, name).model_dump() == before[name]
    for name in ("profile", "group", "overrides", "hardware", "packages", "started", "finished", "peak_memory_mb"):
        assert getattr(result, name) == before[name]


def test_the_training_is_the_identity_and_each_suite_has_its_protocol() -> None:
    result, before = Store(DATA).read(PARTS), old(PARTS)
    assert result.fingerprint == before["training_fingerprint"]
    assert result.profile_origin == "unknown"
    found = {one.suite: (one.protocol.version, one.protocol.data) for one in result.evaluations}
    assert found == {name: (one["version"], one["data"]) for name, one in before["protocols"].items()}
    sts = result.latest("sts")
    assert sts is not None
    assert (sts.protocol.metrics[0].name, sts.protocol.metrics[0].larger_is_better) == ("spearman", True)
    retrieval = result.latest("retrieval")
    assert retrieval is not None
    assert retrieval.warnings == ["retrieval: the model has no image side"]
    assert result.warnings == []


def test_parts_and_teachers_are_data() -> None:
    sts = Store(DATA).read(PARTS).latest("sts")
    assert sts is not None
    assert list(sts.parts["STS12"]) == ["MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"]
    assert sts.parts["STS12"]["MSRpar"] == {"spearman": 53.36415972869043, "pearson": 53.65276613031293, "n": 750.0}
    result = Store(DATA).read(FIGURES)
    assert result.teachers == {"image": TeacherUse(teacher="toy-clip", of="image")}
    assert "teachers" not in result.hyperparameters


def test_arrays_are_found_by_task_what_and_space() -> None:
    stored = read_arrays(FIGURES.with_suffix(".figures.npz"))
    arrays = Store(DATA).arrays(Store(DATA).read(FIGURES))
    assert len(arrays) == len(stored)
    np.testing.assert_array_equal(arrays[ArrayName("ToySTS", "cosine")], stored["ToySTS.cosine"])
    assert ArrayName("ToyRetrieval", "worst_rank", "own") in arrays
    assert array_names(["STS.b.tsne"]) == {"STS.b.tsne": ArrayName("STS.b", "tsne")}
    with pytest.raises(UserError, match="'nonsense' is not"):
        array_names(["nonsense"])


def test_a_file_is_found_by_the_fingerprint_of_its_training() -> None:
    store, before = Store(DATA), old(FIGURES)
    spec = Spec(**before["spec"])
    found = store.find("tiny", spec, before["training_fingerprint"])
    assert found == store.read(FIGURES)
    assert store.find("tiny", spec, before["fingerprint"]) is None
    assert store.log(found).startswith("2026-11-21T23:49:18Z  start mcse/toy/toy-bert/seed-0")


def test_two_files_of_one_training_are_one_result(store: Store) -> None:
    path = store.root / FIGURES.relative_to(DATA)
    later = old(path) | {"fingerprint": "e" * 64, "group": "f" * 64, "finished": "2027-01-01T00:00:00+00:00"}
    later["protocols"]["sts"] = {"version": 2, "data": "0" * 64}
    later["scores"]["sts"]["Avg"]["spearman"] = 99.0
    other = path.with_name(f"seed-0-{'e' * 12}.json")
    other.write_text(json.dumps(later))
    results, problems = store.load()
    assert problems == []
    (result,) = (one for one in results if one.profile == "tiny")
    assert [one.suite for one in result.evaluations] == ["sts", "figures", "retrieval", "sts"]
    assert [one.scores["Avg"].get("spearman") for one in result.evaluations if one.suite == "sts"] == [
        old(path)["scores"]["sts"]["Avg"]["spearman"],
        99.0,
    ]
    assert result.group == "f" * 64, "the newer file's"
    assert store.find("tiny", result.spec, result.fingerprint) == result
    later["scores"]["retrieval"]["Avg"]["t2i_R@1"] = 99.0
    other.write_text(json.dumps(later))
    results, (problem,) = store.load()
    assert not [one for one in results if one.profile == "tiny"]
    assert problem.startswith(
        f"the results {path} and {other} are of the same training but differ in retrieval; none is us"
    )


def test_a_failure_counts_for_its_key_until_the_run_succeeds(store: Store) -> None:
    (failure,) = store.failures()
    assert failure.error == old(FAILED)["error"]
    assert failure.concerns("tiny", failure.spec, "any training")
    assert not failure.concerns("small", failure.spec, "any training")
    finished = store.read(store.root / FIGURES.relative_to(DATA))
    store.save(finished)
    assert store.failures() == [failure], "another run"
    store.save(finished.model_copy(update={"spec": failure.spec}))
    assert store.failures() == []
    assert list((store.root / "failed").iterdir()) == []


def test_a_suite_that_is_not_installed_has_no_metrics(store: Store) -> None:
    path = store.root / PARTS.relative_to(DATA)
    content = old(path)
    for part in ("scores", "protocols"):
        content[part]["own suite"] = content[part].pop("geometry")
    content["timings"]["evaluate_s"].pop("geometry")
    path.write_text(json.dumps(content))
    evaluation = store.read(path).latest("own suite")
    assert evaluation is not None
    assert (evaluation.protocol.metrics, evaluation.seconds) == ((), 0.0)
    assert evaluation.scores == content["scores"]["own suite"]
