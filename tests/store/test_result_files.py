"""The results folder: saving, merging, damaged files, locks and failures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from builders import failure, result, rewrite

from harness.errors import UserError
from harness.metrics import ArrayName
from harness.store import Evaluation, Protocol, Result, Store, find_results
from harness.store.schema import SCHEMA_VERSION

KEY = "simcse/toy/toy-bert/seed-0"


def evaluation(suite: str, value: float, version: int = 1) -> Evaluation:
    return Evaluation(
        suite=suite,
        protocol=Protocol(version=version, data="d" * 64),
        scores={"ToySTS": {"spearman": value}, "Avg": {"spearman": value}},
        parts={"ToySTS": {"easy": {"spearman": value / 2}}},
        finished="2026-02-02T00:00:00+00:00",
    )


def test_a_saved_result_is_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "a folder with 'quotes'")
    slashes = result("dalr[text=run:simcse/wiki/b/seed-0]", encoder="o/m")
    assert len(store.path(slashes).relative_to(store.root).parts) == 5, (
        "a name with a slash stays one folder"
    )
    assert store.path(result("mcse", encoder=".m")).parent.name == "%2Em", "no name hides a folder"
    shuffled = result("mcse[images=shuffled]")
    assert store.save(shuffled) == shuffled
    path = store.path(shuffled)
    assert path.relative_to(store.root).parts[:4] == (
        "tiny",
        "mcse[images=shuffled]",
        "toy",
        "toy-bert",
    )
    assert path.name == f"seed-0-{shuffled.fingerprint[:16]}.json"
    assert store.read(path) == shuffled
    assert store.load() == ([shuffled], [])
    assert store.find("tiny", shuffled.spec, shuffled.fingerprint) == shuffled
    assert store.find("tiny", shuffled.spec, "f" * 64) is None
    assert store.find("small", shuffled.spec, shuffled.fingerprint) is None
    path.with_name(f".{path.name}.123.tmp").write_text(path.read_text()[:50])
    assert store.files() == [path], "a file that is being written is no result"


def test_suites_and_protocols_are_added_and_scores_never_change(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.save(result(evaluations=[evaluation("sts", 40.0)]))
    again = [
        evaluation("sts", 99.0),
        evaluation("sts", 50.0, version=2),
        evaluation("geometry", 1.0),
    ]
    saved = store.save(result(evaluations=again, train_seconds=99.0))
    assert store.load() == ([saved], [])
    assert saved.evaluations == [*first.evaluations, *again[1:]]
    assert saved.latest("sts") == again[1]
    assert [each.suite for each in saved.current] == ["sts", "geometry"]
    assert saved.has_evaluation("sts", Protocol(version=1, data="d" * 64))
    assert not saved.has_evaluation("sts", Protocol(version=1, data="e" * 64))
    assert saved.latest("transfer") is None
    assert saved.train_seconds == first.train_seconds


def test_a_result_with_a_flipped_byte_or_cut_short_is_named_and_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    damaged, whole = store.save(result()), store.save(result(seed=1))
    path = store.path(damaged)
    content = path.read_bytes()
    for at in (*range(0, len(content) - 1, 37), *range(len(content) - 4, len(content) - 1)):
        for harmed in (content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :], content[:at]):
            path.write_bytes(harmed)
            results, (problem,) = store.load()
            assert results == [whole], at
            assert str(path) in problem
    with pytest.raises(UserError, match="cannot be used"):
        store.save(damaged)
    assert path.read_bytes() == harmed


def test_what_lies_where_a_result_belongs_is_not_taken_for_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    link, folder = store.path(result()), store.path(result(seed=1))
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "gone")
    folder.mkdir()
    for run in (result(), result(seed=1)):
        with pytest.raises(UserError, match=r"cannot be read .*; restore it, or move it away"):
            store.find("tiny", run.spec, run.fingerprint)


def test_a_result_of_the_schema_before_is_read_and_written_as_one_of_this(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.path(store.save(result()))
    later = ("trial", "gradients", "budget", "mixing", "inputs", "sessions")
    rewrite(path, lambda content: [content.pop(name) for name in later], schema_version=3)
    assert store.load() == ([result()], [])
    store.save(result(evaluations=[evaluation("figures", 1.0)]))
    assert f'"schema_version":{SCHEMA_VERSION}' in path.read_text()


def test_arrays_belong_to_an_evaluation_and_are_never_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, new = evaluation("figures", 1.0), evaluation("figures", 1.0, version=2)
    run = result(evaluations=[old])
    gold, texts = ArrayName("ToySTS", "gold"), ArrayName("a.b[c]", "texts", "own")
    store.save_arrays(run, old, {gold: np.arange(3), texts: np.array([["é", "long text"]])})
    store.save_arrays(run, old, {gold: np.zeros(9)})
    assert store.arrays(run)[gold].tolist() == [0, 1, 2]
    assert store.arrays(run)[texts].tolist() == [["é", "long text"]]
    both = result(evaluations=[old, new])
    store.save_arrays(both, new, {gold: np.ones(1)})
    assert store.arrays(both)[gold].tolist() == [1], "the newest evaluation's"
    assert store.arrays(run)[gold].tolist() == [0, 1, 2]
    assert store.arrays(result(seed=1)) == {}
    path, other = store.arrays_path(run, old), store.arrays_path(result(seed=1), old)
    store.save_arrays(
        result(seed=1), old, {gold: np.arange(3), texts: np.array([["é", "long text"]])}
    )
    assert path.read_bytes() == other.read_bytes()
    path.write_bytes(other.read_bytes()[:40])
    with pytest.raises(UserError, match=f"the arrays {path} cannot be read"):
        store.arrays(run)


def test_failures_are_listed_apart_and_cleared_by_success(tmp_path: Path) -> None:
    store, run = Store(tmp_path), result()
    store.save_failure(failure(run), "a line\n")
    assert store.failures() == [failure(run)]
    assert store.load() == ([], [])
    store.save(result(seed=1))
    assert store.failures() == [failure(run)]
    store.save(run)
    assert store.failures() == []
    assert list((tmp_path / "failed").iterdir()) == []


def test_a_failure_record_that_was_changed_is_named_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = Store(tmp_path).save_failure(failure(result(), "disk full"))
    text = path.read_text()
    for damaged in (
        text.replace("full", "fall"),
        text.replace('"digest"', '"digast"'),
        text[:-70] + "}",
    ):
        path.write_text(damaged)
        assert Store(tmp_path).failures() == []
        assert f"the failure record {path} cannot be read" in caplog.text
        caplog.clear()


def test_a_key_finds_every_configuration_and_a_file_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plain, small, slow, second = (
        store.save(run)
        for run in (
            result(),
            result(profile="small"),
            result(overrides={"learning_rate": 1e-5}),
            result(seed=1),
        )
    )
    assert (
        prints(find_results(store, KEY))
        == prints(store.find_by_key(plain.spec))
        == prints([plain, small, slow])
    )
    assert prints(store.seeds("tiny", plain.spec)[0]) == prints([plain, slow, second])
    assert find_results(store, KEY, "small") == [small]
    assert find_results(store, f"{store.path(slow)}") == [slow]
    assert Store.containing(store.path(slow)).root == tmp_path.resolve()
    assert store.has_key("tiny", plain.spec)
    assert not store.has_key("tiny", result(seed=2).spec)
    absent = {
        ("simcse/toy/toy-bert/seed-9", None): "there is no result of simcse/toy/toy-bert/seed-9 in",
        (KEY, "paper"): "under the profile 'paper'",
        ("nowhere.json", None): r"there is no file nowhere\.json",
    }
    for (text, profile), said in absent.items():
        with pytest.raises(UserError, match=said):
            find_results(store, text, profile)


def prints(results: Sequence[Result]) -> set[str]:
    return {run.fingerprint for run in results}
