"""An executor of another package carries out a grid and gives the results that this project's own give."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_packages import Install

import harness
from harness.runs.environment import Software

CODE = '''\
    """Performs every job where it stands."""
    from harness.work.base import Executor


    class Inline(Executor):
        """One job after the other, in this process."""

        def work(self, queue, listen):
            for job in queue:
                queue.end(job, job.perform(self.share, listen))
'''


def test_an_inline_executor_gives_the_scores_of_the_serial_one(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    install("inline_runs", CODE, {"executors": {"inline": "Inline"}})
    seen: list[str] = []

    def scores(folder: str, executor: str | None) -> list[float]:
        done = harness.run(
            "tiny", methods=["simcse"], seeds=2, suites="sts", set={"steps": 2}, results=tmp_path / folder,
            executor=executor, progress=lambda event: seen.append(event.kind),
        )  # fmt: skip
        assert len(done) == 2
        assert not done.failures
        return list(done.frame.sort_values(["seed", "task", "metric"])["value"])

    assert scores("theirs", "inline") == scores("ours", None)
    assert seen.count("done") == 4


def test_the_code_of_a_plug_in_of_one_file_is_compared_between_machines(install: Install) -> None:
    site = install("alone", "EXECUTOR = 1", {"executors": {"alone": "EXECUTOR"}})
    Software.here.cache_clear()
    before = Software.here()
    (site / "alone.py").write_text("EXECUTOR = 2")
    Software.here.cache_clear()
    assert before.difference(Software.here()) == "the code of alone differs between there and here"
    Software.here.cache_clear()
