"""The trial of a model: what it makes of a few sentences, before its vectors are believed.

The sentences are words of the model's own tokenizer: few and many tokens, more than the model
reads, none, and the pad token's own text. Where vectors depend on padding, another way of making
batches is chosen; what no choice mends is refused. Answers are kept in the cache, by the model's
content, the code and the versions of the libraries:

CACHE/trials/KEY.json           a note (`harness.files`): the fields of `TrialFindings`

Nothing here imports torch before a model is tried: plans look up what is known.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from harness.caches import cache_folder, keep_text
from harness.code import code_of, state_of_code
from harness.encoders.locate import FolderModel
from harness.encoders.weights import UNREADABLE
from harness.errors import UserError, first_line
from harness.files import read_note, sealed
from harness.sources import digest, installed

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

#: a student, or modules of sentence-transformers
Tried = TypeVar("Tried", bound=Any)
#: how the rows of a batch pass the model; rows of equal length need no padding
RowsOfBatch = Literal["packed", "padded", "equal lengths"]
#: longest sequence of tests: the papers' evaluation cuts at the encoder's own limit only
LONGEST = 512
#: libraries that a model's vectors depend on
_LIBRARIES = ("torch", "transformers", "tokenizers", "sentence-transformers")
#: token ids of rows of one, some and many tokens, small enough for any vocabulary
ROWS_OF_IDS = ((5,), (6, 7, 8), (5, 9, 7, 6, 8, 9, 5), (8, 6))
#: words of a sentence of the trial, and tokens at which its longest one is cut
_FEW = 6
_MANY = 24
#: the text of the trial that has the pad token inside
_PADDED = 5
#: largest difference of equal vectors, and smallest of different ones, relative to the largest
#: value
_CLOSE = 1e-4
_MOVED = 1e-7


@dataclass(frozen=True)
class TrialFindings:
    """How a model is read, and what its trial has measured.

    `position` is the position of a packed row's first token, and `direct` whether the layers run as
    functions. `types` are the token types of a row's first token, of those within, and of its last.
    Sentences of tests are cut at `longest` tokens. The others are differences relative to the
    largest value: of a sentence's vector alone and in a batch, of vectors of sentences that differ
    in their first or last word, and of two vectors in training. `by_task` says whether a model of
    sentence-transformers has other vectors of queries or documents than of sentences. `remarks` are
    what a user should know of how the model was read.
    """

    rows: RowsOfBatch = "padded"
    position: int = 0
    direct: bool = False
    types: tuple[int, int, int] = (0, 0, 0)
    longest: int = LONGEST
    alone: float = 0.0
    first_word: float = 0.0
    last_word: float = 0.0
    views: float = 0.0
    by_task: bool = False
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> Self:
        values = {name: note[name] for name in cls.__dataclass_fields__}
        lists = {name: tuple(values[name]) for name in ("types", "remarks")}
        return cls(**{**values, **lists})


@dataclass(frozen=True)
class TrialKey:
    """A question that a trial answers: a model folder under a pooling, for sentences of
    `max_length` tokens.

    `own_head`, `trusted` and `rates`, of dropout, are those of `Student.load`.
    """

    folder: Path
    pooling: str
    own_head: bool = True
    trusted: bool = False
    max_length: int = 0
    rates: tuple[float, float] = (-1.0, -1.0)

    def known(self) -> TrialFindings | None:
        """The answer in the cache, if there is one."""
        note = read_note(cache_folder() / self._name, "the model will be tried again")
        return None if note is None else TrialFindings.of(note)

    def keep(self, found: TrialFindings) -> None:
        keep_text(self._name, sealed(json.dumps(asdict(found))))

    @property
    def _name(self) -> str:
        content = FolderModel(self.folder, trusted=self.trusted).fingerprint(None)
        asked = (
            self.pooling,
            code_of("pooling", self.pooling),
            self.own_head,
            self.trusted,
            self.max_length,
            self.rates,
        )
        return f"trials/{digest(content, asked, state_of_code(), installed(*_LIBRARIES))[:32]}.json"


def tried(key: TrialKey, what: str, make: Callable[[TrialFindings | None], Tried]) -> Tried:
    """Make a model from what is known of it; else it is tried, and the answer kept. A UserError
    names its folder.
    """
    known = key.known()
    try:
        made = make(known)
    except UserError as error:
        raise UserError(f"the {what} {key.folder} cannot be used: {error}") from error
    for line in made.found.remarks:
        log.warning("%s %s: %s", what, key.folder, line)
    if known is None:
        key.keep(made.found)
    return made


def _texts(tokenizer: Any, longest: int) -> list[str]:
    """A sentence of known words, the same with another first word and another last one; then texts
    of other lengths.
    """
    listed = sorted(getattr(tokenizer, "get_vocab", dict)())
    plain = {
        str(token).replace("</w>", "").strip("Ġ▁#") for token in listed[:: 1 + len(listed) // 2000]
    }
    words = sorted(
        (word for word in plain if word.isalpha()), key=lambda word: (len(word) < 3, word)
    ) or ["man", "dog"]
    words = _distinct_words(tokenizer, words)
    body = words[: max(1, min(_FEW, longest - 4))]
    other = words[-1]
    pad = getattr(tokenizer, "pad_token", None) or ""
    changed = [body, [other, *body[1:]], [*body[:-1], other]]
    others = [body[:1], body[1:3], [body[0], str(pad), other, body[0]], [], words[:_MANY] * _MANY]
    return [" ".join(each) for each in (*changed, *others)]


def _distinct_words(tokenizer: Any, words: list[str]) -> list[str]:
    """Words of different tokens, without those of none: unknown words are the same tokens, and
    tokenizers of word embeddings leave out stop words.
    """
    if callable(tokenizer):
        ids_of_words = tokenizer(words)["input_ids"]
    elif hasattr(tokenizer, "tokenize"):
        ids_of_words = [tokenizer.tokenize(word) for word in words]
    else:
        return words
    by_ids = {tuple(ids): word for ids, word in zip(ids_of_words, words, strict=True) if ids}
    return list(by_ids.values()) or words


def try_student(student: Any, max_length: int, rates: tuple[float, float]) -> None:
    """Set how a student on the CPU reads rows: its `found` and its `packing`.

    `max_length` are the tokens of a training sentence, 0 for none; `rates` the dropout that was
    asked for, -1 for none. Random states and modes of modules stay as they are. Raises UserError
    for a model that cannot be used with its pooling or its dropout, and for sentences that it
    cannot read.
    """
    import torch

    name = type(student.model).__name__
    modes = [(module, module.training) for module in student.modules()]
    student.packing, student.found = None, TrialFindings()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            _check_sizes(student.tokenizer, student.model)
            longest = _longest(student.eval(), max_length)
            texts = _texts(student.tokenizer, longest)
            encoded = student.tokenizer(texts, truncation=True, max_length=min(_MANY, longest))
            if student.pooling.first_token:
                _check_first(encoded["input_ids"], student.tokenizer)
            student.found = TrialFindings(longest=longest, types=_types(encoded))
            _try_rows(student, texts, encoded["input_ids"])
            first, second = student.train().vectors(encoded["input_ids"][:1], 2)
            student.found = replace(student.found, views=_far(first, second))
            _check_dropout(student.found.views, rates)
        except UNREADABLE as error:
            raise UserError(
                f"{name} fails on sentences of the trial: {first_line(error)}; use another encoder or pooling"
            ) from error
        finally:
            for module, mode in modes:
                module.training = mode


def _check_dropout(views: float, rates: tuple[float, float]) -> None:
    """Raise UserError unless two vectors of a sentence in training differ as the rates of dropout
    say.
    """
    acts = views > 0
    if (max(rates) > 0 and not acts) or (min(rates) == max(rates) == 0 and acts):
        asked = " and ".join(f"{rate:g}" for rate in rates if rate >= 0)
        raise UserError(
            f"with a dropout of {asked}, two vectors of a sentence in training are "
            f"{'different' if acts else 'equal'}: the encoder does not follow its config.json; leave dropout out"
        )


def _try_rows(student: Any, texts: Sequence[str], rows: Sequence[Sequence[int]]) -> None:
    import torch

    from harness.encoders.packed import packing_of

    states = student.layers(rows[:1])[-1].shape[1]
    pad = getattr(student.model.config, "pad_token_id", None)
    if states != len(rows[0]) and not student.pooling.first_token:
        raise UserError(
            f"its last layer has {states} vectors for {len(rows[0])} tokens; use the pooling cls"
        )
    alone = torch.cat([student.vectors([row]) for row in rows])
    _check_plain(student, texts, rows, alone)
    together = student.vectors(rows)
    if _far(alone, together) > _CLOSE:
        student.found = replace(student.found, rows="equal lengths")
    elif not any(student.found.types):
        with_pad = [(5, pad, 7, 6)] if isinstance(pad, int) and pad >= 0 else []
        student.packing = packing_of(student.model, [*ROWS_OF_IDS, *with_pad, *filter(None, rows)])
        if packing := student.packing:
            student.found = replace(
                student.found, rows="packed", position=packing.first, direct=bool(packing.layers)
            )
    student.found = _measured(
        student.found, texts, alone.double().numpy(), student.vectors(rows).double().numpy()
    )


def _check_plain(
    student: Any, texts: Sequence[str], rows: Sequence[Sequence[int]], alone: Any
) -> None:
    """Raise UserError unless the vectors of single texts, (n, d), are those of plain transformers.

    Plain are all inputs that the tokenizer gives, in the model's own forward pass, pooled.
    """
    from harness.encoders.packed import padded_forward

    known_inputs = inspect.signature(student.model.forward).parameters
    vectors = list(zip(texts, rows, alone, strict=True))
    # a plain one, the one with a pad token inside, and the longest
    for text, row, vector in (vectors[0], vectors[_PADDED], vectors[-1]):
        if not row:
            continue  # transformers computes nothing from no token
        encoded = student.tokenizer(text, truncation=True, max_length=len(row), return_tensors="pt")
        inputs = {name: value for name, value in encoded.items() if name in known_inputs}
        layers = padded_forward(student.model, inputs, all_layers=student.pooling.all_layers)
        plain = student.pooling(layers, encoded["attention_mask"])
        is_finite = bool(plain.isfinite().all())  # else it is refused as such, below
        if is_finite and _far(plain[0], vector) > _CLOSE:
            raise UserError(
                f"its vector of the sentence '{text[:40]}' is not that of transformers with all "
                f"that its tokenizer gives ({', '.join(inputs)}); use another encoder"
            )


def try_modules(
    embed: Callable[[Sequence[str], RowsOfBatch], np.ndarray], model: Any
) -> TrialFindings:
    """Find how a model of sentence-transformers makes batches whose vectors are those of single
    sentences.

    Raises UserError where no way does, and for vectors that cannot be used.
    """
    import numpy as np
    import torch

    tokenizer = getattr(model, "tokenizer", None)
    limit = getattr(model, "max_seq_length", None)
    if hasattr(model[0], "auto_model"):
        _check_sizes(tokenizer, model[0].auto_model)
    found = TrialFindings(longest=int(min(LONGEST, limit or LONGEST)))
    texts = _texts(tokenizer, found.longest)
    with torch.random.fork_rng(devices=[]):
        try:
            alone = np.concatenate([embed([text], "padded") for text in texts])
            together = embed(texts, "padded")
            if _far(alone, together) > _CLOSE:
                found = replace(found, rows="equal lengths")
                together = embed(texts, "equal lengths")
            found = replace(found, by_task=_depends_on_task(model, texts))
        except UNREADABLE as error:
            raise UserError(
                f"it fails on sentences of the trial: {first_line(error)}; correct the folder"
            ) from error
    return _measured(found, texts, alone, together)


def _depends_on_task(model: Any, texts: Sequence[str]) -> bool:
    """Whether `encode_query` or `encode_document` gives other vectors than `encode`, as of a Router."""
    plain, *others = (
        encode(texts, batch_size=1, show_progress_bar=False)
        for encode in (model.encode, model.encode_query, model.encode_document)
    )
    return any(vectors.shape != plain.shape or _far(plain, vectors) > _CLOSE for vectors in others)


def _measured(
    found: TrialFindings, texts: Sequence[str], alone: np.ndarray, together: np.ndarray
) -> TrialFindings:
    """Add what was measured by the vectors of all texts, (n, d). Raises UserError for useless ones."""
    import numpy as np

    for text, vector in zip(texts, alone, strict=True):
        if not np.isfinite(vector).all():
            raise UserError(
                f"its vector of the sentence '{text[:40]}' is not finite; correct its weights"
            )
    if (far := _far(alone, together)) > _CLOSE:
        raise UserError(
            f"its vector of a sentence depends on the others of the batch (by {far:.0%} of the largest value), in "
            "batches of equal lengths too; use another encoder"
        )
    first = _far(alone[0], alone[1])
    last = _far(alone[0], alone[2])
    for word, value, other in (("last", last, "last"), ("first", first, "cls")):
        if not value > _MOVED and texts[1] != texts[2]:
            raise UserError(
                f"another {word} word of a sentence does not change its vector: the pooled token does not see it, as "
                f"in models that read from left to right; use the pooling {other} or mean (of a method: "
                f"pooling={other} in its brackets; in evaluation: --pooling {other})"
            )
    if (
        not min(_far(alone[0], alone[3]), _far(alone[0], alone[4]), _far(alone[3], alone[4]))
        > _MOVED
    ):
        raise UserError("different sentences have the same vector; use another encoder or pooling")
    return replace(found, alone=far, first_word=first, last_word=last)


def _far(first: Any, second: Any) -> float:
    """The largest difference relative to the largest value of `first`; infinite where a value is
    not finite.
    """
    far = float(abs(first - second).max()) / (float(abs(first).max()) or 1.0)
    return far if math.isfinite(far) else math.inf


def _check_sizes(tokenizer: Any, model: Any) -> None:
    """Raise UserError for a length that is no number of tokens, and for token ids without a row of
    the embeddings.
    """
    longest = tokenizer.model_max_length
    if not isinstance(longest, int | float) or longest < 1 or longest % 1:
        raise UserError(
            f"its tokenizer reads {longest!r} tokens; correct model_max_length or max_seq_length"
        )
    largest = max(tokenizer.get_vocab().values())
    rows = len(model.get_input_embeddings().weight)
    if largest >= rows:
        raise UserError(
            f"its tokenizer has the token id {largest}, and its embedding table only {rows} rows: they belong to "
            "different models"
        )


def _check_first(rows: Sequence[Sequence[int]], tokenizer: Any) -> None:
    """Raise UserError unless all sentences begin with the same token, the tokenizer's
    classification token if any.
    """
    mark = tokenizer.cls_token_id
    full = [row for row in rows if row]
    elsewhere = mark != tokenizer.sep_token_id and any(mark in row[1:] for row in full)
    if elsewhere or len({row[0] for row in full}) > 1:
        raise UserError(
            f"its tokenizer {'puts ' + tokenizer.cls_token if elsewhere else 'has no token'} "
            f"{'elsewhere than' if elsewhere else 'of its own'} at the beginning of a sentence, and the first token is "
            "pooled; use the pooling last or mean (in evaluation: --pooling last), or another encoder"
        )


def _types(encoded: Mapping[str, Any]) -> tuple[int, int, int]:
    """The token types of first tokens, of others, and of last ones. Raises UserError where these
    differ by sentence.
    """
    rows = [row for row in encoded.get("token_type_ids", ()) if len(row) > 2]
    found = {(row[0], kind, row[-1]) for row in rows for kind in row[1:-1]}
    if len(found) > 1:
        raise UserError(
            "its tokenizer gives the tokens of a single sentence several types; use another tokenizer"
        )
    return found.pop() if found else (0, 0, 0)


def _longest(student: Any, max_length: int) -> int:
    """Tokens at which sentences of tests are cut. Raises UserError if the model does not read
    `max_length` tokens.
    """
    own = min(LONGEST, getattr(student.tokenizer, "model_max_length", LONGEST))
    most = _largest(student, max(own, max_length))
    if most < max_length:
        raise UserError(
            f"max_length = {max_length}, and the encoder reads {most} tokens at most; give --set max_length={most} "
            "or fewer"
        )
    return min(own, most)


def _largest(student: Any, length: int) -> int:
    """The most tokens up to `length` that a model reads."""
    low = 0
    high = length + 1
    middle = length
    token = (
        5 if getattr(student.model.config, "pad_token_id", None) != 5 else 6
    )  # pads have no positions in RoBERTa
    while high - low > 1:
        try:
            student.layers([[token] * middle])
            low = middle
        except UNREADABLE:
            high = middle
        middle = (low + high) // 2
    return low
