"""Packages that cannot be used, beside those that can."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


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


def test_a_bad_package_does_not_break_the_list(tmp_path: Path) -> None:
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
