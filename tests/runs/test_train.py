"""One run at its best checkpoint: killed by -9 at any step and resumed bit for bit, loaded again, or untrained."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from harness.errors import UserError
from harness.grid import resolve
from harness.planning.events import Event
from harness.planning.ingredients import Experiment, Experiments
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.runs.train import Bench, train
from harness.spec import RunSpec
from harness.store import Store
from harness.training.record import TrainingRecord

STEPS = 60
#: the command, which saves a checkpoint after each step
AFTER_EACH_STEP = """
from harness.cli.main import main
from harness.training import trainer
trainer.SAVE_EVERY_S = 0
main()
"""
COMMAND = [
    *(sys.executable, "-c", AFTER_EACH_STEP),
    *("run", "--profile", "tiny", "--methods", "mcse", "--seeds", "1", "--device", "cpu", "--suites", "sts"),
    *("--executor", "serial"),
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


@pytest.mark.long  # the kills of tests/faults are the short form
def test_killed_at_random_steps_it_ends_the_same(undisturbed: dict[str, object], tmp_path: Path) -> None:
    chance = random.Random(1)
    for _ in range(2):
        process = start(tmp_path)
        wanted = chance.randrange(1, 30)
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


_seen: dict[Path, set[str]] = {}


def saved(results: Path) -> int:
    """How many checkpoints this test has seen being written."""
    times = _seen.setdefault(results, set())
    times |= {path.name for path in results.glob(".work/*/checkpoint-*.pt")}
    return len(times)


SHORT = {"steps": 4, "eval_every": 2, "batch_size": 8}


def experiment(key: str, **overrides: int) -> Experiment:
    profile = load_profile("tiny")
    return Experiments(Inventory(profile, None, {}), overrides).of(resolve(profile, RunSpec.parse(key), overrides))


def ignore(event: Event) -> None:
    """Listen to nothing."""


def test_an_untrained_encoder_has_no_heads_and_an_empty_record(tmp_path: Path) -> None:
    found = train(experiment("none[pooling=mean]/none/toy-bert/seed-0"), Bench(Store(tmp_path), "cpu", ignore))
    assert found.heads is None
    assert found.record == TrainingRecord()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_finished_training_is_loaded_and_not_repeated(tmp_path: Path) -> None:
    events: list[Event] = []
    bench = Bench(Store(tmp_path), "cpu", events.append)
    asked = experiment("simcse/toy/toy-bert/seed-0", **SHORT)
    first = train(asked, bench)
    assert [event.progress.step for event in events if event.progress][-1] == 4
    assert not list(bench.folder(asked).glob("checkpoint*"))
    events.clear()
    again = train(asked, bench)
    assert not [event for event in events if event.progress]
    assert again.record == first.record
    sentences = ["the red circle", "a blue ring"]
    np.testing.assert_array_equal(again.student.embed(sentences), first.student.embed(sentences))


def test_an_unknown_patch_embedding_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no patch embedding 'other'"):
        train(
            experiment("visualcse[patches=other]/toy/toy-bert/seed-0", **SHORT),
            Bench(Store(tmp_path), "cpu", ignore),
        )
