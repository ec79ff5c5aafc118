from __future__ import annotations

import subprocess
import sys

import click
import pytest
from cli_words import Typed

from harness.cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_is_found_by_its_own_name(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_an_unknown_command_is_none() -> None:
    assert cli.get_command(click.Context(cli), "frobnicate") is None


@pytest.mark.parametrize("words", [(), ("data",), ("results",), ("new",)])
def test_a_command_without_its_subcommand_prints_its_help(typed: Typed, words: tuple[str, ...]) -> None:
    code, out, err = typed(*words)
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: {' '.join(('harness', *words))} ")


def test_the_help_lists_every_command_in_one_line_of_eighty_columns(typed: Typed) -> None:
    lines = typed("--help")[1].splitlines()
    for name in COMMANDS:
        (line,) = (line for line in lines if line.startswith(f"  {name} "))
        assert len(line) <= 80
        assert not line.endswith("...")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("rnu",), "unknown command `harness rnu`; did you mean run?"),
        (("data", "lst"), "unknown command `harness data lst`; did you mean list?"),
        (("run", "--sede", "3"), "--seeds"),
        (("run", "--zzz"), "see `harness run --help`"),
        (("audit", "--paper", "mces"), "unknown paper 'mces'; did you mean mcse"),
    ],
)
def test_a_misspelt_word_gets_the_nearest_or_the_help(typed: Typed, words: tuple[str, ...], says: str) -> None:
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("kind", "option"), [("tables", "--table"), ("figures", "--figure"), ("papers", "--paper")])
def test_names_of_lists_are_typed_as_they_stand(typed: Typed, kind: str, option: str) -> None:
    code, out, err = typed("list", kind, "--profile", "tiny")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[3:] if line.strip()]
    name = next(row[0] for row in rows if row[-1] != "0")
    code, out, _ = typed("run", option, name, "--profile", "tiny", "--dry-run")
    assert code == 0
    assert name in out


def test_a_report_does_without_torch_in_its_own_process() -> None:
    names = "harness.cli.main, harness.cli.report, harness.reporting.sections.runs"
    check = f"import sys, {names}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
