"""`harness new`: what it writes works as it stands, and once its comments are removed; nothing is overwritten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.errors import UserError
from harness.planning.inventory import Inventory
from harness.profiles import load_profile

FEW = ["--seeds", "1", "--set", "steps=2", "--set", "eval_every=2", "--executor", "serial"]


def typed(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, without a data root."""
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(printed: str) -> list[str]:
    """The commands of harness that were printed."""
    return re.findall(r"^  harness (.*)$", printed, re.MULTILINE)


@pytest.mark.parametrize("kind", ["profile", "task"])
def test_a_profile_and_a_task_run_as_they_are_and_all_that_is_commented_out_is_valid(kind: str, folder: Path) -> None:
    (command,) = commands(typed("new", kind, "mine"))
    printed = typed(*command.split(), *FEW, "--methods", "mcse", "--suites", "sts")
    assert "profile mine: 1 run, 0 done, 1 to do" in printed
    assert ("mine" if kind == "task" else "ToySTS") in printed.partition("[1/1]")[2]
    text = (folder / "mine.toml").read_text()
    active, changed = re.subn(r"^#(\[|[a-z_0-9]+ = )", r"\1", text, flags=re.MULTILINE)
    assert changed > 5
    (folder / "mine.toml").write_text(active)
    inventory = Inventory(load_profile("mine.toml"), None, {})
    assert inventory.tasks
    assert all(suite.tasks for suite in inventory.suites.values())
    assert inventory.corpora


@pytest.mark.parametrize(("kind", "there"), [("profile", "it.toml"), ("task", "it.tsv"), ("method", "it/notes.txt")])
def test_nothing_is_overwritten(kind: str, there: str, folder: Path) -> None:
    (folder / there).parent.mkdir(exist_ok=True)
    (folder / there).write_text("mine")
    with pytest.raises(UserError, match="exists already; give another name, or move it away"):
        CliRunner().invoke(cli, ["new", kind, "it"], catch_exceptions=False)
    assert [path.read_text() for path in folder.rglob("*") if path.is_file()] == ["mine"]
