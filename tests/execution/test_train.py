"""Killed by -9 at any step and started again, a run on the CPU ends bit for bit as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STEPS = 60
COMMAND = [
    *(sys.executable, "-c", "from harness.cli.main import main; main()"),
    *("run", "--profile", "tiny", "--methods", "mcse", "--seeds", "1", "--device", "cpu", "--suites", "sts"),
    *("--set", f"steps={STEPS}", "--set", "eval_every=4", "--set", "batch_size=32"),
]


def start(results: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--results", str(results)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def ended(results: Path) -> dict[str, object]:
    """What a finished run leaves that does not name a clock: scores, curves and the bytes of the weights."""
    (path,) = results.glob("tiny/*/*/*/seed-0-*.json")
    result = json.loads(path.read_text())
    (best,) = results.glob(".work/*/best")
    weights = {name: (best / name).read_bytes() for name in ("model.safetensors", "heads.safetensors")}
    scores = {one["suite"]: one["scores"] for one in result["evaluations"]}
    return {"scores": scores, "dev": result["dev"], "losses": result["losses"], **weights}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    results = tmp_path_factory.mktemp("undisturbed")
    process = start(results)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return ended(results)


@pytest.mark.parametrize("case", range(2))
def test_killed_at_random_steps_it_ends_the_same(undisturbed: dict[str, object], tmp_path: Path, case: int) -> None:
    chance = random.Random(case)
    for _ in range(2):
        process = start(tmp_path)
        wanted = chance.randrange(1, 9)
        deadline = time.monotonic() + 90
        while process.poll() is None and time.monotonic() < deadline and saved(tmp_path) < wanted:
            time.sleep(0.01)
        time.sleep(chance.random() * 0.2)
        assert process.poll() is None, "the run ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not list(tmp_path.glob("tiny/**/*.json")), "a killed run left a result"
    process = start(tmp_path)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert ended(tmp_path) == undisturbed
    (log,) = tmp_path.glob("tiny/*/*/*/seed-0-*.log")
    lines = log.read_text()
    # a process killed while it loads has none
    assert lines.index("  training starts: 60 steps") < lines.index("  training resumes at step "), "lines are lost"


_seen: dict[Path, set[int]] = {}


def saved(results: Path) -> int:
    """How many checkpoints this test has seen being written."""
    times = _seen.setdefault(results, set())
    times |= {path.stat().st_mtime_ns for path in results.glob(".work/*/checkpoint.pt")}
    return len(times)
