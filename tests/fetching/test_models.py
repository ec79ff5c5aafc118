"""Which files of a hub's model are read, and the commits that are recorded for `main`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.fetching import HubRepository, read_commit, record_commit, select_model_files
from harness.fetching.repositories import HubFile

TEXTS = ["README.md", "config.json", "merges.txt", "tokenizer.json", "vocab.txt"]
ELSE = [
    "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.onnx", "onnx/config.json",
    "onnx/model.onnx", "openvino/openvino_model.bin", "training_args.bin", "coreml/model.safetensors",
]  # fmt: skip


def read(names: list[str], *readers: str, beside: Sequence[str] = ()) -> list[str]:
    repository = HubRepository("owner/model", "c" * 40, None, tuple(map(HubFile, names)))
    return [file.name for file in select_model_files(repository, readers or ("",), beside)]


SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
BOTH = ["model.safetensors", "open_clip_model.safetensors"]
MODULES = ["1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"]


@pytest.mark.parametrize(
    ("held", "readers", "taken"),
    [
        (["model.safetensors", "pytorch_model.bin"], (), ["model.safetensors"]),
        (["pytorch_model.bin"], (), ["pytorch_model.bin"]),
        ([*SHARDS, "pytorch_model.bin"], (), SHARDS),
        (BOTH, (), ["model.safetensors"]),
        (BOTH, ("timm",), ["model.safetensors"]),
        (BOTH, ("open-clip",), ["open_clip_model.safetensors"]),
        (BOTH, ("open-clip", "timm"), BOTH),
        (["pytorch_model.bin"], ("open-clip",), ["pytorch_model.bin"]),
        (["model.safetensors", "modules.json", *MODULES, "2_Dense/pytorch_model.bin"], (),
         ["model.safetensors", "modules.json", *MODULES]),
    ],
    ids=["one format", "the other", "shards", "of transformers", "timm", "open-clip", "two", "pickled", "modules"],
)  # fmt: skip
def test_the_weights_that_a_reader_reads_are_taken_in_one_format(
    held: list[str], readers: tuple[str, ...], taken: list[str]
) -> None:
    read_files = read([*ELSE, *held, *TEXTS], *readers)
    assert sorted(read_files) == sorted([*TEXTS, *taken])
    assert len(taken) > 2 or read_files == [*TEXTS, *taken], "weights come after the small files"


def test_a_model_without_weights_that_are_read_is_refused_by_name() -> None:
    with pytest.raises(
        UserError, match=r"owner/model at ccccccc has no readable weights.*give a folder"
    ):
        read([*TEXTS, *ELSE])


def test_a_file_beside_the_weights_comes_along_where_it_is_read() -> None:
    held = ["config.json", "mcse.pt", "model.safetensors"]
    assert read(held) == ["config.json", "model.safetensors"]
    assert read(held, beside=["mcse.pt"]) == held
    with pytest.raises(
        UserError, match=r"owner/model at ccccccc has no heads.pt; fetch another commit"
    ):
        read(held, beside=["heads.pt"])


def test_recorded_commits_are_kept_apart_by_model(tmp_path: Path) -> None:
    assert read_commit(tmp_path, "owner/a") is None
    assert read_commit(None, "owner/a") is None
    record_commit(tmp_path, "owner/a", "a" * 40, print)
    record_commit(tmp_path, "owner/b", "b" * 40, print)
    assert read_commit(tmp_path, "owner/a") == "a" * 40
    record = tmp_path / ".catalogue" / "models.json"
    record.write_text(record.read_text().replace("b" * 40, "c" * 40))
    said = r"models\.json is not a record of commits"
    with pytest.raises(UserError, match=f"{said}: its content does not match its digest"):
        read_commit(tmp_path, "owner/a")
    record.write_text(json.dumps({"owner/a": "d" * 40}))
    assert read_commit(tmp_path, "owner/a") == "d" * 40, "of an earlier version"
    record.write_text("[1]")
    with pytest.raises(UserError, match=said):
        read_commit(tmp_path, "owner/a")
