"""The folder of a report: replaced completely or not at all, and never with a loss of other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UserError
from harness.reporting.build import new_folder


def write(out: Path, *names: str) -> None:
    """Write a report of some files."""
    with new_folder(out) as folder:
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(name)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
    with pytest.raises(FileNotFoundError), new_folder(out) as folder:
        (folder / "absent" / "index.html").write_text("in the middle")
    assert files(tmp_path) == before


def test_leftovers_of_killed_reports_are_cleaned_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "index.html")
    # left by a process killed between the two renames
    out.rename(tmp_path / ".out.999999999.old")
    (tmp_path / ".out.999999999.new").mkdir()
    (tmp_path / ".out.1.new").mkdir()
    with pytest.raises(ZeroDivisionError), new_folder(out):
        raise ZeroDivisionError
    assert (out / "index.html").is_file(), "the old report is restored, although the new one fails"
    assert {path.name for path in tmp_path.iterdir()} == {"out", ".out.1.new"}, "folders of running processes stay"


@pytest.mark.parametrize("place", ["notes.txt", "runs/notes.txt", ".hidden"])
def test_a_foreign_file_is_never_deleted(tmp_path: Path, place: str) -> None:
    foreign = tmp_path / "foreign" / place
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    with pytest.raises(UserError, match="not empty and not a report"):
        write(tmp_path / "foreign", "index.html")
    ours = tmp_path / "ours"
    write(ours, "index.html", "runs/a.html")
    (ours / place).write_text("mine")
    before = files(tmp_path)
    with pytest.raises(UserError, match=f"{place} is not a file of the report"):
        write(ours, "index.html")
    assert files(tmp_path) == before


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="is a file"):
        write(tmp_path / "file", "index.html")
    with pytest.raises(UserError, match="cannot be written"):
        write(tmp_path / "file" / "out", "index.html")
