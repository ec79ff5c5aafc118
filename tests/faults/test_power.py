"""Power cuts: what a writer has said to be written is there when the disk is mounted again.

The disk is a file. A copy of that file, made while it is mounted, is what a power cut leaves: what
was flushed, and what else happened to be written.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults_tools import contents
from writers import APPENDING, EXPENDABLE, OF_RESULTS

MEGABYTES = 24


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """Mount a file as a disk; the test is skipped where that is not permitted."""
    at.mkdir()
    done = subprocess.run(["mount", "-o", "loop", str(image), str(at)], capture_output=True)
    if done.returncode:
        pytest.skip("no disk can be mounted here; a power cut was not tried")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.parametrize("name", sorted({*OF_RESULTS} - EXPENDABLE - APPENDING))
def test_what_was_written_survives_a_power_cut(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, later = tmp_path / "image", tmp_path / "image-after-the-cut"
    with image.open("wb") as stream:
        stream.truncate((MEGABYTES if kind == "ext4" else 320) * 2**20)
    make = shutil.which(f"mkfs.{kind}")
    if make is None or subprocess.run([make, "-q", str(image)], check=False).returncode:
        pytest.skip(f"no {kind} can be made here; a power cut was not tried")
    with mounted(image, tmp_path / "disk") as disk:
        folder = disk / "results"
        folder.mkdir()
        subprocess.run(["sync", "-f", str(folder)], check=True)
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
        OF_RESULTS[name](folder)
        shutil.copyfile(image, later)
        wanted = contents(folder)
    with mounted(later, tmp_path / "disk-after-the-cut") as disk:
        kept = contents(disk / "results")
    assert {file: kept.get(file) for file in wanted} == wanted
