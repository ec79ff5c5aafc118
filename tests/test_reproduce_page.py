"""docs/reproduce.md: its commands are commands, its names exist, and its hours are those of the count."""

from __future__ import annotations

import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

import harness
from harness import catalogue
from harness.cli.main import cli
from harness.execution.lacking import fetch_list, lacking

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reproduce.md").read_text()
LINES = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in block.splitlines()
    if line.strip().startswith("harness ")
]
GRID = ("table", "methods", "readings", "seeds", "released", "profile")


def parsed(line: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    """The command of a line and its options, parsed and not executed."""
    found: list[click.Context] = []
    monkeypatch.setattr(click.Command, "invoke", lambda self, context: found.append(context))
    result = CliRunner().invoke(cli, shlex.split(line)[1:])
    assert result.exit_code == 0, f"{line}: {result.output}"
    return found[-1].command_path, found[-1].params


def hours() -> ModuleType:
    spec = spec_from_file_location("hours", ROOT / "benchmarks" / "hours.py")
    assert spec
    assert spec.loader
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("line", LINES)
def test_every_command_parses_and_names_what_exists(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        command, given = parsed(line, patched)
    for name in (*given.get("names", ()), *filter(None, [given.get("name")])):
        assert catalogue.entry(name)
    chosen = {name: given[name] for name in GRID if given.get(name)}
    if "seeds" in given:
        plan = harness.plan(results=tmp_path, **chosen)
        assert plan.todo
        assert not plan.skipped
    assert command.startswith("cli ")


def test_the_licences_of_the_page_are_those_that_the_fetch_asks_for(tmp_path: Path) -> None:
    found = fetch_list(lacking(harness.plan(table="dalr:T1", results=tmp_path)), None, ask=False)
    (accepted,) = re.findall(r"harness fetch --table dalr:T1 --accept-licences (\S+)", PAGE)
    assert accepted.split(",") == [item.name for item in found.items if item.terms]
    assert [one.name for one in found.by_hand] == ["flickr-images"]
    assert f"{found.size / 1e9:.0f} GB to download" in PAGE


def test_the_table_has_the_runs_that_the_page_counts(tmp_path: Path) -> None:
    assert len(harness.plan(table="dalr:T1", results=tmp_path).runs) == 20
    assert "Table 1 of the DALR paper has 20 runs" in PAGE


def test_the_hours_are_those_of_the_count() -> None:
    """`python benchmarks/hours.py --write` makes them again."""
    made = hours()
    between = PAGE.partition(made.BEGIN)[2].partition(made.END)[0]
    assert between.strip() == made.tables().strip()
