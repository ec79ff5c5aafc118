"""Pages shared among processes: each is written once, and what fails in another process is raised in this one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.processors import use_cores
from harness.reporting.site.shares import WORTH, in_shares


def written(folder: Path) -> dict[int, int]:
    """The process that wrote each page."""
    return {int(path.name): int(path.read_text()) for path in folder.iterdir()}


@pytest.mark.parametrize(("count", "cores", "processes"), [(0, 2, 0), (WORTH, 2, 1), (3 * WORTH, 2, 2), (999, 1, 1)])
def test_every_page_is_written_by_one_process(tmp_path: Path, count: int, cores: int, processes: int) -> None:
    def work(share: Sequence[int]) -> None:
        for page in share:
            with (tmp_path / str(page)).open("x") as stream:
                stream.write(str(os.getpid()))

    with use_cores(cores):
        in_shares(work, count)
    found = written(tmp_path)
    assert sorted(found) == list(range(count))
    assert len(set(found.values())) == (min(1, processes) if sys.platform != "linux" else processes)


def test_what_fails_in_another_process_is_raised_here(capfd: pytest.CaptureFixture[str]) -> None:
    def work(share: Sequence[int]) -> None:
        if 401 in share:
            raise OSError(28, "No space left on device")

    with use_cores(2), pytest.raises(OSError, match="No space"):
        in_shares(work, 3 * WORTH)
    assert capfd.readouterr().err == ""


def test_pages_of_a_process_that_died_are_written_here(tmp_path: Path) -> None:
    mine = os.getpid()

    def work(share: Sequence[int]) -> None:
        for page in share:
            if page == 401 and os.getpid() != mine:
                os._exit(9)
            (tmp_path / str(page)).write_text(str(os.getpid()))

    with use_cores(2):
        in_shares(work, 3 * WORTH)
    assert sorted(written(tmp_path)) == list(range(3 * WORTH))
