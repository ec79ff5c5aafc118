"""Results of several folders in one: nothing lost, nothing changed, no fingerprint counted twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import result as record
from builders import rewrite, sts
from click.testing import CliRunner
from faults_tools import KilledError
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli.main import cli
from harness.errors import UserError
from harness.metrics import ArrayName
from harness.sources import digest
from harness.store import Result, Store
from harness.store.merging import check_identity, merge
from harness.store.tunings import make_tuning, read_tunings, save_tuning

#: what a kill leaves half-written
LEFTOVER = ".tmp"


def make_result(
    seed: int = 0, group: str = "a", variant: str = "simcse", shift: float = 0.0, **given: Any
) -> Result:
    """A result whose fingerprint is that of its identity, while its scores and clocks are those of
    a group of people.
    """
    scores = given.pop("scores", None) or sts(ToySTS=70.0 + seed + shift)
    result = record(variant, seed, scores, **given)
    identity = {
        "method": result.spec.variant.name,
        "reading": "paper",
        "seed": seed,
        "training": result.hyperparameters["training"],
        "setting": result.spec.setting.name,
        "backend": result.backend,
    }
    names = {
        "fingerprint": digest(identity),
        "group": digest({**identity, "seed": None}),
        "identity": identity,
    }
    return result.model_copy(
        update={
            **names,
            "started": f"2026-01-02T03:00:00+00:00 {group}",
            "hardware": {"processor": f"CPU of {group}"},
        }
    )


def store_of(folder: Path, *results: Result) -> Store:
    store = Store(folder)
    for result in results:
        for evaluation in result.evaluations:
            arrays = {ArrayName("ToySTS", "cosines"): np.array([float(result.spec.seed)])}
            store.save_arrays(result, evaluation, arrays)
        store.save_log(result, f"{result.started}\n")
        store.save(result)
    return store


def content(store: Store) -> dict[str, bytes]:
    """The files of results in a store, by their paths."""
    files = (
        path
        for path in store.root.rglob("*")
        if path.is_file() and not path.name.endswith(LEFTOVER)
    )
    return {
        str(path.relative_to(store.root)): path.read_bytes()
        for path in files
        if path.suffix != ".lock"
    }


@pytest.fixture
def sources(tmp_path: Path) -> list[Store]:
    """Two folders with one run each of their own, and one that both have trained."""
    return [
        store_of(tmp_path / "a", make_result(0), make_result(1)),
        store_of(tmp_path / "b", make_result(0, "b", shift=0.5), make_result(0, "b", "mcse")),
    ]


def test_each_run_is_there_once_as_it_was_first_trained_with_its_log_and_arrays(
    sources: list[Store], tmp_path: Path
) -> None:
    first, second = sources
    into = Store(tmp_path / "all")
    outcome = merge(into, sources)

    assert outcome.standings == {first.root: {"new": 2}, second.root: {"new": 1}}
    assert outcome.problems == []
    # seed 0 of simcse is in both folders
    (conflict,) = outcome.conflicts
    assert str(second.path(make_result(0))) in conflict
    assert "training" in conflict

    results = {result.fingerprint: result for result in into.load()[0]}
    assert results.keys() == {result.fingerprint for result in into.frames()}
    expected = [*first.load()[0], *second.load()[0][:1]]
    assert expected[-1].spec.variant.name == "mcse"
    assert results == {result.fingerprint: result for result in expected}
    for result, source in zip(expected, [first, first, second], strict=True):
        assert into.log(result) == source.log(result)
        assert len(into.arrays(result)) == 1


def test_a_merge_again_changes_nothing_and_more_evaluations_are_added(
    sources: list[Store], tmp_path: Path
) -> None:
    first = sources[0]
    into = Store(tmp_path / "all")
    merge(into, [first])
    before = content(into)
    outcome = merge(into, [first])
    assert content(into) == before
    assert outcome.standings == {first.root: {"there": 2}}

    more = make_result(0, scores=sts(ToySTS=70.0) | {"geometry": {"ToySTS": {"alignment": 0.25}}})
    first.save(more)
    outcome = merge(into, [first])
    assert outcome.standings == {first.root: {"there": 1, "extended": 1}}
    assert outcome.conflicts == []
    (shown,) = into.find_by_key(more.spec)
    assert shown.suites == ["sts", "geometry"]


@pytest.mark.parametrize(
    ("group", "what"), [("a, trained again", "training"), ("a", "sts")], ids=["training", "scores"]
)
def test_a_result_that_contradicts_the_first_is_a_conflict_and_the_first_stays(
    sources: list[Store], tmp_path: Path, group: str, what: str
) -> None:
    into = Store(tmp_path / "all")
    merge(into, sources[:1])
    before = content(into)
    other = store_of(tmp_path / "other", make_result(0, group, shift=2.0))
    outcome = merge(into, [other])
    (conflict,) = outcome.conflicts
    assert what in conflict
    assert str(other.files()[0]) in conflict
    assert content(into) == before
    assert outcome.standings == {}


def test_tunings_are_merged(sources: list[Store], tmp_path: Path) -> None:
    tuning = make_tuning("tiny", {}, ["simcse:temperature=0.05|0.1"], 2)
    save_tuning(sources[1], tuning)
    into = Store(tmp_path / "all")
    merge(into, sources)
    assert read_tunings(into) == ([tuning], [])


def test_a_folder_of_an_earlier_merge_is_read_and_each_copy_in_it_is_a_folder_of_results(
    sources: list[Store], tmp_path: Path
) -> None:
    """Versions before this one kept what each group had contributed in RESULTS/.labs/NAME."""
    first, second = sources
    earlier = store_of(tmp_path / "earlier", make_result(0), make_result(1))
    copy = store_of(earlier.root / ".labs" / "b", *second.load()[0])
    assert earlier.load() == first.load()

    into = Store(tmp_path / "all")
    outcome = merge(into, [earlier, copy])
    assert outcome.standings == {earlier.root: {"new": 2}, copy.root: {"new": 1}}


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "training": lambda content: content["hyperparameters"]["training"].update(batch_size=128),
    "seed": lambda content: content["identity"].update(seed=5),
    "group": lambda content: content.update(group="0" * 64),
    "fingerprint": lambda content: content.update(
        fingerprint=content["fingerprint"][:16] + "0" * 48
    ),
}


@pytest.mark.parametrize("what", [*CHANGES, "digest", "file name"])
def test_what_does_not_follow_from_its_content_is_named_and_left_out(
    sources: list[Store], tmp_path: Path, what: str
) -> None:
    store, into = sources[0], Store(tmp_path / "all")
    path = store.path(store.load()[0][0])
    rewrite(path, CHANGES.get(what, len))
    if what == "digest":
        path.write_text(path.read_text().replace('"toy-bert"', '"toy-BERT"'))
    if what == "file name":
        path = path.rename(path.with_name("seed-9-0123456789abcdef.json"))
    outcome = merge(into, [store])
    (line,) = outcome.problems
    assert str(path) in line
    assert line.endswith("left out")
    assert [result.spec.seed for result in into.load()[0]] == [1]


def test_results_that_hold_no_identity_are_counted_as_unchecked(tmp_path: Path) -> None:
    store = store_of(tmp_path / "old", record(seed=0), make_result(1))
    outcome = merge(Store(tmp_path / "all"), [store])
    assert (outcome.unchecked, outcome.standings) == (1, {store.root: {"new": 2}})
    assert [check_identity(result) for result in store.load()[0]] == [False, True]


@pytest.mark.parametrize("last", range(0, 12, 2))
def test_a_kill_at_any_moment_loses_nothing_and_the_merge_again_completes(
    sources: list[Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    whole, into = Store(tmp_path / "whole"), Store(tmp_path / "all")
    merge(whole, sources)
    before = [content(store) for store in sources]
    written: list[str] = []
    replace = os.replace

    def replace_until_killed(path: str, target: str, **folders: int) -> None:
        written.append(target)
        if len(written) > last:
            raise KilledError
        replace(path, target, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_until_killed)
        try:
            merge(into, sources)
            assert last >= 9, "three results, each with its arrays and log"
        except KilledError:
            assert not into.load()[1]

    merge(into, sources)
    assert content(into) == content(whole)
    assert [content(store) for store in sources] == before


@settings(max_examples=6)
@given(
    order=st.permutations(range(6)), groups=st.lists(st.sampled_from("abc"), min_size=6, max_size=6)
)
def test_whatever_the_order_each_run_stays_as_it_came_first(
    order: list[int], groups: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Six trainings of three runs."""
    folder = tmp_path_factory.mktemp("order")
    into = Store(folder / "all")
    first_by_seed: dict[int, Result] = {}
    for number in order:
        result = make_result(number % 3, f"{groups[number]}{number}", shift=number)
        outcome = merge(into, [store_of(folder / str(number), result)])
        assert bool(outcome.conflicts) == (result.spec.seed in first_by_seed)
        first_by_seed.setdefault(result.spec.seed, result)
    assert {result.spec.seed: result for result in into.load()[0]} == first_by_seed


def test_the_command_counts_by_folder_and_says_what_it_left_out(
    sources: list[Store], tmp_path: Path
) -> None:
    first, second = (str(store.root) for store in sources)
    words = ["results", "merge", first, second, "--into", str(tmp_path / "all")]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert done.return_value == 1
    assert done.stdout.splitlines() == [
        f"{first}: 2 new results, 0 with more evaluations, 0 already there",
        f"{second}: 1 new result, 0 with more evaluations, 0 already there",
    ]
    assert done.stderr.startswith("conflict: two results of simcse/toy/toy-bert/seed-0 ")

    alone = CliRunner().invoke(
        cli, [*words[:3], "--into", str(tmp_path / "own")], standalone_mode=False
    )
    assert alone.return_value == 0

    sources[0].files()[0].write_text("{}")
    damaged = CliRunner().invoke(cli, words, standalone_mode=False)
    assert damaged.return_value == 1
    assert f"warning: the result {sources[0].files()[0]} cannot be used" in damaged.output


def test_a_folder_without_results_is_refused_before_anything_is_written(
    sources: list[Store], tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match="has no results"):
        merge(Store(tmp_path / "all"), [*sources, Store(empty)])
    assert not (tmp_path / "all").exists()
