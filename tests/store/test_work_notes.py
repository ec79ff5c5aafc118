"""Notes in work folders that nobody of the harness wrote: each counts as none, and odd names are
ignored.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import result

from harness.files import parse_note, seal_folder, write_note
from harness.store import Evaluation, Protocol, Store
from harness.store.folder import (
    find_checkpoint_step,
    keep_evaluation,
    list_checkpoints,
    read_kept_evaluation,
    read_submission,
    read_submissions,
)
from harness.training.folder import TrainingFolder

RUN = "ab" * 32


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint-²-0.pt",
        "checkpoint-9-0.pt",
        "checkpoint--.pt",
        "checkpoint-٣-{}.pt",
        "checkpoint-9-{}.pt.old",
    ],
)
def test_a_file_that_is_no_checkpoint_is_ignored(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    work = store.work(RUN)
    work.mkdir(parents=True)
    (work / name.format("a" * 32)).write_text("")
    assert find_checkpoint_step(store, RUN) == 0
    assert list_checkpoints(work) == TrainingFolder(work).list_checkpoints() == []
    (work / f"checkpoint-12-{'b' * 32}.pt").write_text("")
    (work / f"checkpoint-7-{'c' * 32}.pt").write_text("")
    assert find_checkpoint_step(store, RUN) == 12
    assert [path.name[:13] for path in TrainingFolder(work).list_checkpoints()] == [
        "checkpoint-12",
        "checkpoint-7-",
    ]


@pytest.mark.parametrize(
    "noted",
    [
        {"system": "SLURM", "id": 3, "key": "k", "log": "l"},
        {"system": "SLURM", "id": "3", "key": "k"},
        {},
    ],
)
def test_a_submission_of_a_wrong_type_is_as_none(noted: dict[str, object], tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.work(RUN) / "submitted.json"
    path.parent.mkdir(parents=True)
    path.write_text("")
    if noted:
        write_note(path, noted)
    assert read_submission(store, RUN) is None
    assert read_submissions(store) == {}


@pytest.mark.parametrize(
    "values", [{"seconds": "long"}, {"losses": []}, {"dev_steps": [None]}, {"dev_scores": 3}]
)
def test_a_record_of_training_of_a_wrong_type_has_not_ended(
    values: dict[str, object], tmp_path: Path
) -> None:
    folder = TrainingFolder(tmp_path)
    folder.best.mkdir()
    seal_folder(folder.best)
    write_note(tmp_path / "trained.json", {"seconds": 1.0})
    assert folder.has_ended
    write_note(tmp_path / "trained.json", values)
    assert not folder.has_ended


@pytest.mark.parametrize("lost", ["arrays", "scores"])
def test_a_kept_evaluation_without_a_member_is_evaluated_again(lost: str, tmp_path: Path) -> None:
    store, protocol = Store(tmp_path), Protocol(version=1, data="d")
    kept: Evaluation = result().evaluations[0].model_copy(update={"protocol": protocol})
    keep_evaluation(store, RUN, kept, {})
    assert read_kept_evaluation(store, RUN, kept.suite, protocol) == kept
    (path,) = store.work(RUN).glob("scores-*.json")
    values = parse_note(path.read_bytes())
    del values[lost]
    write_note(path, {**values, "other": 1})
    assert read_kept_evaluation(store, RUN, kept.suite, protocol) is None
