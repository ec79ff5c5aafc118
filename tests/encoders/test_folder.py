"""Model folders of sentence-transformers, written and read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.corpora.toy import student_folder
from harness.encoders.folder import read_modules
from harness.encoders.student import Student
from harness.errors import UserError


@pytest.mark.parametrize("pooling", ["cls", "mean", "pooler"])
def test_the_pooling_of_a_saved_student_is_read_back(pooling: str, tmp_path: Path) -> None:
    Student.load(student_folder(), pooling).save(tmp_path)
    assert read_modules(tmp_path) == (tmp_path, pooling)


def test_a_pooling_that_sentence_transformers_lacks_writes_no_modules(tmp_path: Path) -> None:
    Student.load(student_folder(), "avg-first-last").save(tmp_path)
    assert read_modules(tmp_path) == (tmp_path, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Student.load(student_folder(), "mean").save(tmp_path)
    return tmp_path


def settings(folder: Path, **values: object) -> None:
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(values))


def test_newer_folders_name_the_mode(folder: Path) -> None:
    settings(folder, pooling_mode="cls", word_embedding_dimension=64)
    assert read_modules(folder) == (folder, "cls")


@pytest.mark.parametrize(
    "values",
    [{"pooling_mode": "weightedmean"}, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, {}],
    ids=["unknown", "two", "none"],
)
def test_other_modes_are_refused(folder: Path, values: dict[str, object]) -> None:
    settings(folder, **values)
    with pytest.raises(UserError, match="unsupported module or pooling"):
        read_modules(folder)


def test_other_modules_are_refused(folder: Path) -> None:
    listed = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*listed, {"idx": 2, "path": "2", "type": "x.models.LSTM"}]))
    with pytest.raises(UserError, match="unsupported module or pooling: LSTM"):
        read_modules(folder)


def test_a_mean_behind_a_dense_layer_is_not_taken_for_the_pooler(folder: Path) -> None:
    listed = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*listed, {"idx": 2, "path": "2", "type": "x.models.Dense"}]))
    with pytest.raises(UserError, match="mean, Dense"):
        read_modules(folder)


def test_a_damaged_list_is_refused(folder: Path) -> None:
    (folder / "modules.json").write_text("[")
    with pytest.raises(UserError, match=r"modules\.json cannot be read"):
        read_modules(folder)
