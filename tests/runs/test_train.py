"""One run at its best checkpoint: loaded again, or untrained. What a kill leaves is resumed in tests/faults."""

from __future__ import annotations

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
