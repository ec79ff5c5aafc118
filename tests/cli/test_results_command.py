"""`harness results list` and `drop`: groups of runs with one name, and how one of them is moved
away.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import over_seeds
from cli_words import Typed

from harness.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    filled = Store(tmp_path / "results")
    old = over_seeds("mcse", [10.0, 11.0, 12.0], data="old", finished="2020-01-01T00:00:00+00:00")
    for result in (
        *old,
        *over_seeds("mcse", [20.0, 21.0, 22.0], data="new", finished="2021-01-01T00:00:00+00:00"),
    ):
        filled.save(result)
        filled.save_log(result, "a line")
    return filled


def test_groups_of_one_name_are_listed_with_what_sets_them_apart_and_compared(
    store: Store, typed: Typed
) -> None:
    code, out, _ = typed("results", "list")
    new, old = [line.split() for line in out.splitlines() if "mcse/toy/toy-bert#" in line]
    assert code == 0
    assert new[2] == old[2] == "0,1,2"
    assert new[0] != old[0]
    assert "changed since:" in " ".join(old)
    group = next(result.group[:8] for result in store.load()[0] if result.finished < "2021")
    code, out, err = typed("compare", "mcse", f"mcse#{group}", "--metric", "sts.Avg")
    assert (code, err) == (0, "")
    assert f"mcse against mcse#{group}" in out
    assert "+10.00" in out
    code, _, err = typed("compare", "mcse", "mcse#0badbad", "--metric", "sts.Avg")
    assert (code, "0badbad" in err) == (2, True)


def test_a_folder_without_results_says_so(store: Store, typed: Typed) -> None:
    assert typed("results", "list", "--profile", "small") == (
        0,
        "no results in results of profile small\n",
        "",
    )
    assert typed("results", "list", "--results", "empty")[1] == "no results in empty\n"


def test_a_dropped_group_is_moved_and_becomes_results_again(store: Store, typed: Typed) -> None:
    files = {path: path.read_bytes() for path in store.files()}
    group = min(store.load()[0], key=lambda result: result.finished).group[:8]
    code, out, _ = typed("results", "drop", f"mcse#{group}")
    assert code == 0
    assert out.count("moved to") == 3
    assert len(store.files()) == 3
    moved = [path for path in store.root.glob(".superseded/*/tiny/**/seed-*") if path.is_file()]
    assert len(moved) == 6, "a result and its log each"
    for path in moved:
        path.rename(
            store.root
            / path.relative_to(store.root / ".superseded" / path.relative_to(store.root).parts[1])
        )
    assert {path: path.read_bytes() for path in store.files()} == files


def test_several_groups_an_unknown_one_and_a_run_in_progress_are_refused(
    store: Store, typed: Typed
) -> None:
    before = store.files()
    code, _, err = typed("results", "drop", "mcse")
    assert code == 2
    assert err.count("mcse/toy/toy-bert#") == 2
    code, _, err = typed("results", "drop", "mcse#0badbad")
    assert (code, "0badbad" in err) == (2, True)
    group = min(store.load()[0], key=lambda result: result.finished)
    with store.lock(group.fingerprint):
        code, _, err = typed("results", "drop", f"mcse#{group.group[:8]}")
    assert (code, "in progress" in err) == (2, True)
    assert store.files() == before
