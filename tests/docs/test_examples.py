"""examples/: the template is what `harness new method` writes; the lab's package and the notebook
work.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from IPython.core.interactiveshell import InteractiveShell
from pages import ROOT
from plugin_packages import Install
from scripts import script

import harness
from harness.cli.main import cli

pytestmark = pytest.mark.usefixtures("small_toy_tests")

TEMPLATE = ROOT / "examples" / "plugin-template"


def files(folder: Path) -> dict[str, str]:
    kept = [
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    return {str(path.relative_to(folder)): path.read_text() for path in kept}


def test_the_template_is_what_the_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write it anew: `harness new method my_method`, in the place of examples/plugin-template."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["new", "method", "my_method"], catch_exceptions=False)
    assert done.output.endswith("\n  harness run --profile tiny --methods my_method\n")
    assert files(tmp_path / "my_method") == files(TEMPLATE)
    workflow = yaml.safe_load((TEMPLATE / ".github" / "workflows" / "method.yml").read_text())
    assert {"push", "pull_request"} <= workflow[True].keys()  # YAML reads `on` as true
    (job,) = workflow["jobs"].values()
    assert "reports/build" in job["steps"][-1]["with"]["path"]


@pytest.mark.parametrize("words", [[], ["--text-only"]], ids=["pictures", "text"])
def test_the_tests_of_the_template_pass(
    words: list[str], tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(cli, ["new", "method", "my_method", *words], catch_exceptions=False)
    code = Path("my_method/src/my_method.py").read_text()
    assert "@TEXT@" not in code
    assert ("PairBatch" in code) is not bool(words)
    install("my_method", code, {"methods": {"my_method": "MyMethod"}})
    tests = script(Path("my_method/tests/test_my_method.py").resolve())
    tests.test_it_passes_the_checks()
    tests.test_it_trains(tmp_path)
    cited = CliRunner().invoke(cli, ["cite", "--methods", "my_method"], catch_exceptions=False)
    assert "\n\n@misc{my_method,\n  title = {MyMethod},\n" in cited.output


def test_the_package_of_a_lab_trains_and_adds_its_section(tmp_path: Path, install: Install) -> None:
    lab = ROOT / "examples" / "lab"
    code = (lab / "src" / "lab.py").read_text()
    install("lab", code, {"methods": {"relational": "Relational"}, "sections": {"cost": "Cost"}})
    assert [line for line in code.splitlines() if line.startswith("class ") and "(Method)" in line]
    results = tmp_path / "results"
    finished = harness.run(
        str(lab / "lab.toml"), methods="relational", seeds=1, set={"steps": 4}, results=results
    )
    (run,) = finished.runs
    assert {"shape-pairs", "ToySTS"} <= set(finished.frame["task"])
    assert run.teachers["image"].source == str(lab / "features.npy")
    page = harness.report(results, tmp_path / "report").page
    index = page.with_name("overview.html").read_text()
    assert '<section id="cost">' in index
    assert f">{run.peak_memory_mb:.0f}<" in index


def test_the_notebook_runs_from_a_plan_to_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of its runs, of two steps each."""
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "examples" / "first_experiment.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shell = InteractiveShell()
    for cell in cells:
        ended = shell.run_cell(re.sub(r'"(steps|eval_every)": \d+', r'"\1": 2', cell))
        ended.raise_error()
    assert "<svg" in ended.result.data
    assert len(shell.user_ns["finished"]) == 6
    assert not [cell for cell in notebook["cells"] if cell.get("outputs")], (
        "a notebook is kept without outputs"
    )
