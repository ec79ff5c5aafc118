"""Links that somebody planted in a folder of results: no writer follows one, wherever it is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from faults_tools import contents
from writers import OF_RESULTS

from harness.errors import UserError
from harness.files import open_within
from harness.within import LINKED

SECRET = b"-----BEGIN PRIVATE KEY-----"


def kinds(folder: Path) -> list[Path]:
    """The files and folders below a folder, without temporary ones, by their paths below it."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", OF_RESULTS)
def test_no_writer_follows_a_link_in_place_of_a_file_or_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    write, whole = OF_RESULTS[name], tmp_path / "whole"
    whole.mkdir()
    write(whole)
    for number, planted in enumerate(kinds(whole)):
        elsewhere, results = tmp_path / f"home-{number}", tmp_path / f"results-{number}"
        (results / planted).parent.mkdir(parents=True)
        elsewhere.mkdir()
        (elsewhere / "key").write_bytes(SECRET)
        is_folder = (whole / planted).is_dir()
        (results / planted).symlink_to(elsewhere if is_folder else elsewhere / "key")

        with suppress(OSError, UserError):  # or it replaces the link
            write(results)
        assert contents(elsewhere) == {"key": SECRET}, planted
        assert SECRET not in contents(results, links=False).values(), planted


def test_no_reader_follows_a_link_wherever_it_is(tmp_path: Path) -> None:
    results, file = tmp_path / "results", Path(".work", "a" * 32, "best", "config.json")
    for linked in (file, *file.parents[:-1]):
        outside = tmp_path / "outside" / linked.name
        outside.parent.mkdir(exist_ok=True)
        target = results / linked
        (results / file).parent.mkdir(parents=True)
        (results / file).write_bytes(SECRET)
        target.rename(outside)
        target.symlink_to(outside)
        with pytest.raises(OSError, match=LINKED):
            open_within(results, results / file)
        target.unlink()
        results.rename(tmp_path / f"before {linked.name}")


@pytest.mark.parametrize("path", ["../key", "a/../../key", "/key"])
def test_no_path_leaves_the_folder(path: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    (results / "a").mkdir(parents=True)
    (tmp_path / "key").write_bytes(SECRET)
    with pytest.raises(OSError, match="it is not below"):
        open_within(results, results / path)
