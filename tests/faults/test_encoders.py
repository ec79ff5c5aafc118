"""Encoders that cannot be trained as they are: one line that says what to change."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from faults_tools import SHORT, short_run
from safetensors.torch import load_file, save_file

import harness
from harness.encoders.student import SentenceModules, Student
from harness.errors import UserError
from harness.toy import student_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the toy student."""
    return Path(shutil.copytree(student_folder(), tmp_path / "encoder"))


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def failure(folder: Path, results: Path) -> str:
    (found,) = short_run("simcse", results, encoders=f"x={folder}").failures
    return found.error


def test_a_tokenizer_without_a_pad_token_is_named(folder: Path, tmp_path: Path) -> None:
    change(folder / "tokenizer_config.json", pad_token=None)
    said = failure(folder, tmp_path / "results")
    assert f"the tokenizer in {folder} has no pad token" in said
    assert 'set one in its tokenizer_config.json ("pad_token")' in said


def test_sentences_longer_than_the_model_are_cut_in_tests_and_refused_in_training(folder: Path, tmp_path: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (name,) = (name for name in weights if "position_embeddings" in name)
    save_file({**weights, name: weights[name][:8].contiguous()}, folder / "model.safetensors", {"format": "pt"})
    change(folder / "config.json", max_position_embeddings=8)
    said = failure(folder, tmp_path / "results")
    assert said.startswith("max_length = 32, and the encoder reads 8 tokens at most; give --set max_length=8 or fewer")
    values = {**SHORT["set"], "max_length": 8}
    done = short_run("simcse", tmp_path / "results", encoders=f"x={folder}", set=values)
    assert not done.failures, done.failures
    assert Student.load(folder).embed(["a red circle " * 30]).shape == (1, 64)
    assert harness.results(tmp_path / "results").failures, "that of the first run is kept"


@pytest.mark.parametrize("name", ["ViTModel", "T5Model"])
def test_a_model_that_encodes_no_text_is_named(name: str, folder: Path) -> None:
    import transformers

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    if name == "T5Model":
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 96}
    config = getattr(transformers, name.replace("Model", "Config"))(**sizes)
    getattr(transformers, name)(config).save_pretrained(folder)
    with pytest.raises(UserError, match=f"is a {name}, which cannot encode text on its own"):
        Student.load(folder)


@pytest.mark.parametrize("file", ["config.json", "sentence_bert_config.json"])
def test_an_attention_of_another_repository_is_refused(file: str, folder: Path) -> None:
    path = folder / file
    path.write_text(path.read_text() if path.is_file() else "{}")
    key = "_attn_implementation" if file == "config.json" else "model_args"
    change(path, **{key: "evil/kernel" if file == "config.json" else {"attn_implementation": "evil/kernel"}})
    with pytest.raises(UserError, match=f"its {file} names the attention 'evil/kernel'"):
        Student.load(folder)


def as_bin(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def as_shards(folder: Path) -> None:
    names = dict.fromkeys(load_file(folder / "model.safetensors"), "shard.safetensors")
    (folder / "model.safetensors").rename(folder / "shard.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))


@pytest.mark.parametrize("weights", [None, as_bin, as_shards], ids=["one file", "bin", "shards"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("num_hidden_layers", 100_000), ("vocab_size", 10**9), ("hidden_size", 10**9), ("vocab_size", "many")),
        *(("intermediate_size", 10**9), ("num_attention_heads", -1), ("pad_token_id", 10**6), ("pad_token_id", "x")),
    ],
)
def test_a_configuration_beyond_its_weights_is_refused_before_a_model_is_built(
    key: str, value: object, weights: Callable[[Path], None] | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if weights is not None:
        weights(folder)
    assert Student.load(folder).width == 64
    change(folder / "config.json", **{key: value})
    monkeypatch.setattr("transformers.AutoModel.from_pretrained", None)
    with pytest.raises(UserError, match=f"its config.json has {key} = "):
        Student.load(folder)


@pytest.mark.parametrize(("key", "value"), [("layer_norm_eps", "x"), ("num_attention_heads", 0)])
def test_a_configuration_that_transformers_refuses_costs_one_line(key: str, value: object, folder: Path) -> None:
    change(folder / "config.json", **{key: value})
    with pytest.raises(UserError, match=str(folder)) as said:
        Student.load(folder)
    assert not str(said.value).endswith(":")


def test_token_ids_without_an_embedding_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (name,) = (name for name in weights if "word_embeddings" in name)
    save_file({**weights, name: weights[name][:50].contiguous()}, folder / "model.safetensors", {"format": "pt"})
    change(folder / "config.json", vocab_size=50)
    with pytest.raises(UserError, match="embedding table only 50 rows"):
        Student.load(folder)


@pytest.mark.parametrize("length", ["x", 0, -1, [1], 1.5])
def test_a_length_that_is_no_number_of_tokens_is_refused(length: object, folder: Path, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    Student.load(folder, "mean").save(modules)
    change(modules / "sentence_bert_config.json", max_seq_length=length)
    with pytest.raises(UserError, match=str(modules)):
        SentenceModules.load(modules).embed(["a red circle"])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "1_Pooling/config.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_no_file_of_a_model_is_waited_for(kind: str, name: str, folder: Path, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    Student.load(folder, "mean").save(modules)
    odd = modules / name
    odd.unlink()
    os.mkfifo(odd) if kind == "pipe" else odd.symlink_to("/dev/zero" if kind == "device" else odd)
    with pytest.raises(UserError, match=str(odd)):
        harness.plan("tiny", methods="none", encoders=f"x={modules}", results=tmp_path / "results")


def test_a_vocabulary_of_special_tokens_only_is_refused(folder: Path) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    special = {token["content"] for token in content["added_tokens"]}
    content["model"]["vocab"] = {word: at for word, at in content["model"]["vocab"].items() if word in special}
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="special tokens only"):
        Student.load(folder)
