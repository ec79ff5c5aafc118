"""Folders of models, changed file by file and tensor by tensor, and tokenizers of an own kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from encoders_page import save_small_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast

Weights = dict[str, Tensor]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def change(folder: Path, changed: Callable[[Weights], Weights]) -> None:
    """Change the weights."""
    save_file(
        changed(load_file(folder / "model.safetensors")),
        folder / "model.safetensors",
        {"format": "pt"},
    )


def as_bin(folder: Path) -> None:
    """Keep the weights in the former format."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def edit(file: Path, **values: object) -> None:
    """Change values of a JSON file, which need not be there."""
    file.write_text(json.dumps((json.loads(file.read_text()) if file.is_file() else {}) | values))


def word_pieces() -> FastTokenizer:
    """Each digit is a token, and the text is not in lower case."""
    words = ["the", "a", "dog", "dogs", "horse", "Horse", "sleeps", "on", "cats", "red", "circle"]
    words += ["is", "of", "##s", "1", "2", "3", "4", "5"]
    words += ["##1", "##2", "##3", "##4", "##5"]
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *words])}
    tokenizer = FastTokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    return tokenizer


def write_tokenizer(folder: Path, tokenizer: FastTokenizer, name: str) -> Path:
    """A tokenizer.json that begins with [CLS] alone, beside the name of a class of transformers."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 2)]
    )
    tokens = dict(zip(NAMES, SPECIAL, strict=True))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, **tokens
    ).save_pretrained(folder)
    edit(folder / "tokenizer_config.json", tokenizer_class=name)
    return folder


def other_digits(folder: Path) -> Path:
    """A small BERT whose tokenizer.json is not what BertTokenizer makes of its vocabulary."""
    save_small_model("bert", folder)
    return write_tokenizer(folder, word_pieces(), "BertTokenizer")
