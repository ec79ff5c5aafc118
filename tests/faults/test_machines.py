"""Processes with one id on several machines or in several containers write into one folder."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.caches import make_in_cache
from harness.errors import UserError
from harness.files import make_temporary_path

#: the first process of a container has this id
IN_CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork")
#: writes the same notes and files of a cache as another one, and reads what is there in between
WRITER = """
import os, sys
from pathlib import Path
from harness.caches import get_cache_folder, keep_text, read_cached_text
from harness.files import parse_note, read_regular, write_note

assert os.getpid() == 1
folder, letter, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    note = folder / "notes" / f"{number % 7}.json"
    write_note(note, {"content": letter * 5000})
    content = parse_note(read_regular(note))["content"]
    assert content in ("a" * 5000, "b" * 5000), "a torn note"
    name = f"texts/{number % 7}"
    keep_text(name, letter * 5000)
    assert read_cached_text(name) in ("a" * 5000, "b" * 5000), "a torn file"
"""


def test_temporary_names_are_new_each_time(tmp_path: Path) -> None:
    names = {make_temporary_path(tmp_path / "file").name for _ in range(100)}
    assert len(names) == 100


@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.faults)])
def test_two_containers_with_one_process_id_share_a_folder(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the notes and of the files each: 600 of both where all are written."""
    if (
        not shutil.which("unshare")
        or subprocess.run([*IN_CONTAINER, "true"], check=False).returncode
    ):
        pytest.skip("no container can be made here; two processes of one id were not tried")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    writers = [
        subprocess.Popen(
            [*IN_CONTAINER, sys.executable, "-c", WRITER, str(tmp_path), letter, str(count)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for letter in "ab"
    ]
    assert [writer.communicate()[1] for writer in writers] == ["", ""]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 14
    assert {path.parent.name for path in files} == {"notes", "texts"}


@pytest.mark.parametrize(("folder", "raised"), [("cache", UserError), ("cache2", OSError)])
def test_a_full_disk_beside_the_cache_is_not_the_caches(
    folder: str, raised: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))

    def fail(at: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / folder / "file"))

    with pytest.raises(raised, match="No space left"):
        make_in_cache("texts", fail)
