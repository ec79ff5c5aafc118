"""The installed package: its top-level names, its data files, and its place beside a user's own
packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a wheel installs, built without the network."""
    target = tmp_path_factory.mktemp("installed")
    steps = ["egg_info", "--egg-base", str(target), "build_py", "--build-lib", str(target)]
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", *steps], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return target


FILES = {
    "harness": (
        "profiles/*.toml",
        "fetching/**/*.toml",
        "cli/starts/*",
        "toy/**/*.safetensors",
        "toy/**/*.json",
    ),
    "harness/docs": ("*.md",),
    "methods": ("*.py",),
    "reports": ("*.csv", "papers/*.toml", "templates/*", "notes/*.md"),
}


def test_three_top_level_names_and_their_files_are_installed(installed: Path) -> None:
    names = {path.name for path in installed.iterdir() if path.suffix != ".egg-info"}
    assert names == {"harness", "harness_methods", "harness_reports"}
    for folder, patterns in FILES.items():
        package = installed / (folder if folder.startswith("harness") else f"harness_{folder}")
        source = ROOT / folder.removeprefix("harness/")
        for pattern in patterns:
            there = {path.name for path in package.glob(pattern) if path.is_file()}
            assert there == {path.name for path in source.glob(pattern) if path.is_file()}, pattern
            assert there, pattern


def test_a_users_own_packages_do_not_collide(installed: Path, tmp_path: Path) -> None:
    for name in ("methods", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            "raise RuntimeError('the user\\'s own package was imported')\n"
        )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(installed)))}
    code = (
        "import sys, harness, harness_methods, harness_reports; from harness.cli.main import main\n"
        "print(harness.__file__, harness_methods.__file__, harness_reports.__file__)\n"
        "sys.argv = ['harness', 'list', 'methods']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, *listed = done.stdout.splitlines()
    assert all(path.startswith(str(installed)) for path in first.split())
    assert any(line.split()[:1] == ["mcse"] for line in listed)
    assert "cannot be loaded" not in done.stdout
