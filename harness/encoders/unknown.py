"""The share of tokens that a model's vocabulary lacks; nothing here imports torch or transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from harness.caches import read_or_make_note
from harness.sources import digest, hash_file, list_versions

_FILE = "tokenizer.json"


def compute_unknown_share(texts: Sequence[str], folder: Path) -> float | None:
    """The share of unknown tokens in some texts, from 0 to 1, cached.

    None for a model without a file of its tokenizer, and where the texts have no tokens.
    """
    files = [folder / _FILE, *sorted(folder.glob(f"*/{_FILE}"))]
    file = next((path for path in files if path.is_file()), None)
    if file is None or not texts:
        return None

    key = digest("unknown tokens", hash_file(file), list(texts), list_versions("tokenizers"))
    note = read_or_make_note(
        f"unknown/{key}.json",
        "the texts will be tokenised again",
        lambda: {"share": _compute_share(texts, file)},
    )
    return note["share"]  # type: ignore[no-any-return]


def _compute_share(texts: Sequence[str], file: Path) -> float | None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception:  # the trial of the model says what is wrong with its files
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()

    unknown = _find_unknown_id(json.loads(tokenizer.to_str())["model"], tokenizer.get_vocab())
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    ids = [token for encoding in encodings for token in encoding.ids]
    return ids.count(unknown) / len(ids) if ids else None


def _find_unknown_id(model: dict[str, object], vocabulary: dict[str, int]) -> int:
    """The id of the token that stands for what the vocabulary lacks; -1 if there is none."""
    number = model.get("unk_id")
    if isinstance(number, int):
        return number
    return vocabulary.get(str(model.get("unk_token")), -1)
