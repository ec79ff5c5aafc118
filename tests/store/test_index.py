"""The index of a results folder: equal to reading every file, whatever happened to the files or to
itself.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest
from builders import result, rewrite
from cases import mark_others_long

from harness.errors import UserError
from harness.files import add_seal
from harness.store import (
    Result,
    Store,
    describe_earlier_backends,
    frames_of,
    index,
    metrics_of,
)

REFERENCE = Path(__file__).parents[2] / "results" / "reference"


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of any number of files."""
    monkeypatch.setattr(index, "WORTH_FILES", 1)


@pytest.fixture
def store(tmp_path: Path, always: None, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Real results in a folder of their own, at a time when they are old enough to be trusted."""
    for runs in ("small/mcse", "small/none[pooling=cls]", "tiny/mcse@official"):
        shutil.copytree(REFERENCE / runs, tmp_path / "results" / runs)
    monkeypatch.setattr(time, "time_ns", lambda: 2 * 10**18)
    return Store(tmp_path / "results")


def overwrite(path: Path, content: bytes) -> None:
    """Change a file's content, and its time of change, but not the time of its content."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # within a tick of the file system's clock
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the result files that are read."""
    names: list[str] = []
    read = Store.read

    def counted(self: Store, path: Path) -> Result:
        names.append(path.name)
        return read(self, path)

    monkeypatch.setattr(Store, "read", counted)
    return names


def same(store: Store) -> bool:
    """Whether the index gives what the files hold."""
    (whole, problems), indexed = store.load(), store.frames()
    pandas.testing.assert_frame_equal(
        indexed.flat(), frames_of(whole).flat(), check_categorical=False
    )
    return (
        [*indexed] == whole
        and list(indexed.problems) == problems
        and metrics_of(indexed) == metrics_of(whole)
    )


def test_the_index_holds_what_tables_need_of_every_result(store: Store) -> None:
    assert same(store)
    again = store.frames()
    assert same(store)
    whole, _ = store.load()
    small = [run for run in whole if run.profile == "small"]
    assert 0 < len(small) < len(whole)
    assert [*again.where(profile=["small"])] == small
    assert [*again[1:9:3]] == whole[1:9:3]
    assert (len(again.where(profile=["none"])), again[-1]) == (0, whole[-1])


def test_two_files_of_one_training_are_one_result(tmp_path: Path, always: None) -> None:
    store = Store(tmp_path)
    first = store.save(result())
    second = result(
        scores={"geometry": {"ToySTS": {"alignment": 0.2}}}, finished="2027-01-01T00:00:00+00:00"
    )
    store.path(first).with_name(f"seed-0-{'e' * 16}.json").write_text(
        add_seal(second.model_dump_json())
    )
    (whole,) = store.load()[0]
    assert [evaluation.suite for evaluation in whole.evaluations] == ["sts", "geometry"]
    for _ in range(2):
        assert same(store)
        assert [*store.frames()] == [whole]


def test_a_copy_with_an_edited_score_is_not_used_and_two_that_differ_are_both_named(
    tmp_path: Path, always: None
) -> None:
    store = Store(tmp_path)
    first, other = store.save(result()), store.save(result(seed=1))
    path = store.path(first)
    copy = path.with_name("seed-0-copy.json")
    copy.write_bytes(path.read_bytes())

    def read() -> tuple[list[Result], list[str]]:
        assert same(store)
        return store.load()

    assert read() == ([first, other], []), "an exact copy"
    copy.write_text(path.read_text().replace("70.0", "71.0"))
    results, (problem,) = read()
    assert results == [first, other]
    assert f"the result {copy} cannot be used (its content does not match its digest" in problem
    changed = [
        each.model_copy(update={"scores": {"Avg": {"spearman": 71.0}}})
        for each in first.evaluations
    ]
    copy.write_text(add_seal(first.model_copy(update={"evaluations": changed}).model_dump_json()))
    results, (problem,) = read()
    assert results == [other]
    assert str(path) in problem
    assert f"{copy} are of the same training but differ in sts" in problem
    copy.unlink()
    elsewhere = store.save(first.model_copy(update={"profile": "small", "evaluations": changed}))
    results, (problem,) = read()
    assert results == [other], "one training under two profiles"
    assert all(str(store.path(result)) in problem for result in (first, elsewhere))
    store.path(elsewhere).unlink()
    elsewhere = store.save(first.model_copy(update={"profile": "small"}))
    assert read() == ([elsewhere, first, other], []), "... with the same scores"


def test_a_file_that_changed_but_for_its_size_and_time_is_read_again(store: Store) -> None:
    frames = store.frames()
    path, *others = store.files()
    content, size = path.read_bytes(), path.stat().st_size
    overwrite(path, content.replace(b'"seed":0', b'"seed":"'))
    assert path.stat().st_size == size
    assert len(store.frames()) == len(frames) - 1
    assert same(store)
    with pytest.raises(UserError, match=f"{path.name} cannot be used"):
        frames[0]
    assert len([*frames.iterate_readable()]) == len(frames) - 1
    path.write_bytes(others[0].read_bytes())
    with pytest.raises(UserError, match=f"{path.name} has changed in the meantime"):
        frames[0]


def test_only_new_and_changed_files_are_read(store: Store, reads: list[str]) -> None:
    assert len(store.frames()) == len(reads) > 10
    reads.clear()
    assert len(store.frames())
    assert reads == []
    later, earlier, gone, *_ = store.files()
    gone.unlink()
    for path, when in ((later, 10**18 + 999), (earlier, 10**18 - 999)):
        rewrite(path, train_seconds=4321.0)
        os.utime(path, ns=(when, when))
    new = store.path(store.save(result()))
    reads.clear()
    assert store.frames().runs["train_seconds"].tolist().count(4321.0) == 2
    assert sorted(reads) == sorted(path.name for path in (later, earlier, new))
    reads.clear()
    assert len(store.frames())
    assert reads == []
    assert same(store)


def test_a_file_is_read_again_while_its_time_may_hide_a_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the clock, and the number of files
    monkeypatch.setattr(index, "WORTH_FILES", 1)
    path = store.path(store.save(result()))
    assert len(store.frames())
    times = path.stat()
    path.write_text(path.read_text().replace('"train_seconds":', '"train_seconds":1'))
    path.write_text(path.read_text().rstrip("\n"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert same(store)


def test_a_result_that_another_user_was_refused_is_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Store, path: Path) -> Result:
        raise UserError(f"{path}: no permission")

    with monkeypatch.context() as other:
        other.setattr(Store, "read", refused)
        assert not len(store.frames())
    assert same(store)


def test_a_damaged_result_is_named_until_it_is_repaired(store: Store) -> None:
    assert store.frames().problems == []
    path = store.files()[3]
    text = path.read_text()
    path.write_text(text[:100])
    link = path.with_name("seed-9-0000.json")
    link.symlink_to("nowhere")
    path.with_name("seed-8-0000.json").mkdir()
    for _ in range(2):
        assert same(store)
        results = store.frames()
        assert len(results) == len(store.files()) - 3
        for each in (path, link, path.with_name("seed-8-0000.json")):
            assert [str(each) in line for line in results.problems].count(True) == 1
    link.unlink()
    path.with_name("seed-8-0000.json").rmdir()
    path.write_text(text)
    assert store.frames().problems == []
    assert same(store)


#: what a damaged index holds instead of its content; None: it is a folder
DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "flip": lambda content: content[:2000] + bytes([content[2000] ^ 1]) + content[2001:],
    "grown": lambda content: content + b"\0",
    "noise": lambda content: os.urandom(1000),
    "folder": None,
}


@pytest.mark.parametrize("damage", mark_others_long(DAMAGES, ["flip", "folder"]))
def test_a_damaged_index_is_made_again(store: Store, reads: list[str], damage: str) -> None:
    assert len(store.frames())
    (path,) = store.root.glob(".cache/*")
    content, damaged = path.read_bytes(), DAMAGES[damage]
    path.unlink()
    path.write_bytes(damaged(content)) if damaged else path.mkdir()
    reads.clear()
    assert len(store.frames()) == len(reads)
    assert same(store)
    assert damaged is None or path.read_bytes() == content


def test_few_results_and_a_folder_that_cannot_be_written_have_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    assert not len(store.frames())
    store.save(result())
    assert same(store)
    assert not (tmp_path / ".cache").exists()
    monkeypatch.setattr(index, "WORTH_FILES", 1)
    (store.root / ".cache").write_text("in the way")
    assert same(store)
    assert (store.root / ".cache").read_text() == "in the way"


def _read_often(root: Path, seeds: range) -> None:
    index.WORTH_FILES = 1  # type: ignore[misc]
    store = Store(root)
    for seed in seeds:
        store.save(result(seed=seed))
        assert {*store.frames().where(profile=["tiny"]).runs["seed"]} >= set(
            range(seeds.start, seed + 1)
        )


@pytest.mark.long
def test_two_writers_leave_a_right_index(store: Store) -> None:
    context = multiprocessing.get_context("spawn")  # this process has threads
    workers = [
        context.Process(target=_read_often, args=(store.root, range(at, at + 5))) for at in (0, 100)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(store.frames()) == len(store.files())
    assert same(store)
    assert not list(store.root.glob(".cache/*.tmp"))


def test_results_of_earlier_backends_are_counted_without_reading_any(store: Store) -> None:
    store.save(result(backend=1))
    store.save(
        result("none", backend=1, hyperparameters={"method": {}, "encoder": {"pooling": "cls"}})
    )
    results = store.frames()
    assert describe_earlier_backends(results) == describe_earlier_backends(list(results))
    assert "1 result was made by backend 1" in describe_earlier_backends(results), (
        "what trains nothing has no backend"
    )
