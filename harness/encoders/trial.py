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

from harness.caches import get_cache_folder, keep_text
from harness.code import hash_code, hash_state_of_code
from harness.encoders.locate import FolderModel
from harness.encoders.weights import UNREADABLE
from harness.errors import UserError, first_line
from harness.files import add_seal, read_note
from harness.sources import digest, list_versions

if TYPE_CHECKING:
    import numpy as np

    from harness.encoders.rows import IdRows

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
#: tokens of a vocabulary that are tried as words, words of a sentence of the trial, and tokens at
#: which its longest one is cut
_WORDS = 2000
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
    def from_note(cls, note: Mapping[str, Any]) -> Self:
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

    def get_known(self) -> TrialFindings | None:
        """The answer in the cache, if there is one."""
        note = read_note(get_cache_folder() / self._name, "the model will be tried again")
        return None if note is None else TrialFindings.from_note(note)

    def keep(self, found: TrialFindings) -> None:
        keep_text(self._name, add_seal(json.dumps(asdict(found))))

    @property
    def _name(self) -> str:
        content = FolderModel(self.folder, trusted=self.trusted).fingerprint(None)
        question = (
            self.pooling,
            hash_code("pooling", self.pooling),
            self.own_head,
            self.trusted,
            self.max_length,
            self.rates,
        )
        key = digest(content, question, hash_state_of_code(), list_versions(*_LIBRARIES))
        return f"trials/{key[:32]}.json"


def load_tried(key: TrialKey, what: str, make: Callable[[TrialFindings | None], Tried]) -> Tried:
    """Make a model from what is known of it; else it is tried, and the answer kept. A UserError
    names its folder.
    """
    known = key.get_known()
    try:
        model = make(known)
    except UserError as error:
        raise UserError(f"the {what} {key.folder} cannot be used: {error}") from error

    for line in model.found.remarks:
        log.warning("%s %s: %s", what, key.folder, line)
    if known is None:
        key.keep(model.found)
    return model


def _make_trial_texts(tokenizer: Any, longest: int) -> list[str]:
    """A sentence of known words, the same with another first word and another last one; then texts
    of other lengths.
    """
    words = _select_distinct_words(tokenizer, _list_known_words(tokenizer))
    sentence = words[: max(1, min(_FEW, longest - 4))]
    other_word = words[-1]
    pad_token = str(getattr(tokenizer, "pad_token", None) or "")
    texts = [
        sentence,
        [other_word, *sentence[1:]],  # must move a vector that is read at the first token
        [*sentence[:-1], other_word],  # ... and at the last one
        sentence[:1],
        sentence[1:3],
        # a pad token inside the text is a token like others
        [sentence[0], pad_token, other_word, sentence[0]],
        [],
        words[:_MANY] * _MANY,  # longer than the model's limit
    ]
    return list(map(" ".join, texts))


def _list_known_words(tokenizer: Any) -> list[str]:
    """Words of a vocabulary, those of three letters and more first; two English ones if there are
    none.
    """
    tokens = sorted(getattr(tokenizer, "get_vocab", dict)())
    step = 1 + len(tokens) // _WORDS
    texts = {str(token).replace("</w>", "").strip("Ġ▁#") for token in tokens[::step]}
    words = sorted(filter(str.isalpha, texts), key=lambda word: (len(word) < 3, word))
    return words or ["man", "dog"]


def _select_distinct_words(tokenizer: Any, words: list[str]) -> list[str]:
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

    student.packing = None
    student.found = TrialFindings()
    modes = [(module, module.training) for module in student.modules()]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            _check_sizes(student.tokenizer, student.model)
            longest = _find_longest(student.eval(), max_length)
            texts = _make_trial_texts(student.tokenizer, longest)
            encoded = student.tokenizer(texts, truncation=True, max_length=min(_MANY, longest))
            rows = encoded["input_ids"]
            if student.pooling.first_token:
                _check_first(rows, student.tokenizer)

            student.found = TrialFindings(longest=longest, types=_find_types(encoded))
            _try_rows(student, texts, rows)

            first, second = student.train().compute_vectors(rows[:1], 2)
            student.found = replace(student.found, views=_measure_distance(first, second))
            _check_dropout(student.found.views, rates)
        except UNREADABLE as error:
            raise UserError(
                f"{type(student.model).__name__} fails on sentences of the trial: "
                f"{first_line(error)}; use another encoder or pooling"
            ) from error
        finally:
            for module, mode in modes:
                module.training = mode


def _check_dropout(views: float, rates: tuple[float, float]) -> None:
    """Raise UserError unless two vectors of a sentence in training differ as the rates of dropout
    say.
    """
    has_dropout = views > 0
    is_ignored = max(rates) > 0 and not has_dropout
    is_added = min(rates) == max(rates) == 0 and has_dropout
    if is_ignored or is_added:
        stated = " and ".join(f"{rate:g}" for rate in rates if rate >= 0)
        outcome = "different" if has_dropout else "equal"
        raise UserError(
            f"with a dropout of {stated}, two vectors of a sentence in training are {outcome}: the "
            "encoder does not follow its config.json; leave dropout out"
        )


def _try_rows(student: Any, texts: Sequence[str], rows: IdRows) -> None:
    import torch

    from harness.encoders.packed import find_packing

    (last,) = student.compute_layers(rows[:1])
    states = last.shape[1]
    if states != len(rows[0]) and not student.pooling.first_token:
        raise UserError(
            f"its last layer has {states} vectors for {len(rows[0])} tokens; use the pooling cls"
        )

    alone = torch.cat([student.compute_vectors([row]) for row in rows])
    _check_plain(student, texts, rows, alone)
    together = student.compute_vectors(rows)
    if _measure_distance(alone, together) > _CLOSE:
        student.found = replace(student.found, rows="equal lengths")
    elif not any(student.found.types):
        student.packing = find_packing(student.model, _list_rows_to_pack(student.model, rows))

    packing = student.packing
    if packing is not None:
        student.found = replace(
            student.found, rows="packed", position=packing.first, direct=bool(packing.layers)
        )

    together = student.compute_vectors(rows)
    student.found = _add_measurements(
        student.found, texts, alone.double().numpy(), together.double().numpy()
    )


def _list_rows_to_pack(model: Any, rows: IdRows) -> list[Sequence[int]]:
    """Rows of token ids on which packed and padded passes are compared, one with a pad token
    inside.
    """
    pad = getattr(model.config, "pad_token_id", None)
    with_pad = [(5, pad, 7, 6)] if isinstance(pad, int) and pad >= 0 else []
    return [*ROWS_OF_IDS, *with_pad, *filter(None, rows)]


def _check_plain(student: Any, texts: Sequence[str], rows: IdRows, alone: Any) -> None:
    """Raise UserError unless the vectors of single texts, (n, d), are those of plain transformers.

    Plain are all inputs that the tokenizer gives, in the model's own forward pass, pooled.
    """
    from harness.encoders.packed import run_padded

    known_inputs = inspect.signature(student.model.forward).parameters
    # a plain one, the one with a pad token inside, and the longest
    for number in (0, _PADDED, len(texts) - 1):
        text = texts[number]
        row = rows[number]
        if not row:
            continue  # transformers computes nothing from no token

        encoded = student.tokenizer(text, truncation=True, max_length=len(row), return_tensors="pt")
        inputs = {name: value for name, value in encoded.items() if name in known_inputs}
        layers = run_padded(student.model, inputs, all_layers=student.pooling.all_layers)
        plain = student.pooling(layers, encoded["attention_mask"])
        is_finite = bool(plain.isfinite().all())  # else it is refused as such, below
        if is_finite and _measure_distance(plain[0], alone[number]) > _CLOSE:
            raise UserError(
                f"its vector of the sentence '{text[:40]}' is not that of transformers with all "
                f"that its tokenizer gives ({', '.join(inputs)}); use another encoder"
            )


def try_modules(modules: Any, remarks: tuple[str, ...] = ()) -> None:
    """Set how a model of sentence-transformers makes batches whose vectors are those of single
    sentences: its `found`, with these `remarks`, and its `packing`.

    Raises UserError where no way does, and for vectors that cannot be used.
    """
    import numpy as np
    import torch

    model = modules.model
    tokenizer = getattr(model, "tokenizer", None)
    limit = getattr(model, "max_seq_length", None)
    if modules.encoder is not None:
        _check_sizes(tokenizer, modules.encoder)

    longest = int(min(LONGEST, limit or LONGEST))
    texts = _make_trial_texts(tokenizer, longest)
    modules.found = TrialFindings(longest=longest, remarks=remarks)
    with torch.random.fork_rng(devices=[]):
        try:
            alone = np.concatenate([modules.encode([text]) for text in texts])
            together = modules.encode(texts)
            if _measure_distance(alone, together) > _CLOSE:
                modules.found = replace(modules.found, rows="equal lengths")
            else:
                _try_packing(modules, texts, alone)
            together = modules.encode(texts)
            modules.found = replace(modules.found, by_task=_has_task_vectors(model, texts))
        except UNREADABLE as error:
            raise UserError(
                f"it fails on sentences of the trial: {first_line(error)}; correct the folder"
            ) from error

    modules.found = _add_measurements(modules.found, texts, alone, together)


def _try_packing(modules: Any, texts: Sequence[str], alone: np.ndarray) -> None:
    """Pack the rows of the encoder that begins the modules, where vectors stay those of single
    texts, (n, d).
    """
    from harness.encoders.packed import find_packing
    from harness.encoders.rows import TokenRows

    encoder = modules.encoder
    if encoder is None:
        return

    # other modules may need more than the last states of tokens, and other tokens than from the left
    try:
        rows = TokenRows.from_tokens(modules.prepare(texts))
        if rows is not None:
            modules.packing = find_packing(encoder, _list_rows_to_pack(encoder, rows.list_ids()))
        is_packed = modules.packing is not None
        if is_packed and _measure_distance(alone, modules.encode(texts)) > _CLOSE:
            modules.packing = None
    except UNREADABLE:
        modules.packing = None

    packing = modules.packing
    if packing is not None:
        modules.found = replace(
            modules.found, rows="packed", position=packing.first, direct=bool(packing.layers)
        )


def _has_task_vectors(model: Any, texts: Sequence[str]) -> bool:
    """Whether `encode_query` or `encode_document` gives other vectors than `encode`, as of a Router."""
    plain = model.encode(texts, batch_size=1, show_progress_bar=False)
    for encode in (model.encode_query, model.encode_document):
        vectors = encode(texts, batch_size=1, show_progress_bar=False)
        if vectors.shape != plain.shape or _measure_distance(plain, vectors) > _CLOSE:
            return True
    return False


def _add_measurements(
    findings: TrialFindings, texts: Sequence[str], alone: np.ndarray, together: np.ndarray
) -> TrialFindings:
    """Add what was measured by the vectors of all texts, (n, d). Raises UserError for useless ones."""
    import numpy as np

    for text, vector in zip(texts, alone, strict=True):
        if not np.isfinite(vector).all():
            raise UserError(
                f"its vector of the sentence '{text[:40]}' is not finite; correct its weights"
            )

    distance = _measure_distance(alone, together)
    if distance > _CLOSE:
        raise UserError(
            "its vector of a sentence depends on the others of the batch (by "
            f"{distance:.0%} of the largest value), in batches of equal lengths too; use another "
            "encoder"
        )

    first = _measure_distance(alone[0], alone[1])
    last = _measure_distance(alone[0], alone[2])
    # a sentence of one word has no other first word
    if texts[1] != texts[2]:
        _check_word("last", last, "last")
        _check_word("first", first, "cls")

    for one, two in ((0, 3), (0, 4), (3, 4)):
        if _measure_distance(alone[one], alone[two]) <= _MOVED:
            raise UserError(
                "different sentences have the same vector; use another encoder or pooling"
            )
    return replace(findings, alone=distance, first_word=first, last_word=last)


def _check_word(word: str, distance: float, pooling: str) -> None:
    """Raise UserError if another first or last word has not moved a sentence's vector; `pooling`
    would see it.
    """
    if distance <= _MOVED:
        raise UserError(
            f"another {word} word of a sentence does not change its vector: the pooled token does "
            "not see it, as in models that read from left to right; use the pooling "
            f"{pooling} or mean (of a method: pooling={pooling} in its brackets; in evaluation: "
            f"--pooling {pooling})"
        )


def _measure_distance(first: Any, second: Any) -> float:
    """The largest difference relative to the largest value of `first`; infinite where a value is
    not finite.
    """
    largest = float(abs(first).max()) or 1.0
    distance = float(abs(first - second).max()) / largest
    return distance if math.isfinite(distance) else math.inf


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


def _check_first(rows: IdRows, tokenizer: Any) -> None:
    """Raise UserError unless all sentences begin with the same token, the tokenizer's
    classification token if any.
    """
    mark = tokenizer.cls_token_id
    full_rows = [row for row in rows if row]
    first_tokens = {row[0] for row in full_rows}
    is_elsewhere = mark != tokenizer.sep_token_id and any(mark in row[1:] for row in full_rows)
    if is_elsewhere:
        reason = f"puts {tokenizer.cls_token} elsewhere than at the beginning of a sentence"
    elif len(first_tokens) > 1:
        reason = "has no token of its own at the beginning of a sentence"
    else:
        return
    raise UserError(
        f"its tokenizer {reason}, and the first token is pooled; use the pooling last or mean (in "
        "evaluation: --pooling last), or another encoder"
    )


def _find_types(encoded: Mapping[str, Any]) -> tuple[int, int, int]:
    """The token types of first tokens, of others, and of last ones. Raises UserError where these
    differ by sentence.
    """
    types = set()
    for row in encoded.get("token_type_ids", ()):
        for type_within in row[1:-1]:
            types.add((row[0], type_within, row[-1]))

    if len(types) > 1:
        raise UserError(
            "its tokenizer gives the tokens of a single sentence several types; use another tokenizer"
        )
    return types.pop() if types else (0, 0, 0)


def _find_longest(student: Any, max_length: int) -> int:
    """Tokens at which sentences of tests are cut. Raises UserError if the model does not read
    `max_length` tokens.
    """
    stated = min(LONGEST, getattr(student.tokenizer, "model_max_length", LONGEST))
    limit = _find_limit(student, max(stated, max_length))
    if limit < max_length:
        raise UserError(
            f"max_length = {max_length}, and the encoder reads {limit} tokens at most; give --set "
            f"max_length={limit} or fewer"
        )
    return min(stated, limit)


def _find_limit(student: Any, length: int) -> int:
    """The most tokens up to `length` that a model reads."""
    # pads have no positions in RoBERTa
    pad = getattr(student.model.config, "pad_token_id", None)
    token = 6 if pad == 5 else 5

    low = 0
    high = length + 1
    middle = length
    while high - low > 1:
        try:
            student.compute_layers([[token] * middle])
            low = middle
        except UNREADABLE:
            high = middle
        middle = (low + high) // 2
    return low
