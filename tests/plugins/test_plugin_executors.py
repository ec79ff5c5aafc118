"""An executor of another package carries out a grid and gives the results that this project's own
give.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from faults_tools import outcome, short_run
from plugin_packages import Install

from harness.runs.execution import Software

pytestmark = pytest.mark.usefixtures("small_toy_tests")

CODE = '''\
    """Performs every job where it stands."""
    from harness.work.base import Executor


    class Inline(Executor):
        """One job after the other, in this process."""

        events = []

        @classmethod
        def prepare(cls):
            cls.events.append("prepared")

        def work(self, queue, listen):
            self.events.append("works")
            for job in queue:
                queue.end(job, job.perform(self.share, listen))
'''


def test_an_inline_executor_gives_the_scores_of_the_serial_one(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    install("inline_runs", CODE, {"executors": {"inline": "Inline"}})
    seen: list[str] = []
    how = {"seeds": 2, "progress": lambda event: seen.append(event.kind)}
    theirs = short_run("simcse", tmp_path / "theirs", executor="inline", **how)
    assert len(theirs) == 2
    assert outcome(theirs) == outcome(short_run("simcse", tmp_path / "ours", **how))
    assert seen.count("done") == 4

    # a finished plan has nothing to prepare
    short_run("simcse", tmp_path / "theirs", executor="inline", **how)
    assert import_module("inline_runs").Inline.events == ["prepared", "works"]


def test_the_code_of_a_plug_in_of_one_file_is_compared_between_machines(install: Install) -> None:
    site = install("alone", "EXECUTOR = 1", {"executors": {"alone": "EXECUTOR"}})
    Software.here.cache_clear()
    before = Software.here()
    (site / "alone.py").write_text("EXECUTOR = 2")
    Software.here.cache_clear()
    assert before.difference(Software.here()) == "the code of alone differs between there and here"
    Software.here.cache_clear()
