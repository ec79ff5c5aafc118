"""Models beside their oracles: token ids against tokenizer.json, vectors against plain transformers
and sentence-transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoders_page import SENTENCES as LAYOUT_SENTENCES
from encoders_page import embed_by_modules, save_layouts, save_small_model
from faults_tools import short_run
from model_folders import SPECIAL, edit, other_digits, word_pieces, write_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, T5EncoderModel, T5Model

import harness
from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.encoders.tokenizer import load_tokenizer
from harness.errors import UserError
from harness.planning.encoders import try_encoders

pytestmark = pytest.mark.usefixtures("small_toy_tests")

SENTENCES = ["the 12 dogs", "a Horse sleeps on 345 cats", "the red circle is 2 of 31", "dog"]


def byte_pairs() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*SPECIAL, *alphabet, "12", "34", "do", "dog"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [("1", "2"), ("3", "4"), ("d", "o"), ("do", "g")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel()]
    )
    return tokenizer


def unigrams() -> Tokenizer:
    words = ["▁the", "▁a", "▁dog", "▁dogs", "s", "▁", "1", "2", "3", "12", "345", "▁12", "▁345"]
    tokenizer = Tokenizer(models.Unigram([(word, -1.0) for word in [*SPECIAL, *words]], unk_id=1))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    return tokenizer


CLASSES: dict[str, Callable[[], Tokenizer]] = {
    **dict.fromkeys(("BertTokenizer", "DistilBertTokenizer", "MPNetTokenizer"), word_pieces),
    **dict.fromkeys(("RobertaTokenizer", "GPT2Tokenizer", "BartTokenizer"), byte_pairs),
    **dict.fromkeys(("DebertaTokenizer", "Qwen2Tokenizer", "CLIPTokenizer"), byte_pairs),
    **dict.fromkeys(("T5Tokenizer", "XLMRobertaTokenizer", "AlbertTokenizer"), unigrams),
}


@pytest.mark.parametrize("name", CLASSES)
def test_token_ids_are_those_of_the_file(name: str, tmp_path: Path) -> None:
    write_tokenizer(tmp_path, CLASSES[name](), name)
    expected = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert AutoTokenizer.from_pretrained(tmp_path)(SENTENCES)["input_ids"] != [
        encoding.ids for encoding in expected.encode_batch(SENTENCES)
    ]

    read = load_tokenizer(tmp_path)
    assert read(SENTENCES)["input_ids"] == [
        encoding.ids for encoding in expected.encode_batch(SENTENCES)
    ]
    assert (read.pad_token_id, read.cls_token_id, read.model_max_length) == (0, 2, 64)

    read.save_pretrained(tmp_path / "again")
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again(SENTENCES)["input_ids"] == read(SENTENCES)["input_ids"]


def test_special_tokens_that_only_the_class_names_are_kept(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, word_pieces(), "BertTokenizer")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert load_tokenizer(tmp_path).pad_token_id == 0


def test_ids_that_no_reading_gives_are_refused(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, word_pieces(), "BertTokenizer")
    added = {
        str(number): {"content": token, "special": True} for number, token in enumerate(SPECIAL)
    }
    added["40"] = {"content": "guitar"}
    edit(tmp_path / "tokenizer_config.json", added_tokens_decoder=added)
    with pytest.raises(
        UserError, match=r"playing a guitar.* into other tokens than its token"
    ) as no:
        load_tokenizer(tmp_path)

    assert "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)" in str(no.value)
    AutoTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path)("the guitar")["input_ids"]


def test_a_student_and_its_modules_read_the_file_and_say_so(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as made

    encoder = other_digits(tmp_path / "encoder")
    student = Student.load(encoder, "mean")
    (remark,) = student.found.remarks
    assert "its tokens are those of its tokenizer.json, which BertTokenizer" in remark
    ids = [
        encoding.ids
        for encoding in Tokenizer.from_file(str(encoder / "tokenizer.json")).encode_batch(SENTENCES)
    ]
    assert Student.load(encoder, "mean").found.remarks == (remark,)  # from the cache

    layers = [made.Transformer(str(encoder)), made.Pooling(32, "mean")]
    SentenceTransformer(modules=layers, device="cpu").save(str(tmp_path / "modules"))
    for file in ("tokenizer.json", "tokenizer_config.json"):  # as the hub has it
        (tmp_path / "modules" / file).write_bytes((encoder / file).read_bytes())
    modules = SentenceModules.load(tmp_path / "modules")
    assert modules.found.remarks == (remark,)
    assert modules.model.tokenizer(SENTENCES)["input_ids"] == ids
    np.testing.assert_allclose(modules.embed(SENTENCES), student.embed(SENTENCES), atol=1e-5)


def test_a_plan_and_a_result_say_how_tokens_were_read(tmp_path: Path) -> None:
    encoder = other_digits(tmp_path / "encoder")
    options = {"methods": "simcse", "profile": "tiny", "encoders": f"mine={encoder}", "seeds": 1}
    plan = try_encoders(harness.plan(**options, results=tmp_path / "results"))
    said = "encoder mine: its tokens are those of its tokenizer.json"
    assert [line for line in plan.warnings if line.startswith(said)]

    (result,) = short_run("simcse", tmp_path / "results", encoders=f"mine={encoder}").runs
    assert [line for line in result.warnings if line.startswith(said)]


@pytest.mark.parametrize("stored", ["bfloat16", "float16"])
def test_weights_are_read_in_float32_whatever_config_json_names(
    stored: str, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as made

    encoder = tmp_path / "encoder"
    save_small_model("bert", encoder)
    layers = [made.Transformer(str(encoder)), made.Pooling(32, "mean")]
    SentenceTransformer(modules=layers, device="cpu").save(str(tmp_path / "modules"))
    expected = SentenceTransformer(str(tmp_path / "modules"), device="cpu").encode(SENTENCES)

    edit(tmp_path / "modules" / "config.json", dtype=stored)
    read = SentenceModules.load(tmp_path / "modules").embed(SENTENCES)
    np.testing.assert_allclose(read, expected, atol=1e-5)


@torch.inference_mode()
def t5_vectors(folder: Path) -> np.ndarray:
    """Means of the encoder of T5, one sentence at a time."""
    model, tokenizer = T5EncoderModel.from_pretrained(folder).eval(), load_tokenizer(folder)
    states = [model(**tokenizer(text, return_tensors="pt")) for text in SENTENCES]
    return np.stack([output.last_hidden_state[0].mean(0).numpy() for output in states])


@pytest.mark.parametrize("saved_by", [T5Model, T5EncoderModel])
def test_the_encoder_of_t5_is_read(saved_by: Any, tmp_path: Path) -> None:
    save_small_model("bert", tmp_path / "bert")
    config = saved_by.config_class(
        vocab_size=64, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2, pad_token_id=0
    )
    torch.manual_seed(0)
    saved_by(config).save_pretrained(tmp_path / "t5")
    load_tokenizer(tmp_path / "bert").save_pretrained(tmp_path / "t5")

    student = Student.load(tmp_path / "t5", "mean", rates=(0.2, -1.0))
    assert student.width == 32
    assert student.found.views  # the rate of dropout is followed
    np.testing.assert_allclose(student.embed(SENTENCES), t5_vectors(tmp_path / "t5"), atol=1e-5)

    student.save(tmp_path / "saved")
    again = Student.load(tmp_path / "saved", "mean")
    np.testing.assert_allclose(again.embed(SENTENCES), student.embed(SENTENCES), atol=1e-6)
    modules = SentenceModules.load(tmp_path / "saved")
    np.testing.assert_allclose(modules.embed(SENTENCES), student.embed(SENTENCES), atol=1e-5)


@pytest.mark.long
def test_each_kind_of_module_is_equal_to_its_library_or_refused(tmp_path: Path) -> None:
    """As mteb calls them: sentences, queries and documents."""
    from sentence_transformers import SentenceTransformer

    refused = []
    for name, folder in save_layouts(tmp_path).items():
        try:
            model = SentenceModules.load(folder)
        except UserError:
            refused.append(name)
            continue
        expected = embed_by_modules(folder, "modules")
        np.testing.assert_allclose(model.embed(LAYOUT_SENTENCES), expected, atol=1e-4)
        views = model.views(LAYOUT_SENTENCES, 1)[:, 0]
        np.testing.assert_allclose(views.detach().numpy(), expected, atol=1e-4)
        library = SentenceTransformer(str(folder), device="cpu")
        for encode in ("encode_query", "encode_document"):
            same = (
                np.abs(getattr(library, encode)(LAYOUT_SENTENCES, batch_size=1) - expected).max()
                < 1e-4
            )
            assert same or model.depends_on_task, (name, encode)
    assert refused == ["LSTM, mean"]  # of an encoder: the library fails on it too
