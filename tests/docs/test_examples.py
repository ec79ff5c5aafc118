"""examples/plugin-template is what `harness new method` writes, and passes its own tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pages import ROOT
from plugin_packages import Install, install
from scripts import script

from harness.cli.main import cli

__all__ = ["install"]
TEMPLATE = ROOT / "examples" / "plugin-template"


def files(folder: Path) -> dict[str, str]:
    kept = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_text() for path in kept}


def test_the_template_is_what_the_command_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write it anew: `harness new method my_method`, in the place of examples/plugin-template."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["new", "method", "my_method"], catch_exceptions=False)
    assert done.exit_code == 0
    assert files(tmp_path / "my_method") == files(TEMPLATE)


def test_the_tests_of_the_template_pass(tmp_path: Path, install: Install) -> None:
    code = (TEMPLATE / "src" / "my_method.py").read_text()
    install("my_method", code, {"methods": {"my_method": "MyMethod"}})
    tests = script(TEMPLATE / "tests" / "test_my_method.py")
    tests.test_it_passes_the_checks()
    tests.test_it_trains(tmp_path)


def test_the_workflow_keeps_the_report() -> None:
    workflow = yaml.safe_load((TEMPLATE / ".github" / "workflows" / "method.yml").read_text())
    assert {"push", "pull_request"} <= workflow[True].keys()  # YAML reads `on` as true
    (job,) = workflow["jobs"].values()
    assert "reports/build" in job["steps"][-1]["with"]["path"]
