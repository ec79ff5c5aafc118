"""A method in another installed package, and the example of CONTRIBUTING.md, which is one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as an installed package: a module and its metadata, as pip would lay them."""
    (code,) = re.findall(r"```python\n# twoway\.py\n(.*?)```", TEXT, re.DOTALL)
    (toml,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    group, line = re.findall(r'\[project\.entry-points\."(.*?)"\]\n(.*?)\n', toml)[0]
    site = tmp_path_factory.mktemp("site")
    (site / "twoway.py").write_text(code)
    info = site / "twoway-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: twoway\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    return site


def harness(*words: str, site: Path, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli.main import main; main()", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_is_listed_shown_and_runs(package: Path, tmp_path: Path) -> None:
    assert "twoway:TwoWay" in harness("list", "methods", site=package, cwd=tmp_path)
    assert "reverse" in harness("show", "twoway", site=package, cwd=tmp_path)
    commands = re.findall(r"^harness (run .*)$", TEXT, re.MULTILINE)
    assert commands, "CONTRIBUTING.md shows no run"
    words = commands[0].replace("--seeds 3", "--seeds 1").split()
    output = harness(*words, "--set", "steps=6", "--suites", "sts", "--executor", "serial", site=package, cwd=tmp_path)
    assert "[3/3]" in output
    assert "twoway[without=reverse]" in output


def test_a_bad_package_does_not_break_the_list(package: Path, tmp_path: Path) -> None:
    for name, entry in (("rival", "simcse = rival:SimCSE"), ("ends", "ends = ends:Method")):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[harness.methods]\n{entry}\n")
    (tmp_path / "ends.py").write_text("raise SystemExit(3)")
    output = " ".join(harness("list", "methods", site=tmp_path, cwd=tmp_path).split())
    assert "two packages register the method 'simcse'" in output
    assert "SystemExit: 3" in output
    assert "harness_methods.mcse:MCSE" in output
