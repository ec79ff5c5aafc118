"""A whole report: its files, what stands on its pages, and which results it shows.

Its folder is replaced completely or not at all, and never with a loss of other files.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from builders import failure, over_seeds, result

from harness.errors import UserError
from harness.reporting.build import replace_folder, write_report
from harness.reporting.contents import Contents
from harness.store import BACKEND_VERSION, Store

FILES = ("overview.html", "report.md", "report.tex", "report.csv", "tables.csv")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Results of two profiles, two of an earlier backend, and one that no backend made."""
    store = Store(tmp_path_factory.mktemp("store") / "results")
    for saved in (
        *over_seeds("mcse", [70.0, 73.0, 72.2]),
        *over_seeds("simcse[temperature=<b>]", [20.0, 21.0], backend=1),
        *over_seeds(
            "none",
            [12.0],
            setting="none",
            backend=1,
            hyperparameters={"method": {}},
            dev=(),
            losses={},
        ),
        *over_seeds(
            "mcse", [61.7], profile="paper", setting="wiki+flickr", encoder="bert-base-uncased"
        ),
    ):
        store.save(saved)
    store.save_failure(failure(result("mcse", 7), "RuntimeError: <img src=x onerror=alert(1)>"))
    return store


@pytest.mark.parametrize(
    ("profile", "here", "absent"), [("tiny", "toy-bert", "61.7"), ("paper", "61.7", "toy-bert")]
)
def test_a_report_of_one_profile_has_no_other_results_and_prints_margin_and_backend(
    store: Store, tmp_path: Path, profile: str, here: str, absent: str
) -> None:
    written = write_report(store, tmp_path / "out", profile, margin=0.25)
    assert written.page == tmp_path / "out" / "index.html"
    texts = {
        name: (tmp_path / "out" / name).read_text("utf-8") for name in (*FILES, "papers/mcse.html")
    }
    for name in FILES:
        assert here in texts[name], name
        assert absent not in texts[name], name
    margin = {
        name
        for name, text in texts.items()
        if re.search(r"equivalent within (±|\$\\pm\$)0\.25 points", text)
    }
    assert margin == ({"papers/mcse.html", *FILES[:3]} if profile == "paper" else set())
    if profile == "tiny":
        assert (written.results, len(written.warnings)) == (6, 1)
        text, page = texts["report.md"], texts["overview.html"]
        assert "mcse/<wbr>toy/<wbr>toy-bert/<wbr>seed-7" in page, "what failed is named"
        assert "Eq." in (tmp_path / "out/methods/mcse.html").read_text("utf-8"), (
            "the installed methods are described"
        )
        assert text.count("| MCSE | 3 | **71.73 ± 1.55**") == 1, (
            "the mean is over the seeds of this store alone"
        )
        note = f"2 results were made by backend 1, the current one is {BACKEND_VERSION}"
        assert all(note in said for said in (*written.warnings, text, page)), (
            "none was trained by no backend"
        )
        assert (tmp_path / "out/runs/index.html").read_text("utf-8").count("backend 1</span>") == 2


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan"), float("inf")])
def test_a_margin_is_a_positive_number(store: Store, tmp_path: Path, margin: float) -> None:
    with pytest.raises(UserError, match="is not a positive number of points"):
        write_report(store, tmp_path / "out", margin=margin)


def test_no_results_of_a_profile_are_an_error_with_a_command(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="no results of the profile 'small'; run `harness run --profile small"
    ):
        Contents.of(Store(tmp_path / "nowhere"), "small")


def test_a_damaged_result_is_left_out_with_a_warning(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    good, bad = (store.save(saved) for saved in over_seeds("simcse", [20.0, 24.0]))
    store.path(bad).write_text("{")
    contents = Contents.of(store, "tiny")
    assert [*contents.runs] == [good]
    (line,) = contents.problems
    assert store.path(bad).name in line


def write(out: Path, *names: str) -> None:
    """Write a report of some files."""
    with replace_folder(out) as folder:
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(name)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_second_report_replaces_the_first_completely(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    write(out, "index.html", "runs/a.html")
    write(out, "index.html", "runs/b.html")
    assert set(files(out)) == {"index.html", "runs/b.html", ".harness-report"}
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_a_report_that_fails_keeps_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "index.html")
    before = files(tmp_path)
    with pytest.raises(FileNotFoundError), replace_folder(out) as folder:
        (folder / "absent" / "index.html").write_text("in the middle")
    assert files(tmp_path) == before


def test_old_leftovers_of_killed_reports_are_removed(tmp_path: Path) -> None:
    today = f".out.{'1' * 16}.new"
    kept = [today, f".other.{'1' * 16}.old", ".out.mine.new"]
    for name in (*kept, f".out.{'9' * 16}.old", f".out.{'9' * 16}.new"):
        (tmp_path / name).mkdir()
        if name != today:
            os.utime(tmp_path / name, (0, 0))
    write(tmp_path / "out", "index.html")
    assert {path.name for path in tmp_path.iterdir()} == {"out", *kept}, (
        "a folder of today may be in use"
    )


@pytest.mark.parametrize("name", ["notes.txt", "runs/notes.txt", ".hidden"])
def test_a_foreign_file_is_never_deleted(tmp_path: Path, name: str) -> None:
    foreign = tmp_path / "foreign" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    with pytest.raises(UserError, match="not empty and not a report"):
        write(tmp_path / "foreign", "index.html")
    ours = tmp_path / "ours"
    write(ours, "index.html", "runs/a.html")
    (ours / name).write_text("mine")
    before = files(tmp_path)
    with pytest.raises(UserError, match=f"{name} is not a file of the report"):
        write(ours, "index.html")
    assert files(tmp_path) == before


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="is a file"):
        write(tmp_path / "file", "index.html")
    with pytest.raises(UserError, match="cannot be written"):
        write(tmp_path / "file" / "out", "index.html")
