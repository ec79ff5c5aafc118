"""A storm of commands on one folder, many of them killed: no result that was once there changes."""

from __future__ import annotations

import random
import signal
from functools import partial
from pathlib import Path
from shutil import copytree

import pytest
from executor_jobs import scores
from faults_tools import hashes, short_run
from killing import exit_code, short

from harness.work.forkserver import start

METHODS = ("simcse", "mcse", "simcse,mcse", "none[pooling=cls]", "none[pooling=mean]")
#: commands at a time, and how many times
COMMANDS, ROUNDS = 4, 12


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(3))
def test_a_storm_of_commands_loses_and_changes_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, grid = random.Random(seed), partial(short, settings="toy")
    whole, storm = tmp_path / "whole", tmp_path / "storm"
    monkeypatch.setenv("HARNESS_CACHE", str(whole / "cache"))
    for methods in METHODS:
        short_run(methods, whole / "results", settings="toy")
    wanted, history = scores(whole / "results"), dict[str, str]()
    copytree(whole / "cache", storm / "cache")

    for _ in range(ROUNDS):
        commands = [
            start(grid, str(storm), None, rng.choice(METHODS), environment={})
            for _ in range(COMMANDS)
        ]
        for command in commands:
            command.join(rng.uniform(0, 3))
            if rng.random() < 0.3:
                command.kill()
        assert {exit_code(command) for command in commands} <= {0, -signal.SIGKILL}
        now = {
            name: content
            for name, content in hashes(storm / "results").items()
            if name.endswith(".json")
        }
        assert history.items() <= now.items(), "a result was lost or changed"
        history = now

    monkeypatch.setenv("HARNESS_CACHE", str(storm / "cache"))
    for methods in METHODS:
        short_run(methods, storm / "results", settings="toy")
    assert scores(storm / "results") == wanted
    assert not [path for path in storm.rglob("*.tmp") if "results" in path.parts]
