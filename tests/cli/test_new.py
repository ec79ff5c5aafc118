"""`harness new`: what it writes works as it stands, and once its comments are removed; nothing is overwritten."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from plugin_packages import Install

from harness.cli.main import cli
from harness.errors import UserError
from harness.method.conformance import check_method
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
def test_a_profile_and_a_task_run_as_they_are(kind: str) -> None:
    (command,) = commands(typed("new", kind, "mine"))
    printed = typed(*command.split(), *FEW, "--methods", "mcse", "--suites", "sts")
    assert "profile mine: 1 run, 0 done, 1 to do" in printed
    assert ("mine" if kind == "task" else "ToySTS") in printed.partition("[1/1]")[2]


@pytest.mark.parametrize("kind", ["profile", "task"])
def test_all_that_is_commented_out_is_valid(kind: str, folder: Path) -> None:
    typed("new", kind, "mine")
    text = (folder / "mine.toml").read_text()
    active, changed = re.subn(r"^#(\[|[a-z_0-9]+ = )", r"\1", text, flags=re.MULTILINE)
    assert changed > 5
    (folder / "mine.toml").write_text(active)
    profile = load_profile("mine.toml")
    inventory = Inventory(profile, None, {})
    assert inventory.tasks
    assert all(inventory.suites[name].tasks for name in profile.suites)
    assert inventory.corpora


def test_a_method_is_a_package_that_passes_the_checks_and_trains(folder: Path, install: Install) -> None:
    (command,) = commands(typed("new", "method", "warm_start"))
    project = tomllib.loads((folder / "warm_start" / "pyproject.toml").read_text())
    ((group, points),) = project["project"]["entry-points"].items()
    modules = project["tool"]["setuptools"]["py-modules"]
    assert [point.partition(":")[0] for point in points.values()] == modules
    names = {name: point.partition(":")[2] for name, point in points.items()}
    code = (folder / "warm_start" / "src" / "warm_start.py").read_text()
    install(modules[0], code, {group.removeprefix("harness."): names})
    method = getattr(importlib.import_module("warm_start"), names["warm_start"])
    assert check_method(method) == []
    assert "warm_start" in typed(*command.split(), *FEW, "--suites", "sts").partition("[1/1]")[2]


@pytest.mark.parametrize(("kind", "there"), [("profile", "it.toml"), ("task", "it.tsv"), ("method", "it/notes.txt")])
def test_nothing_is_overwritten(kind: str, there: str, folder: Path) -> None:
    (folder / there).parent.mkdir(exist_ok=True)
    (folder / there).write_text("mine")
    with pytest.raises(UserError, match="exists already; give another name, or move it away"):
        CliRunner().invoke(cli, ["new", kind, "it"], catch_exceptions=False)
    assert [path.read_text() for path in folder.rglob("*") if path.is_file()] == ["mine"]
