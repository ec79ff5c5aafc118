"""Trials of models: tokenizers, weights and modules whose right vectors their libraries compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from encoders_page import save_small_model
from model_folders import edit, other_digits
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
)
from tokenizers import Tokenizer
from transformers import T5Config, T5EncoderModel
from trial import Trial

from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.encoders.tokenizer import load_tokenizer

SENTENCES = ["the 12 dogs", "a horse sleeps on 345 cats", "the red circle is 2 of 31"]


def check_tokens(folder: Path) -> None:
    file = Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))
    expected = [encoding.ids for encoding in file.encode_batch(SENTENCES)]
    student = Student.load(folder / "model", "mean")
    assert student.tokenizer(SENTENCES)["input_ids"] == expected


def save_router(folder: Path) -> None:
    save_small_model("bert", folder / "encoder")
    tokenizer = Tokenizer.from_file(str(folder / "encoder" / "tokenizer.json"))
    torch.manual_seed(0)
    queries, documents = (StaticEmbedding(tokenizer, embedding_dim=16) for _ in range(2))
    router = Router.for_query_document([queries], [documents])
    SentenceTransformer(modules=[router], device="cpu").save(str(folder / "model"))


def check_router(folder: Path) -> None:
    library = SentenceTransformer(str(folder / "model"), device="cpu")
    model = SentenceModules.load(folder / "model")
    assert model.depends_on_task
    for encode in ("encode_query", "encode_document"):
        vectors = getattr(model.model, encode)(SENTENCES)
        np.testing.assert_allclose(vectors, getattr(library, encode)(SENTENCES), atol=1e-6)


def save_modules(folder: Path) -> None:
    save_small_model("bert", folder / "encoder")
    modules = [Transformer(str(folder / "encoder")), Pooling(32, "mean")]
    library = SentenceTransformer(modules=modules, device="cpu")
    library.save(str(folder / "model"))
    np.save(folder / "right.npy", library.encode(SENTENCES))
    edit(folder / "model" / "config.json", dtype="bfloat16")


def check_float32(folder: Path) -> None:
    vectors = SentenceModules.load(folder / "model").embed(SENTENCES)
    np.testing.assert_allclose(vectors, np.load(folder / "right.npy"), atol=1e-5)


def save_t5(folder: Path) -> None:
    save_small_model("bert", folder / "bert")
    sizes = {"vocab_size": 64, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2}
    torch.manual_seed(0)
    T5EncoderModel(T5Config(**sizes, num_heads=2, pad_token_id=0)).save_pretrained(folder / "model")
    load_tokenizer(folder / "bert").save_pretrained(folder / "model")


@torch.inference_mode()
def check_t5(folder: Path) -> None:
    model = T5EncoderModel.from_pretrained(folder / "model").eval()
    tokenizer = load_tokenizer(folder / "model")
    states = [model(**tokenizer(text, return_tensors="pt")) for text in SENTENCES]
    expected = np.stack([output.last_hidden_state[0].mean(0).numpy() for output in states])
    vectors = Student.load(folder / "model", "mean").embed(SENTENCES)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


TRIALS = [
    Trial("5/I3", lambda folder: other_digits(folder / "model"), check_tokens),
    Trial("5/I5", save_router, check_router),
    Trial("5/I15", save_modules, check_float32),
    Trial("5/I23", save_t5, check_t5),
]
