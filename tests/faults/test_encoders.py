"""Encoders that cannot be trained as they are: one line that says what to change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from faults_tools import SHORT, WAITING, misplace, short_run
from model_folders import Weights, as_bin, change, edit
from safetensors.torch import load_file

import harness
from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.errors import UserError
from harness.toy import student_folder

pytestmark = pytest.mark.usefixtures("small_toy_tests")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the toy student."""
    return Path(shutil.copytree(student_folder(), tmp_path / "encoder"))


def shortened(folder: Path, table: str, rows: int) -> None:
    """Leave some rows of a table of the weights."""

    def cut(weights: Weights) -> Weights:
        (name,) = (name for name in weights if table in name)
        return {**weights, name: weights[name][:rows].contiguous()}

    change(folder, cut)


def test_sentences_longer_than_the_model_are_cut_in_tests_and_refused_in_training(
    folder: Path, tmp_path: Path
) -> None:
    shortened(folder, "position_embeddings", 8)
    edit(folder / "config.json", max_position_embeddings=8)
    with pytest.raises(UserError, match="give --set max_length=8 or fewer"):
        short_run("simcse", tmp_path / "results", encoders=f"x={folder}")
    values = {**SHORT["set"], "max_length": 8}
    done = short_run("simcse", tmp_path / "results", encoders=f"x={folder}", set=values)
    assert not done.failures, done.failures
    assert Student.load(folder).embed(["a red circle " * 30]).shape == (1, 64)


def as_shards(folder: Path) -> None:
    names = dict.fromkeys(load_file(folder / "model.safetensors"), "shard.safetensors")
    (folder / "model.safetensors").rename(folder / "shard.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": names})
    )


@pytest.mark.parametrize("weights", [None, as_bin, as_shards], ids=["one file", "bin", "shards"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            ("num_hidden_layers", 100_000),
            ("vocab_size", 10**9),
            ("hidden_size", 10**9),
            ("vocab_size", "many"),
        ),
        *(
            ("intermediate_size", 10**9),
            ("num_attention_heads", -1),
            ("pad_token_id", 10**6),
            ("pad_token_id", "x"),
        ),
    ],
)
def test_a_configuration_beyond_its_weights_is_refused_before_a_model_is_built(
    key: str,
    value: object,
    weights: Callable[[Path], None] | None,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if weights is not None:
        weights(folder)
    assert Student.load(folder).width == 64
    edit(folder / "config.json", **{key: value})
    monkeypatch.setattr("transformers.AutoModel.from_pretrained", None)
    with pytest.raises(UserError, match=f"its config.json has {key} = "):
        Student.load(folder)


def too_few_embeddings(folder: Path) -> None:
    shortened(folder, "word_embeddings", 50)
    edit(folder / "config.json", vocab_size=50)


def special_tokens_only(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    special = {token["content"] for token in content["added_tokens"]}
    words = content["model"]["vocab"]
    edit(
        folder / "tokenizer.json",
        model={**content["model"], "vocab": {word: words[word] for word in special}},
    )


def foreign_attention(folder: Path) -> None:
    edit(folder / "sentence_bert_config.json", model_args={"attn_implementation": "evil/kernel"})


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        # what transformers itself refuses
        (lambda folder: edit(folder / "config.json", layer_norm_eps="x"), "{folder}.*[^:]$"),
        (lambda folder: edit(folder / "config.json", num_attention_heads=0), "{folder}.*[^:]$"),
        (
            lambda folder: edit(folder / "config.json", _attn_implementation="evil/kernel"),
            "attention 'evil/kernel'",
        ),
        (lambda folder: (folder / "config.json").write_text("[" * 10_000), "{folder}"),
        (lambda folder: (folder / "modules.json").write_text("[" * 10_000), "{folder}"),
        (foreign_attention, "its sentence_bert_config.json names the attention 'evil/kernel'"),
        (too_few_embeddings, "embedding table only 50 rows"),
        (
            lambda folder: edit(folder / "tokenizer_config.json", pad_token=None),
            "tokenizer in {folder} has no pad",
        ),
        (special_tokens_only, "special tokens only"),
    ],
)
def test_an_encoder_that_cannot_work_is_one_line(
    spoil: Callable[[Path], object], says: str, folder: Path
) -> None:
    spoil(folder)
    with pytest.raises(UserError, match=says.format(folder=folder)):
        Student.load(folder)


def test_a_length_that_is_no_number_of_tokens_is_refused(folder: Path, tmp_path: Path) -> None:
    Student.load(folder, "mean").save(tmp_path / "modules")
    for length in ("x", 0, -1, [1], 1.5):
        edit(tmp_path / "modules" / "sentence_bert_config.json", max_seq_length=length)
        with pytest.raises(UserError, match=str(tmp_path / "modules")):
            SentenceModules.load(tmp_path / "modules").embed(["a red circle"])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "1_Pooling/config.json"])
@pytest.mark.parametrize("kind", WAITING)
def test_no_file_of_a_model_is_waited_for(
    kind: str, name: str, folder: Path, tmp_path: Path
) -> None:
    modules = tmp_path / "modules"
    Student.load(folder, "mean").save(modules)
    misplace(modules / name, kind)
    with pytest.raises(UserError, match=str(modules / name)):
        harness.plan("tiny", methods="none", encoders=f"x={modules}", results=tmp_path / "results")
