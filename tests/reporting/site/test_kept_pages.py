"""Pages of runs that are taken over from the report before, and those that are written again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import result

from harness.reporting.build import render
from harness.reporting.charts import curves
from harness.reporting.charts.curves import charts
from harness.reporting.contents import Contents
from harness.reporting.seeds.groups import Label
from harness.reporting.site import runs
from harness.store import Result, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Six results in files that are old enough to be trusted."""
    store = Store(tmp_path / "results")
    for variant in ("simcse", "mcse"):
        for seed in range(3):
            save(store, result(variant, seed))
    return store


def save(store: Store, one: Result, time: int = 10**18) -> Path:
    path = store.path(store.save(one))
    os.utime(path, ns=(time, time))
    return path


def report(store: Store) -> dict[str, int]:
    """Write a report; the inode of each page of a run."""
    page = render(Contents.of(store), [], store.root.parent / "out")
    return {path.name: path.stat().st_ino for path in sorted((page.parent / "runs").glob("*seed-*.html"))}


def changed(store: Store, change: Callable[[], object]) -> list[str]:
    """The pages of runs that are written again after a change."""
    before = report(store)
    change()
    after = report(store)
    return [name for name in after if after[name] != before.get(name)]


def test_nothing_is_written_again_without_a_change(store: Store) -> None:
    assert changed(store, lambda: None) == []
    before = report(store)
    assert report(store) == before
    render(Contents.of(store), [], store.root.parent / "other")
    kept, fresh = (
        {path.name: path.read_text() for path in (store.root.parent / out / "runs").glob("*seed-*.html")}
        for out in ("out", "other")
    )
    assert kept == fresh


def test_a_changed_result_and_a_changed_log_are_written_again(store: Store) -> None:
    one = store.indexed()[0].whole()
    path = store.path(one)

    def edit() -> None:
        path.unlink()
        store.save(one.model_copy(update={"train_seconds": 4321.0}))
        os.utime(path, ns=(10**18 + 5, 10**18 + 5))

    assert [name[:4] for name in changed(store, edit)] == ["mcse"]
    assert "1 h 12 min" in next((store.root.parent / "out" / "runs").glob("mcse-toy-toy-bert-seed-0*")).read_text()
    assert len(changed(store, lambda: store.save_log(one, "a line\n"))) == 1


def test_a_new_seed_changes_the_links_of_the_others(store: Store) -> None:
    names = changed(store, lambda: save(store, result("mcse", 7)))
    assert [name.rpartition("-")[0] for name in names] == [f"mcse-toy-toy-bert-seed-{seed}" for seed in (0, 1, 2, 7)]


def test_damaged_pages_and_other_code_are_not_taken_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    out = store.root.parent / "out"

    def damage() -> None:
        page = next((out / "runs").glob("simcse*"))
        page.write_text("something else")

    assert len(changed(store, damage)) == 1
    assert not any("something else" in path.read_text() for path in (out / "runs").iterdir())
    assert len(changed(store, lambda: (out / ".harness-report").write_text(listed(out)))) == 6, "no keys"
    assert len(changed(store, lambda: monkeypatch.setattr(runs, "state_of_code", lambda: "other"))) == 6


def listed(out: Path) -> str:
    """The list of files of a report without its keys."""
    return "".join(line for line in (out / ".harness-report").open() if not line.startswith("# "))


def test_a_fresh_result_is_written_each_time(store: Store) -> None:
    store.save(result("mcse", 8))
    assert [name[:22] for name in changed(store, lambda: None)] == ["mcse-toy-toy-bert-seed"]


def test_a_long_index_is_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_LINES", 5)
    save(store, result("simcse", setting="wiki"))
    report(store)
    folder = store.root.parent / "out" / "runs"
    index = (folder / "index.html").read_text()
    assert 'href="index-tiny-toy-toy-bert.html"' in index
    assert 'href="index-tiny-wiki-toy-bert.html"' in index
    assert "7 runs" in index
    part = (folder / "index-tiny-toy-toy-bert.html").read_text()
    assert part.count('<tr><th scope="row">') == 6
    assert "6 runs" in part


def test_a_chart_has_the_baseline_and_as_many_variants_as_can_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MOST_VARIANTS", 3)
    names = [f"mcse[lambda={number}]" for number in range(9)] + ["simcse"]
    labelled = {Label("tiny", name, "toy", "toy-bert", ""): [result(name)] for name in names}
    chart = charts(labelled)[0]
    assert [series.name.code for series in chart.series] == ["mcse[lambda=0]", "mcse[lambda=1]", "simcse"]
    assert chart.left_out == " (3 of 10 variants)"
