"""The science of the tiny profile, by the commands of the README: pictures help, shuffled pictures do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean

from scipy.stats import ttest_ind


def test_mcse_beats_simcse_by_twenty_points_and_its_control_does_not(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli.main import main; main()", "run", "--profile", "tiny", "--jobs", "2"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    scores: dict[str, list[float]] = {}
    for path in sorted(tmp_path.glob("results/tiny/*/toy/toy-bert/seed-*.json")):
        result = json.loads(path.read_text())
        scores.setdefault(result["spec"]["variant"], []).append(result["scores"]["sts"]["Avg"]["spearman"])
    assert {name: len(values) for name, values in scores.items()} == dict.fromkeys(
        ("simcse", "mcse", "mcse[images=shuffled]"), 3
    )
    simcse, mcse, shuffled = scores["simcse"], scores["mcse"], scores["mcse[images=shuffled]"]
    assert mean(mcse) - mean(simcse) > 20
    assert ttest_ind(mcse, simcse).pvalue < 0.05
    assert mean(mcse) - mean(shuffled) > 20
    assert ttest_ind(mcse, shuffled).pvalue < 0.05
