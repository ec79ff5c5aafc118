"""`harness demo`: a table, a report and what to type next, in an empty folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.demo import GRID
from harness.cli.main import cli

pytestmark = pytest.mark.usefixtures("small_toy_tests")


def test_the_demo_ends_with_a_report_and_with_commands_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(GRID, "set", ["steps=2,eval_every=2"])
    monkeypatch.setitem(GRID, "seeds", "1")
    monkeypatch.setattr("harness.cli.demo.JOBS", 1)  # other processes are tested elsewhere
    done = CliRunner().invoke(cli, ["demo"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "reports" / "demo" / "index.html").is_file()

    lines = done.output.splitlines()
    compare, run, new = (line.strip() for line in lines[lines.index("next:") + 1 :])
    compared = CliRunner().invoke(cli, shlex.split(compare)[1:], catch_exceptions=False)
    assert compared.exit_code == 0, compared.output
    planned = CliRunner().invoke(cli, [*shlex.split(run)[1:], "--dry-run"], catch_exceptions=False)
    assert "1 to do" in planned.output
    assert new == "harness new method my_method"
