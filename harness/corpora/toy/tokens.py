"""The tokenizer of the toy world: one token per word, saved for transformers."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from harness.corpora.toy.grammar import vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: maximum sequence length of the student, with special tokens
LONGEST = 64


def world_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer: [CLS] word ... word [SEP], in lower case; unknown words are [UNK]."""
    ids = {word: number for number, word in enumerate((*SPECIAL, *vocabulary()))}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    ends = [(name, ids[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **names)


def save_tokenizer(folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    world_tokenizer().save_pretrained(str(folder))
