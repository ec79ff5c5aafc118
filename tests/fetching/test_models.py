"""Which files of a hub's model are read, and the commits that are recorded for `main`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.fetching import HubRepository, files_read, record_commit, recorded_commit
from harness.fetching.repositories import HubFile

TEXTS = ["README.md", "config.json", "merges.txt", "tokenizer.json", "vocab.txt"]
ELSE = [
    "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.onnx", "onnx/config.json",
    "onnx/model.onnx", "openvino/openvino_model.bin", "training_args.bin", "coreml/model.safetensors",
]  # fmt: skip


def read(names: list[str], *readers: str) -> list[str]:
    found = HubRepository("owner/model", "c" * 40, None, tuple(map(HubFile, names)))
    return [file.name for file in files_read(found, readers or ("",))]


@pytest.mark.parametrize(
    ("held", "taken"),
    [
        (["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
        (["pytorch_model.bin"], ["pytorch_model.bin"]),
        (
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "pytorch_model.bin"],
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ),
        (["open_clip_model.safetensors", "model.safetensors"], ["model.safetensors"]),
    ],
)
def test_weights_are_taken_in_one_format_after_the_small_files(held: list[str], taken: list[str]) -> None:
    assert read([*ELSE, *held, *TEXTS]) == [*TEXTS, *taken]


def test_each_kind_of_teacher_takes_its_own_weights() -> None:
    held = ["open_clip_model.safetensors", "model.safetensors", "config.json", "open_clip_config.json"]
    assert read(held, "open-clip")[2:] == ["open_clip_model.safetensors"]
    assert read(held, "timm")[2:] == ["model.safetensors"]
    assert sorted(read(held, "open-clip", "timm")[2:]) == ["model.safetensors", "open_clip_model.safetensors"]
    assert read(["pytorch_model.bin", "open_clip_config.json"], "open-clip")[1:] == ["pytorch_model.bin"]


def test_the_modules_of_sentence_transformers_come_along() -> None:
    modules = ["1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin"]
    taken = read([*modules, "modules.json", "config.json", "model.safetensors"])
    assert sorted(taken) == sorted(["config.json", "modules.json", "model.safetensors", *modules[:3]])


def test_a_model_without_weights_that_are_read_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"owner/model at ccccccc has no readable weights.*give a folder"):
        read([*TEXTS, *ELSE])


def test_a_file_beside_the_weights_comes_along_where_it_is_read() -> None:
    held = tuple(map(HubFile, ["config.json", "mcse.pt", "model.safetensors"]))
    found = HubRepository("owner/model", "c" * 40, None, held)
    assert [file.name for file in files_read(found, [""])] == ["config.json", "model.safetensors"]
    assert [file.name for file in files_read(found, [""], ["mcse.pt"])] == [
        "config.json",
        "mcse.pt",
        "model.safetensors",
    ]
    with pytest.raises(UserError, match=r"owner/model at ccccccc has no heads.pt; fetch another commit"):
        files_read(found, [""], ["heads.pt"])


def test_recorded_commits_are_kept_apart_by_model(tmp_path: Path) -> None:
    assert recorded_commit(tmp_path, "owner/a") is None
    assert recorded_commit(None, "owner/a") is None
    record_commit(tmp_path, "owner/a", "a" * 40, print)
    record_commit(tmp_path, "owner/b", "b" * 40, print)
    assert recorded_commit(tmp_path, "owner/a") == "a" * 40
    record = tmp_path / ".catalogue" / "models.json"
    record.write_text(record.read_text().replace("b" * 40, "c" * 40))
    with pytest.raises(
        UserError, match=r"models\.json is not a record of commits: its content does not match its digest"
    ):
        recorded_commit(tmp_path, "owner/a")
    record.write_text(json.dumps({"owner/a": "d" * 40}))
    assert recorded_commit(tmp_path, "owner/a") == "d" * 40, "of an earlier version"
    record.write_text("[1]")
    with pytest.raises(UserError, match=r"models\.json is not a record of commits"):
        recorded_commit(tmp_path, "owner/a")
