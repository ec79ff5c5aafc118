"""Trials of encoders: their vectors are those of plain transformers on one sentence, or refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from encoders_page import save_small_model
from model_folders import edit
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import processors
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedTokenizerFast,
)
from trial import Trial, check_refused

import harness
from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.planning.encoders import try_encoders

SENTENCES = ["the big red circle", "a dog", "", "the old cat sleeps and the horse runs on the left"]
#: where a tokenizer puts its tokens
FIRST = "[CLS] $A [SEP]"
LAST = "$A:0 [SEP]:0 [CLS]:2"
NO_TOKENS = "$A"


def save_encoder(
    folder: Path, kind: str, template: str = FIRST, side: str = "right", **sizes: object
) -> Path:
    """A small random encoder whose tokenizer puts its tokens where the template says."""
    model = folder / "model"
    save_small_model(kind, model, **sizes)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    if template == LAST:
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.padding_side = side
    tokenizer.save_pretrained(model)
    return model


@torch.inference_mode()
def check_vectors(folder: Path, pooling: str) -> Student:
    """Assert that a student has the vectors that transformers give for each sentence alone."""
    model = AutoModel.from_pretrained(folder / "model").eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "model")
    known_inputs = inspect.signature(model.forward).parameters
    expected = []
    for sentence in SENTENCES:
        encoded = tokenizer(sentence or "[PAD]", return_tensors="pt")
        if sentence == "" and len(tokenizer("")["input_ids"]):
            encoded = tokenizer("", return_tensors="pt")
        inputs = {name: value for name, value in encoded.items() if name in known_inputs}
        states = model(**inputs).last_hidden_state[0]
        pooled = {"cls": states[0], "last": states[-1], "mean": states.mean(0)}
        expected.append(pooled[pooling].numpy())

    student = Student.load(folder / "model", pooling)
    right = np.stack(expected)
    np.testing.assert_allclose(student.embed(SENTENCES), right, atol=2e-5 * abs(right).max())
    return student


def check_pooling_refused(folder: Path, pooling: str, *words: str) -> None:
    check_refused(lambda: Student.load(folder / "model", pooling), *words)


def save_masked_model(folder: Path) -> None:
    save_encoder(folder, "modernbert")
    config = ModernBertConfig.from_pretrained(folder / "model")
    torch.manual_seed(1)
    ModernBertForMaskedLM(config).save_pretrained(folder / "model")


def save_without_dropout(folder: Path) -> None:
    save_encoder(folder, "bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def check_without_dropout(folder: Path) -> None:
    asked = {"encoders": f"x={folder / 'model'}", "settings": "toy-text", "suites": "sts"}
    plan = harness.plan("tiny", methods="simcse", seeds=1, **asked)
    check_refused(lambda: try_encoders(plan), "has no dropout", "--set dropout=0.1")
    advised = harness.plan("tiny", methods="simcse", seeds=1, set="dropout=0.1", **asked)
    assert try_encoders(advised).errors == []


def check_causal(folder: Path) -> None:
    check_pooling_refused(folder, "cls", "another last word", "use the pooling last or mean")
    check_vectors(folder, "last")


def save_two_pads(folder: Path) -> None:
    save_encoder(folder, "roberta", pad_token_id=7)


def check_two_pads(folder: Path) -> None:
    assert check_vectors(folder, "mean").found.rows == "packed"


def check_equal_lengths(folder: Path) -> None:
    assert check_vectors(folder, "mean").found.rows == "equal lengths"


def check_last_place(folder: Path) -> None:
    check_vectors(folder, "mean")
    check_pooling_refused(folder, "cls", "puts [CLS] elsewhere than at the beginning")


def check_too_long(folder: Path) -> None:
    check_refused(
        lambda: Student.load(folder / "model", "mean", max_length=500), "--set max_length=128"
    )


def save_shared_layers(folder: Path) -> None:
    save_encoder(folder, "bert")
    sizes = {"vocab_size": 64, "embedding_size": 16, "hidden_size": 32, "intermediate_size": 48}
    torch.manual_seed(0)
    config = AlbertConfig(**sizes, num_hidden_layers=6, num_attention_heads=2)
    AlbertModel(config).save_pretrained(folder / "model")


def check_saved_again(folder: Path) -> None:
    student = check_vectors(folder, "mean")
    student.save(folder / "again")
    again = Student.load(folder / "again", "mean")
    np.testing.assert_array_equal(again.embed(SENTENCES), student.embed(SENTENCES))


def save_attention(folder: Path) -> None:
    edit(save_encoder(folder, "bert") / "config.json", _attn_implementation="flash_attention_2")


def check_attention(folder: Path) -> None:
    student = Student.load(folder / "model", "mean")
    assert student.found.rows == "packed"
    edit(folder / "model" / "config.json", _attn_implementation="sdpa")
    plain = Student.load(folder / "model", "mean")
    np.testing.assert_array_equal(plain.embed(SENTENCES), student.embed(SENTENCES))


def save_prefixed(folder: Path) -> None:
    model = save_encoder(folder, "bert")
    weights = load_file(model / "model.safetensors")
    prefixed = {f"module.{name}": value for name, value in weights.items()}
    save_file(prefixed, model / "model.safetensors", {"format": "pt"})


def save_prompted(folder: Path) -> None:
    encoder = save_encoder(folder / "plain", "bert")
    without = Pooling(32, "mean", include_prompt=False)
    prompts = {"prompts": {"query": "the red "}, "default_prompt_name": "query"}
    library = SentenceTransformer(
        modules=[Transformer(str(encoder)), without], device="cpu", **prompts
    )
    library.save(str(folder / "model"))
    np.save(folder / "right.npy", library.encode(SENTENCES))


@torch.inference_mode()
def check_views(folder: Path) -> None:
    model = SentenceModules.load(folder / "model").eval()
    views = model.views(SENTENCES, 2).numpy()
    for view in range(2):
        np.testing.assert_allclose(views[:, view], np.load(folder / "right.npy"), atol=2e-6)


def save_damaged(folder: Path) -> None:
    (save_encoder(folder, "bert") / "model.safetensors").write_bytes(b"no weights")


def check_grid_of_damaged(folder: Path) -> None:
    encoders = f"toy-bert,x={folder / 'model'}"
    asked = {"settings": "toy-text", "seeds": 1, "suites": "sts"}
    plan = try_encoders(harness.plan("tiny", methods="simcse", encoders=encoders, **asked))
    assert len(plan.runs) == 1
    (line,) = plan.errors
    assert "cannot be read" in line


def trial_of(
    row: str,
    check: Callable[..., object],
    kind: str,
    template: str = FIRST,
    side: str = "right",
) -> Trial:
    """A trial of a small encoder."""
    return Trial(row, lambda folder: save_encoder(folder, kind, template, side), check)


TRIALS = [
    Trial("4/M1", save_masked_model, lambda folder: check_vectors(folder, "mean")),
    Trial("4/M2", save_without_dropout, check_without_dropout),
    trial_of("4/M3", check_causal, "gpt2"),
    trial_of("4/M4", lambda folder: check_vectors(folder, "cls"), "bert", side="left"),
    Trial("4/M5", save_two_pads, check_two_pads),
    trial_of("4/M6", check_equal_lengths, "mobilebert"),
    trial_of("4/M7", check_last_place, "xlnet", template=LAST, side="left"),
    trial_of("4/M10 no tokens", lambda folder: check_vectors(folder, "mean"), "bert", NO_TOKENS),
    trial_of("4/M10 squeezebert", lambda folder: check_vectors(folder, "mean"), "squeezebert"),
    trial_of("4/M10 too long", check_too_long, "clip_text_model"),
    Trial("4/M11", save_shared_layers, check_saved_again),
    Trial("4/M12", save_attention, check_attention),
    Trial(
        "4/M13",
        save_prefixed,
        lambda folder: check_pooling_refused(folder, "mean", "'module.'"),
    ),
    Trial("4/M14", save_prompted, check_views),
    Trial("4/M15", save_damaged, check_grid_of_damaged),
    # 4/M16 needs the scores of mteb itself: tests/evaluation/test_mteb_suite.py
]
