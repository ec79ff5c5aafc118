"""`harness logs` as typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import result
from cli_words import Typed

from harness.store import Store
from harness.store import logs as logs_module
from harness.store.folder import Submission, note_submission

LINES = "2026-01-02T03:04:05Z  start mcse/toy/toy-bert/seed-0 on cpu\n2026-01-02T03:04:06Z  done\n"


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_a_log_is_printed_as_it_is(typed: Typed, tmp_path: Path, follow: tuple[str, ...]) -> None:
    Store(tmp_path / "results").save_log(result("mcse"), LINES)
    assert typed("logs", "mcse", *follow) == (0, LINES, "")


def test_ctrl_c_ends_the_printing_quietly(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = logs_module.running_log(Store(tmp_path / "results"), result("mcse").fingerprint)
    path.parent.mkdir(parents=True)
    path.write_text(LINES)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(logs_module, "follow", interrupt)
    assert typed("logs", "mcse", "--follow") == (0, "\n", "")


def test_an_unknown_run_is_one_line(typed: Typed) -> None:
    code, out, told = typed("logs", "mcse/toy")
    assert (code, out) == (2, "")
    assert told == "error: there is no log of 'mcse/toy' in results; `harness status` lists the runs of a grid\n"


def test_a_run_that_waits_in_a_batch_system_has_no_log_yet(typed: Typed, tmp_path: Path) -> None:
    there, of = tmp_path / "jobs", result("mcse")
    note = Submission(system="SLURM", id="12", key=of.spec.key, folder=there, log=there / "12_log.out")
    note_submission(Store(tmp_path / "results"), of.fingerprint, note)
    told = "mcse/toy/toy-bert/seed-0 has no log yet: its job is still queued; `harness status` shows where"
    assert typed("logs", "mcse") == (2, "", f"error: {told}\n")
