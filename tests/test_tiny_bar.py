"""The science of the tiny profile, in half of its steps: pictures help, shuffled pictures do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

from scipy.stats import ttest_ind

METHODS = ("simcse", "mcse", "mcse[images=shuffled]", "kdmcse", "dalr")
SEEDS = 2
SHORTER = ("--seeds", str(SEEDS), "--set", "steps=200", "--set", "eval_every=100")
COMMAND = [sys.executable, "-c", "from harness.cli.main import main; main()", "run", "--profile", "tiny"]


def test_grounded_methods_beat_simcse_by_twenty_points_and_the_control_does_not(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--methods", ",".join(METHODS), "--suites", "sts", *SHORTER, "--jobs", "2"],
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
        scores.setdefault(result["spec"]["variant"], []).append(result["evaluations"][0]["scores"]["Avg"]["spearman"])
    assert {name: len(values) for name, values in scores.items()} == dict.fromkeys(METHODS, SEEDS)
    simcse, mcse, shuffled = scores["simcse"], scores["mcse"], scores["mcse[images=shuffled]"]
    for name in ("mcse", "kdmcse", "dalr"):
        assert mean(scores[name]) - mean(simcse) > 20, name
        assert ttest_ind(scores[name], simcse).pvalue < 0.05, name
    assert stdev(mcse) < 8
    assert mean(shuffled) - mean(simcse) < 20
    assert mean(mcse) - mean(shuffled) > 20
    assert ttest_ind(mcse, shuffled).pvalue < 0.05
