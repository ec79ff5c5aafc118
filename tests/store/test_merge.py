"""Results of several labs in one store: nothing lost, nothing changed, no fingerprint counted
twice.
"""

from __future__ import annotations

import shutil
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
from harness.reporting.sections.labs import labs_grid
from harness.sources import digest
from harness.store import Result, Store
from harness.store.labs import (
    HERE,
    check_identity,
    contributor,
    labs_of,
    merge,
    named_stores,
    repeated,
)
from harness.store.tunings import make_tuning, read_tunings, save_tuning

#: what a kill leaves half-written
LEFTOVER = ".tmp"


def made(
    seed: int = 0, lab: str = "a", variant: str = "simcse", shift: float = 0.0, **given: Any
) -> Result:
    """A lab's result: its fingerprint is that of its identity, its scores and clocks are the lab's
    own.
    """
    result = record(
        variant, seed, given.pop("scores", None) or sts(ToySTS=70.0 + seed + shift), **given
    )
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
            "started": f"2026-01-02T03:00:00+00:00 {lab}",
            "hardware": {"processor": f"CPU of {lab}"},
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
    """The files of results in a store and in its labs', by their paths."""
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
def labs(tmp_path: Path) -> dict[str, Store]:
    """Two labs that have run seed 0 both, and one other run each."""
    return {
        "a": store_of(tmp_path / "a", made(0), made(1)),
        "b": store_of(tmp_path / "b", made(0, "b", shift=0.5), made(0, "b", "mcse")),
    }


def test_every_result_is_kept_with_its_lab_and_counted_once(
    labs: dict[str, Store], tmp_path: Path
) -> None:
    into = Store(tmp_path / "all")
    done = merge(into, labs)
    assert [(lab, done.count(lab, "new")) for lab in labs] == [("a", 2), ("b", 2)]
    assert (done.conflicts, done.problems) == ([], [])
    results = into.load()[0]
    assert [result.fingerprint for result in into.frames()] == [
        result.fingerprint for result in results
    ]
    assert len({result.fingerprint for result in results}) == len(results) == 3
    for lab, store in labs.items():
        held = labs_of(into)[lab]
        assert [path.read_bytes() for path in held.files()] == [
            path.read_bytes() for path in store.files()
        ]
    assert {contributor(into, result) for result in results} == {"a", "b"}
    for shown in results:
        source = labs[contributor(into, shown)]
        assert (into.log(shown), len(into.arrays(shown))) == (source.log(shown), 1)


def test_a_merge_again_changes_nothing_and_more_evaluations_are_added(
    labs: dict[str, Store], tmp_path: Path
) -> None:
    into = Store(tmp_path / "all")
    merge(into, labs)
    before = content(into)
    done = merge(into, labs)
    assert content(into) == before
    assert set(done.states.values()) == {"there"}
    more = made(0, scores=sts(ToySTS=70.0) | {"geometry": {"ToySTS": {"alignment": 0.25}}})
    labs["a"].save(more)
    done = merge(into, labs)
    assert (done.count("a", "extended"), done.conflicts) == (1, [])
    (shown,) = into.of_key(more.spec)
    assert shown.suites == ["sts", "geometry"]
    assert labs_of(into)["a"].of_key(more.spec) == [shown]


def test_a_lab_that_contradicts_itself_is_a_conflict_and_the_first_stays(
    labs: dict[str, Store], tmp_path: Path
) -> None:
    into = Store(tmp_path / "all")
    merge(into, labs)
    before = content(into)
    again = store_of(tmp_path / "again", made(0, "a, trained again", shift=1.0))
    other = store_of(tmp_path / "other", made(0, shift=2.0))
    for store, what in ((again, "training"), (other, "sts")):
        done = merge(into, {"a": store})
        assert [what in line and str(store.files()[0]) in line for line in done.conflicts] == [True]
        assert (content(into), done.states) == (before, {})


def test_the_same_training_under_a_second_name_is_no_reproduction(
    labs: dict[str, Store], tmp_path: Path
) -> None:
    into = Store(tmp_path / "all")
    merge(into, labs)
    copied = tmp_path / "copied"
    shutil.copytree(labs["a"].root, copied)
    done = merge(into, {"c": Store(copied)})
    assert {lab for lab, _ in done.states} == {"a"}
    assert sorted(labs_of(into)) == ["a", "b"]
    assert [[*copies] for copies in repeated(into)] == [["a", "b"]]


def test_names_of_labs_survive_a_merge_of_merged_stores(
    labs: dict[str, Store], tmp_path: Path
) -> None:
    first, second = store_of(tmp_path / "first", made(7, "first")), Store(tmp_path / "second")
    merge(first, labs)
    merge(second, {"first": first})
    assert sorted(labs_of(second)) == ["a", "b", "first"]
    mine = content(first)
    theirs = {
        name: text for name, text in content(second).items() if not name.startswith(".labs/first")
    }
    assert theirs == mine


def test_a_store_may_name_its_own_results(tmp_path: Path) -> None:
    store, other = (
        store_of(tmp_path / "mine", made(0), made(1)),
        store_of(tmp_path / "b", made(0, "b")),
    )
    tuning = make_tuning("tiny", {}, ["simcse:temperature=0.05|0.1"], 2)
    save_tuning(other, tuning)
    before = content(store)
    merge(store, {"me": store, "b": other})
    assert read_tunings(store) == ([tuning], [])
    assert before.items() <= content(store).items()
    assert {contributor(store, result) for result in store.load()[0]} == {"me"}


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
    labs: dict[str, Store], tmp_path: Path, what: str
) -> None:
    store, into = labs["a"], Store(tmp_path / "all")
    path = store.path(store.load()[0][0])
    rewrite(path, CHANGES.get(what, len))
    if what == "digest":
        path.write_text(path.read_text().replace('"toy-bert"', '"toy-BERT"'))
    if what == "file name":
        path = path.rename(path.with_name("seed-9-0123456789abcdef.json"))
    done = merge(into, {"a": store})
    (line,) = done.problems
    assert str(path) in line
    assert line.endswith("left out")
    assert [result.spec.seed for result in into.load()[0]] == [1]


def test_results_that_hold_no_identity_are_counted_as_unchecked(tmp_path: Path) -> None:
    store = store_of(tmp_path / "old", record(seed=0), made(1))
    done = merge(Store(tmp_path / "all"), {"old": store})
    assert (done.unchecked, done.count("old", "new")) == (1, 2)
    assert [check_identity(result) for result in store.load()[0]] == [False, True]


@pytest.mark.parametrize("last", range(0, 24, 3))
def test_a_kill_at_any_moment_loses_nothing_and_the_merge_again_completes(
    labs: dict[str, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    whole, into, calls = Store(tmp_path / "whole"), Store(tmp_path / "all"), []
    merge(whole, labs)
    sources = {lab: content(store) for lab, store in labs.items()}
    real = Path.replace

    def limited(path: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) > last:
            raise KilledError
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", limited)
        try:
            merge(into, labs)
            assert last >= 14
        except KilledError:
            assert not into.load()[1]
    merge(into, labs)
    assert content(into) == content(whole)
    assert {lab: content(store) for lab, store in labs.items()} == sources


@settings(max_examples=6)
@given(
    order=st.permutations(range(6)), labs=st.lists(st.sampled_from("abc"), min_size=6, max_size=6)
)
def test_whatever_the_order_each_run_is_shown_once_and_each_lab_keeps_its_own(
    order: list[int], labs: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Six contributions of three runs by three labs, of which some have a run twice."""
    folder, first = tmp_path_factory.mktemp("order"), dict[tuple[str, int], Result]()
    into = Store(folder / "all")
    for number in order:
        result = made(number % 3, f"{labs[number]}{number}", shift=number)
        run = (labs[number], number % 3)
        done = merge(into, {labs[number]: store_of(folder / str(number), result)})
        assert bool(done.conflicts) == (run in first)
        first.setdefault(run, result)
    held = {
        (lab, result.spec.seed): result
        for lab, store in labs_of(into).items()
        for result in store.load()[0]
    }
    assert held == first
    shown = into.load()[0]
    assert sorted(result.spec.seed for result in shown) == sorted({seed for _, seed in first})
    assert all(held[contributor(into, result), result.spec.seed] == result for result in shown)


def test_the_table_compares_labs_and_averages_nothing(
    labs: dict[str, Store], tmp_path: Path
) -> None:
    into = store_of(tmp_path / "all", made(1, "own", shift=0.125))
    merge(into, labs)
    grid = labs_grid(list(repeated(into)))
    (section,) = grid.sections
    rows = [
        (line.heads[1], str(line.cells[0]), str(line.cells[2]), str(line.cells[3]))
        for line in section.lines
    ]
    assert rows == [
        ("a", "70.00", "–", "CPU of a"),
        ("b", "70.50 (+0.50)", "0.5 (sts.ToySTS.spearman)", "CPU of b"),
        (HERE, "71.12", "–", "CPU of own"),
        ("a", "71.00 (-0.12)", "0.12 (sts.ToySTS.spearman)", "CPU of a"),
    ]
    assert labs_grid([]) is None


def test_the_command_names_labs_by_folders_and_says_what_it_left_out(
    labs: dict[str, Store], tmp_path: Path
) -> None:
    a, b = (str(store.root) for store in labs.values())
    words = ["results", "merge", a, b, "--into", str(tmp_path / "all")]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert done.return_value == 0
    assert done.output.splitlines()[:2] == [
        f"{lab}: 2 new results, 0 with more evaluations, 0 already there" for lab in "ab"
    ]
    assert "1 run with results of several labs" in done.output
    swapped = CliRunner().invoke(
        cli, [*words, "--contributor", "b", "--contributor", "c"], standalone_mode=False
    )
    assert swapped.return_value == 0, "the trainings are those of a and b, whoever has them"
    labs["b"].files()[0].write_text("{}")
    damaged = CliRunner().invoke(cli, words, standalone_mode=False)
    assert damaged.return_value == 1
    assert f"warning: the result {labs['b'].files()[0]} cannot be used" in damaged.output


def test_bad_input_is_refused_before_anything_is_written(
    labs: dict[str, Store], tmp_path: Path
) -> None:
    empty, twin = tmp_path / "empty", tmp_path / "x" / "a"
    empty.mkdir()
    with pytest.raises(UserError, match="has no results"):
        merge(Store(tmp_path / "all"), {**labs, "empty": Store(empty)})
    assert not (tmp_path / "all").exists()
    with pytest.raises(UserError, match="two folders are the results of 'a'"):
        named_stores([labs["a"].root, twin], [])
    with pytest.raises(UserError, match="2 folders and 1 contributor"):
        named_stores([labs["a"].root, twin], ["me"])
    for name in ("", "../up", ".hidden", "a/b", "x" * 64):
        with pytest.raises(UserError, match="is not a valid contributor name"):
            named_stores([twin], [name])
