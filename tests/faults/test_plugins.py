"""Code of other people in one grid with good runs: it fails alone, with file and line; the good
runs do not notice.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from faults_tools import outcome, short_run
from plugin_packages import Install

from harness.planning.plan import Plan
from harness.store import Store
from harness.work import base
from harness.work.job import Job
from harness.work.jobs import list_jobs

CODE = Path(__file__).with_name("bad_methods.py").read_text()
#: what a failure says, by method
SAYS = {
    "bad-nan": r"the loss term 'text' of the method 'bad-nan' \(bad_methods.py, line \d+\) is nan at step 3; lower",
    "bad-vector": r"the method 'bad-vector' \(bad_methods.py, line \d+\) returned the term 'text' of shape \(3,\)",
    "bad-number": r"the method 'bad-number' \(bad_methods.py, line \d+\) returned text: float",
    "bad-undeclared": r"'bad-undeclared' \(bad_methods.py, line \d+\) returned the term 'more', "
    r"which it does not declare",
    "bad-apart": r"no loss of the method 'bad-apart' \(bad_methods.py, line \d+\) up to step 2 depends on the encoder",
    "bad-raises": r"ValueError: one line and\\x1b\[31m another x{100}…x{100}, at step 1 of the method 'bad-raises' "
    r"\(bad_methods.py, line \d+\)$",
    "bad-quits": r"SystemExit: 0 \(bad_methods.py, line \d+\)",
    "bad-interrupts": r"KeyboardInterrupt \(bad_methods.py, line \d+\)",
    "bad-leaves": r"its process ended with code 0 before the run did",
    "bad-crashes": r"its process ended with code -11 \(SIGSEGV\) before the run did \(bad_methods.py, line \d+\)",
    "bad-eats": r"MemoryError: Unable to allocate .* \(bad_methods.py, line \d+\)",
    "bad-sleeps": r"stopped after --run-timeout, 5.0 s; run the same command again to resume",
}
#: method -> its object
NAMES = {name: name.replace("-", "_") for name in (*SAYS, "bad-meddles")}


def only_the_sleeper_is_timed(plan: Plan, *given: object) -> list[Job]:
    return [
        replace(job, limit_s=5.0 if "bad-sleeps" in job.key else None) for job in list_jobs(plan)
    ]


#: what other methods meet too
ALIKE = {"bad-vector", "bad-number", "bad-undeclared", "bad-interrupts"}


@pytest.mark.parametrize(
    "left_out", [ALIKE, pytest.param(set(), marks=pytest.mark.faults)], ids=["in short", "all"]
)
def test_bad_methods_fail_alone_and_the_good_runs_end_as_without_them(
    left_out: set[str], install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(base, "GRACE_S", 0.3)
    install("bad_methods", CODE, {"methods": NAMES})
    good = "simcse,simcse[temperature=0.1]"
    names = ",".join(
        sorted(NAMES.keys() - left_out, key="bad-sleeps".__ne__)
    )  # it waits while the others run
    monkeypatch.setattr(
        base, "list_jobs", only_the_sleeper_is_timed
    )  # a busy machine makes all of them slow
    grid = short_run(f"{names},{good}", Path("together"), executor="local", jobs=3)
    errors = {failure.spec.variant.name: failure.error for failure in grid.failures}
    assert errors.keys() == SAYS.keys() - left_out, errors
    for name, pattern in ((name, SAYS[name]) for name in errors):
        assert re.search(pattern, errors[name]), (name, errors[name])
        assert len(errors[name]) < 700
    together, alone = outcome(grid), outcome(short_run(good, Path("alone"), executor="serial"))
    assert {key: together[key] for key in alone} == alone
    assert not list(tmp_path.rglob("elsewhere/*")), "results follow no change of the working folder"
    (meddled,) = (run for run in grid.runs if run.spec.variant.name == "bad-meddles")
    assert Store(tmp_path / "together").path(meddled).is_file()
    spoilt = next(failure for failure in grid.failures if failure.spec.variant.name == "bad-nan")
    log = (tmp_path / "together" / "failed" / f"{spoilt.fingerprint[:16]}.log").read_text()
    assert re.search(r"the batch of step 3: sentences, rows \d+( \d+){7}$", log, re.MULTILINE)
