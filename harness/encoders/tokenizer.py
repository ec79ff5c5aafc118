"""Tokenizers of model folders, whose token ids are those of the folder's tokenizer.json.

Without a vocabulary, transformers maps every word to the unknown token; here that is an error. It
builds some classes of tokenizers (BertTokenizer, RobertaTokenizer, GPT2Tokenizer and others) from
the vocabulary alone: another normalizer, another cut into words or other special tokens of the file
are then lost. So what it reads is compared with the file on texts, and replaced by a tokenizer that
reads the file as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.encoders.modules import find_transformer_folder
from harness.encoders.weights import UNREADABLE
from harness.errors import UserError

#: texts on which tokenizers differ: digits, capitals, accents, joined words, spaces, scripts
#: without spaces, compatibility characters, and a word of more than 200 characters
_TEXTS = (
    "A man is playing a guitar.",
    "In 1984, 12345 + 67890 made 80235; 3.5 is 7/2.",
    "THE CAT Sat On McDonald's mat",
    "don't e-mail_me@x.org, it's state-of-the-art (really?)",
    "Café naïve Ünïcode ÀÉÎ ß Ł",
    "  two  spaces,\ta tab\nand a line  ",
    "東京タワーは高い 中文字符",
    "Привет, мир! שלום مرحبا नमस्ते",
    "🙂 ok ﬁne ½ ① ﬀ",
    "a" * 250,
    "",
)
#: tokens of the vocabulary, drawn evenly, that are compared as texts too
_DRAWN = 64


def load_tokenizer(folder: Path, *, trusted: bool = False) -> Any:
    """Read the tokenizer of a model folder.

    `trusted` allows code in the folder to be executed. Raises one of UNREADABLE for a folder that
    cannot be read and for a missing vocabulary; UserError for a tokenizer without a pad token, and
    for one whose tokens are not those of its tokenizer.json.
    """
    return read_tokenizer(folder, trusted=trusted)[0]


def read_tokenizer(folder: Path, *, trusted: bool = False) -> tuple[Any, tuple[str, ...]]:
    """Read a tokenizer as `load_tokenizer`, and what a user should know of how it was read."""
    from transformers import AutoTokenizer

    folder = find_transformer_folder(folder)
    with require_vocabulary(folder), follow_tokenizer_files() as remarks:
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=trusted
        )
    check_tokenizer(folder, tokenizer)
    if tokenizer.pad_token_id is None:
        raise UserError(
            f"the tokenizer in {folder} has no pad token, which batches need; set "
            'one in its tokenizer_config.json ("pad_token")'
        )
    return tokenizer, tuple(remarks)


@contextmanager
def follow_tokenizer_files() -> Iterator[list[str]]:
    """Let transformers read tokenizers whose token ids are those of their tokenizer.json.

    Yields a list of remarks, which has a line for each tokenizer that was read in another way than
    its class would. At the end of this context a UserError is raised for a tokenizer with other
    ids.
    """
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

    original = PreTrainedTokenizerBase.__dict__["from_pretrained"].__func__
    remarks: list[str] = []
    refusals: list[UserError] = []

    # other libraries read tokenizers too, so this cannot be an argument
    def load(cls: Any, /, name: Any, *args: Any, **kwargs: Any) -> Any:
        tokenizer = original(cls, name, *args, **kwargs)
        file = Path(name, kwargs.get("subfolder") or "", "tokenizer.json")
        if not file.is_file() or not type(tokenizer).__module__.startswith("transformers."):
            return tokenizer  # nothing to compare with, or code that the user trusts

        read_file = partial(original, PreTrainedTokenizerFast)
        try:
            return _resolve_tokenizer(file, tokenizer, read_file, remarks)
        except UserError as error:
            refusals.append(error)  # AutoProcessor would catch it, and look for another class
            return tokenizer

    PreTrainedTokenizerBase.from_pretrained = classmethod(load)
    try:
        yield remarks
    finally:
        PreTrainedTokenizerBase.from_pretrained = classmethod(original)

    if refusals:
        raise refusals[0]


def _resolve_tokenizer(
    file: Path, tokenizer: Any, read_file: Callable[..., Any], remarks: list[str]
) -> Any:
    """The tokenizer if its ids are those of its file, else one that reads the file, with a remark.

    Raises UserError if neither gives these ids.
    """
    from tokenizers import Tokenizer

    expected = Tokenizer.from_file(str(file))
    expected.no_truncation()
    expected.no_padding()
    ids_by_text = {}
    texts = [*_TEXTS, *_draw_tokens(expected)]
    for text, encoding in zip(texts, expected.encode_batch(texts), strict=True):
        ids_by_text[text] = encoding.ids

    unlike = _find_unlike(tokenizer, ids_by_text)
    if unlike is None:
        return tokenizer

    name = type(tokenizer).__name__
    library = f"transformers {version('transformers')}"
    by_file = read_file(
        str(file.parent), local_files_only=True, **_get_settings(tokenizer, expected)
    )
    if _find_unlike(by_file, ids_by_text) is None:
        remarks.append(
            f"its tokens are those of its tokenizer.json, which {name} of {library} does not "
            f"follow (at '{unlike[:40]}')"
        )
        return by_file

    raise UserError(
        f"the tokenizer in {file.parent} cuts '{unlike[:40]}' into other tokens than its "
        f"tokenizer.json, as {library} reads it; if its tokenizer_config.json is right, write the "
        "file again: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER); else remove "
        "the keys and added tokens there that differ from it"
    )


def _draw_tokens(tokenizer: Any) -> list[str]:
    """Tokens of a vocabulary as texts, without the marks of word pieces and of spaces."""
    size = tokenizer.get_vocab_size()
    step = 1 + size // _DRAWN
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}

    texts = []
    for number in range(0, size, step):
        token = tokenizer.id_to_token(number) or ""
        if token not in special:
            texts.append(token.strip("Ġ▁#").replace("</w>", ""))
    return texts


def _find_unlike(tokenizer: Any, ids_by_text: Mapping[str, list[int]]) -> str | None:
    """The first text to which a tokenizer gives other token ids, None if there is none."""
    texts = list(ids_by_text)
    encoded = tokenizer(texts, verbose=False)
    for text, ids in zip(texts, encoded["input_ids"], strict=True):
        if list(ids) != ids_by_text[text]:
            return text
    return None


def _get_settings(tokenizer: Any, expected: Any) -> dict[str, Any]:
    """What the class of a tokenizer sets and a file may not hold: names of special tokens, the
    longest sequence, sides, and which inputs a model gets.
    """
    settings = {
        name: token
        for name, token in tokenizer.special_tokens_map.items()
        if isinstance(token, str) and expected.token_to_id(token) is not None
    }
    for name in ("model_max_length", "padding_side", "truncation_side", "model_input_names"):
        settings[name] = getattr(tokenizer, name)
    return settings


def check_tokenizer(folder: Path, tokenizer: Any) -> None:
    """Raise ValueError for a folder without its tokenizer's vocabulary, and for one of special
    tokens only.
    """
    files = set(tokenizer.vocab_files_names.values())
    if files and not any((folder / name).is_file() for name in files):
        raise ValueError(_describe_no_vocabulary(files))

    words = set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
    if not words:
        raise ValueError("its vocabulary has special tokens only, so every word would be unknown")


@contextmanager
def require_vocabulary(folder: Path) -> Iterator[None]:
    """Raise ValueError if reading a tokenizer fails in this context and the folder has no
    vocabulary.
    """
    try:
        yield
    except UNREADABLE as error:
        files = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
        if not any(next(folder.glob(name), None) for name in files):
            raise ValueError(_describe_no_vocabulary(files)) from error
        raise


def _describe_no_vocabulary(files: Collection[str]) -> str:
    return f"it has no vocabulary ({' or '.join(sorted(files))}), so every word would be unknown"
