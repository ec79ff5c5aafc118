from __future__ import annotations

import subprocess
import sys

import click
import pytest

from harness.cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_is_found_by_its_own_name(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_an_unknown_command_is_none() -> None:
    assert cli.get_command(click.Context(cli), "frobnicate") is None


def test_a_report_does_without_torch_in_its_own_process() -> None:
    names = "harness.cli.main, harness.cli.report, harness.reporting.site.pages"
    check = f"import sys, {names}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
