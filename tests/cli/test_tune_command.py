"""`harness run --tune`: equal budgets from the command to the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_words import Typed

import harness
from harness.reporting.contents import Contents
from harness.reporting.sections.tuning import TuningSection
from harness.store import Store

WORDS = ("run", "--profile", "tiny", "--seeds", "1", "--suites", "sts", "--set", "steps=2")
TUNE = ("--tune", "simcse:temperature=0.05|0.1|0.5", "--tune", "mcse:lambda=0.01|1", "--trials", "2")


def test_tuned_methods_are_ordinary_runs_that_the_report_compares(typed: Typed, tmp_path: Path) -> None:
    code, out, err = typed(*WORDS, *TUNE, "--dry-run")
    assert (code, err) == (0, "")
    assert "4 runs, 0 done, 4 to do" in out
    assert "tune      2 configurations each of simcse:temperature=0.05|0.1|0.5 and of mcse:lambda=0.01|1\n" in out
    assert not (tmp_path / "results").exists()
    code, out, _ = typed(*WORDS, *TUNE)
    assert code == 0
    for title in ("Expected best dev score", "simcse, tuned (2 trials)", "Picked trial of each seed"):
        assert title in out
    (report,) = TuningSection("tuned", Contents.of(Store(tmp_path / "results"))).reports
    (place,) = report.places
    assert [len(line.picks) for line in place.lines] == [1, 1]
    assert {pick.variant for line in place.lines for pick in line.picks} <= set(report.tuning.variants)
    again = harness.plan("tiny", methods=report.tuning.variants, seeds=1, suites="sts", set={"steps": 2})
    assert {run.state for run in again.runs} == {"done"}
    assert "nothing to do" in typed(*WORDS, *TUNE)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*TUNE[:-1], "3"), "mcse has 2 configurations, fewer than 3 trials; list more, or give --trials 2"),
        (TUNE[:4], "--tune and --trials go together"),
        (("--trials", "2"), "--tune and --trials go together"),
        ((*TUNE, "--table", "mcse:T2"), "--tune works only with a grid of methods; remove --table"),
        (
            (*TUNE, "--set", "steps=1,2"),
            "--set steps=1,2 lists several values, which makes a grid, but --tune draws its own values",
        ),
        (
            ("--tune", "none:pooling=cls|mean", "--trials", "2"),
            "--tune none: it trains nothing, so there is nothing to tune",
        ),
        (("--tune", "mcse:lamda=1|2", "--trials", "2"), "lamda"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    typed: Typed, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    code, out, err = typed("run", "--profile", "tiny", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
