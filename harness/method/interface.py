"""What methods declare, request and receive: hyperparameters, teacher features, own steps, batches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from harness.errors import UserError
from harness.registry import find_target, suggest
from harness.spec import FeatureKind, OptionValue

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from harness.encoders.embedded import ChangeEmbedded, PlaceTokens

V = TypeVar("V", bound=OptionValue)
#: where a value of @paper comes from: the text of the paper; its public code, because the text is
#: silent or ambiguous; the text with a typo or a gap corrected; or a control of this project
ValueOrigin = Literal["text", "code", "mended", "control"]
#: (rows of text, rows of pairs, text batches, paired batches) -> (cycle, place): step k of an epoch
#: is paired where k mod cycle equals place. There are never fewer text batches than paired ones.
MixingRule = Callable[[int, int, int, int], tuple[int, int]]
#: the label of a token that is not to be predicted
UNMASKED = -100
#: which captions of an image become rows: as the setting says, or all
CaptionRows = Literal["setting", "all"]
#: schedule of a learning rate
Schedule = Literal["linear", "cosine"]


class Encode(Protocol):
    """Encodes inputs of B items under several views, all in one forward pass.

    Views are the same sentence or recording under different dropout masks, or two augmentations of
    an image. Both calls can change the pass; what is None costs nothing:

    `dropout` is the rate of the encoder's states and attention, 0 for none. A view with another
    rate is a call of its own.

    `places` gives the place of each token in its row, (N,) int64, from the packed rows, in place of
    `rows.columns`: the token keeps its word and gets the position of that place.

    `embedded` changes the embedded tokens, (N, d), given their packed rows; noise that requires a
    gradient has one. N are the tokens of all rows and views without padding: row i of view v is row
    v B + i of `rows.row_numbers`. Both draw from torch's generator, which is seeded by run and
    step. They cost their own operations: rows stay packed. With `--chunk` they see one piece of a
    batch at a time, and what they add gets no gradient of its own. Raises UserError for an encoder
    whose rows cannot be packed.
    """

    def __call__(
        self,
        inputs: Mapping[str, Tensor],
        views: int,
        /,
        *,
        dropout: float | None = None,
        places: PlaceTokens | None = None,
        embedded: ChangeEmbedded | None = None,
    ) -> Tensor:
        """Compute pooled vectors before any head: (B, views, d)."""

    def states(
        self,
        inputs: Mapping[str, Tensor],
        views: int = 1,
        /,
        *,
        dropout: float | None = None,
        places: PlaceTokens | None = None,
        embedded: ChangeEmbedded | None = None,
    ) -> Tensor:
        """Compute the last layer at every token: (B, views, L, d), of no meaning at padding."""


@dataclass(frozen=True)
class Vocabulary:
    """What a method may know of tokens: special ids (None where there is none), `size`, and the
    `limit` of a row.

    `ids` gives the token ids of a text without special tokens, `text` the text of ids.
    """

    pad: int
    cls: int | None
    sep: int | None
    mask: int | None
    special: frozenset[int]
    size: int
    limit: int
    ids: Callable[[str], list[int]]
    text: Callable[[Sequence[int]], str]

    @classmethod
    def of(cls, tokenizer: Any, limit: int) -> Self:
        marks = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id
        ids: Callable[[str], list[int]] = partial(tokenizer.encode, add_special_tokens=False)
        special = frozenset(tokenizer.all_special_ids)
        return cls(
            tokenizer.pad_token_id, *marks, special, len(tokenizer), limit, ids, tokenizer.decode
        )

    def masked(
        self, rows: Sequence[Sequence[int]], share: float, random: np.random.Generator
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Rows with a share of their tokens hidden, as for BERT, and the hidden tokens, UNMASKED
        elsewhere.

        Of hidden tokens, 80% become the mask, 10% any token, and 10% stay. Raises UserError without
        a mask token.
        """
        if self.mask is None:
            raise UserError(
                "the encoder's tokenizer has no mask token, which masking needs; use another encoder"
            )
        inputs = []
        labels = []
        for row in rows:
            hide_draws = random.random(len(row))
            change_draws = random.random(len(row))
            random_tokens = random.integers(self.size, size=len(row)).tolist()

            masked_row = list(row)
            row_labels = [UNMASKED] * len(row)
            for place, token in enumerate(row):
                if hide_draws[place] >= share or token in self.special:
                    continue
                row_labels[place] = token
                if change_draws[place] < 0.8:
                    masked_row[place] = self.mask
                elif change_draws[place] < 0.9:
                    masked_row[place] = random_tokens[place]
            inputs.append(masked_row)
            labels.append(row_labels)

        return inputs, labels


@dataclass(frozen=True)
class SentenceBatch:
    """B sentences: `tokens` holds input_ids and attention_mask, each (B, L).

    `changed` has the rows that `Method.change_rows` and `Method.change_texts` made of them, by
    name, and `texts` the B sentences if the method `reads_texts`.
    """

    tokens: Mapping[str, Tensor]
    changed: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict, kw_only=True)
    texts: Sequence[str] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class PhraseRows:
    """P phrases of the B captions of a batch; a caption has any number of them, and a batch may have
    none.

    `captions`, (P,), is the row of each phrase's caption, ascending, `spans`, (P, 2), its tokens
    there from the first to the one after the last, and `regions`, (P,), the region that it names:
    phrases of one object have one number. All are int64.
    """

    captions: Tensor
    spans: Tensor
    regions: Tensor

    def __len__(self) -> int:
        return len(self.captions)

    def vectors(self, states: Tensor) -> Tensor:
        """The mean of the states of each phrase's tokens: (B, views, L, d), as of `encode.states`,
        -> (P, views, d).
        """
        import torch  # which planning does not need

        places = torch.arange(states.shape[2], device=states.device)
        is_own = (places >= self.spans[:, :1]) & (places < self.spans[:, 1:])
        weights = is_own.to(states.dtype)
        weights = weights / weights.sum(1, keepdim=True)
        return torch.einsum("pl,pvld->pvd", weights, states[self.captions])


@dataclass(frozen=True)
class PairBatch(SentenceBatch):
    """B captions with the teacher features that the method requested, by role.

    Features of images and captions are (B, f), of tokens (B, L' >= L, f), of regions (P, f), those
    of the `phrases`, which are None unless the method requests such features; none has a gradient.
    """

    features: Mapping[str, Tensor]
    phrases: PhraseRows | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class TripletBatch(SentenceBatch):
    """B triplets as 3B sentences in the order premise, entailed hypothesis, contradicted
    hypothesis.
    """


@dataclass(frozen=True)
class MediaBatch:
    """B images or recordings with their classes, (B,) int64; an unlabelled item has a class of its
    own.

    `inputs` holds `pixels`, (B, 2, 3, H, W), two augmentations of each image, or `spectrograms`,
    (B, frames, bins).
    """

    inputs: Mapping[str, Tensor]
    labels: Tensor


#: a batch with text
Batch = SentenceBatch | PairBatch | TripletBatch


@dataclass(frozen=True)
class Feature:
    """A frozen teacher's features of paired batches, or the model itself, which `Method.prepare`
    gets.

    `teacher` is a teacher of the profile, 'default' for the profile's image teacher, one of
    `harness.spec.CONTROLS` for a control, or `run:KEY` for the encoder of another run. `of` is what
    each feature describes: a 'region' is what a phrase of a caption names, cut out of its image; a
    'model' reads any batch, and can be a text teacher, an encoder of the profile or a run.
    """

    teacher: str
    of: FeatureKind = "image"


@dataclass(frozen=True)
class Neighbours:
    """Rows near those of a batch, from the whole corpus that the batch is of: sentences, or captions.

    `by` says whose vectors are compared, by cosine: 'student', the encoder as it is when it
    searches, or the role of a frozen 'model' of `Method.features`. It searches before the first
    step, and again every `every` steps, 0 for once. Each step draws `count` of the `among` nearest
    rows of each row, without those of the same text and captions of the same image.
    """

    by: str = "student"
    count: int = 1
    among: int = 1
    every: int = 0

    def __post_init__(self) -> None:
        if self.every and self.by != "student":
            raise UserError(
                f"a frozen model finds the same neighbours again; give every=0, not {self.every}"
            )
        if not 0 < self.count <= self.among or self.every < 0:
            raise UserError(
                f"count={self.count} neighbours are drawn among {self.among} every {self.every} steps; "
                "give a count of at least 1, no more than `among`, and steps of 0 or more"
            )


#: rows up to which a corpus is searched exactly
EXACT_ROWS = 100_000


def find_search(rows: int) -> Literal["exact", "index"]:
    """How the neighbours in a corpus of so many rows are found. Raises UserError where that needs
    FAISS, which is not installed.
    """
    if rows <= EXACT_ROWS:
        return "exact"
    if find_spec("faiss") is None:
        raise UserError(
            f"neighbours among {rows:,} rows need FAISS, as all above {EXACT_ROWS:,}; install it with "
            "`pip install 'sentence-harness[faiss]'`, or train on fewer rows"
        )
    return "index"


@dataclass(frozen=True)
class Dimensions:
    """Input widths of a method's heads: the encoder's d, and f of the teacher features or model of
    each role.
    """

    encoder: int
    features: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Patches:
    """How images or spectrograms become a sequence of vectors for the encoder's layers.

    `pretrained` names an image patch embedding of the profile. Without it, a convolution over
    patches of `size` x `size` is trained from scratch, with position embeddings if `positions` is
    true.
    """

    pretrained: str = ""
    size: int = 0
    positions: bool = True


@dataclass(frozen=True)
class OwnSteps:
    """A stream with an optimizer of its own and one step for every text step (NonLing Algorithm 1)."""

    batch_size: int
    learning_rate: float
    patches: Patches
    weight_decay: float = 0.0
    schedule: Schedule = "linear"
    #: whether its step precedes the text step
    first: bool = False
    #: what is done to its items beyond the corpus's own two views: 'none', or a name that the
    #: corpus supports
    augment: str = "none"


def by_batches(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
    """One paired batch every (text batches // pair batches) steps, starting with the first step of
    an epoch.

    MCSE's public code (src/train_mix.py); its appendix A says "in proportion to their sizes". An
    epoch reads the pairs slightly more than once.
    """
    return text_batches // pair_batches, 0


def hyper(
    default: V,
    *,
    source: str,
    origin: ValueOrigin | None = None,
    unit: str = "",
    choices: tuple[str, ...] = (),
    above: float | None = None,
    at_least: float | None = None,
    registered: str = "",
    teacher: bool = False,
    later: bool = False,
) -> V:
    """Declare a hyperparameter: its default, its source (paper, equation, table), its unit and its
    allowed values.

    `choices` lists the values of a text, `above` and `at_least` bound a number, and `registered`
    names the kind of registered thing that the value must be, such as 'pooling'. `origin` is where
    the default comes from, None if that is not stated. `teacher` marks an option that names
    teachers, joined by '+', or holds a word of `harness.spec.NO_TEACHER`. `later` marks one added
    after results were published: at its default it is left out of a run's identity, so that those
    results keep their fingerprint.
    """
    metadata = {
        "source": source,
        "origin": origin,
        "unit": unit,
        "choices": choices,
        "above": above,
        "at_least": at_least,
        "registered": registered,
        "teacher": teacher,
        "later": later,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of every method. `lambda_` is typed `lambda`: an underscore avoids
    Python's keywords.
    """

    without: str = hyper(
        "",
        source="the whole objective",
        origin="text",
        unit="loss terms to leave out, joined by '+'",
    )
    pooling: str = hyper(
        "cls",
        source="the papers' public code: the first token, through a head in training only",
        origin="code",
        unit="of a sentence's tokens, in training and at test; 'pooler' is cls that keeps the text head at test",
        registered="pooling",
        later=True,
    )
    dropout: float = hyper(
        -1.0,
        source="the encoder's config.json",
        origin="code",
        unit="rate within the encoder; -1: its own",
        later=True,
    )
    attention_dropout: float = hyper(
        -1.0,
        source="the encoder's config.json",
        origin="code",
        unit="rate of attention; -1: its own",
        later=True,
    )
    lora_rank: int = hyper(
        0,
        source="the papers' public code trains every weight",
        origin="code",
        unit="rank of matrices that are trained in place of the encoder's weights; 0: none",
        at_least=0,
        later=True,
    )

    def __post_init__(self) -> None:
        for name in ("dropout", "attention_dropout"):
            rate = getattr(self, name)
            if not (rate == -1 or 0 <= rate < 1):
                raise UserError(
                    f"'{name}' must be 0 or more and below 1, or -1 for the encoder's own, not '{rate:g}'"
                )

    @classmethod
    def options(cls) -> dict[str, dataclasses.Field[Any]]:
        """The dataclass's fields by the names that users type."""
        return {item.name.rstrip("_"): item for item in dataclasses.fields(cls)}

    @classmethod
    def teacher_options(cls) -> frozenset[str]:
        return frozenset(name for name, item in cls.options().items() if item.metadata["teacher"])

    @classmethod
    def read(cls, method: str, values: Mapping[str, object]) -> Self:
        """Convert values from TOML or a command line. Raises UserError for an unknown option or a
        wrong value.
        """
        options = cls.options()
        for name in values:
            if name not in options:
                hint = suggest(name, sorted(options))
                also = f"values of the training, such as batch_size, are valid too: `harness show {method}` lists them"
                raise UserError(f"the method '{method}' has no option '{name}'; {hint} ({also})")
        converted: dict[str, Any] = {}
        for name, value in values.items():
            item = options[name]
            converted[item.name] = _convert(f"{method}: '{name}'", item, value)
        return cls(**converted)

    def named(self) -> dict[str, OptionValue]:
        return {name: getattr(self, item.name) for name, item in self.options().items()}

    def identity(self) -> dict[str, OptionValue]:
        # what was added later is left out at its default, which earlier runs had without naming it
        identity = {}
        for name, item in self.options().items():
            value = getattr(self, item.name)
            is_as_before = item.metadata["later"] and value == item.default
            if not is_as_before:
                identity[name] = value
        return identity


def _convert(what: str, item: dataclasses.Field[Any], value: Any) -> OptionValue:
    """Convert a value to the type of the option's default; `what` starts the error message."""
    kind: type[Any] = type(item.default)
    try:
        converted = _convert_type(kind, value)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{what} must be of type {kind.__name__}, not '{value}'") from error

    if isinstance(converted, float) and not math.isfinite(converted):
        raise UserError(f"{what} must be a finite number, not '{value}'")
    above = item.metadata["above"]
    at_least = item.metadata["at_least"]
    if above is not None and not float(converted) > above:
        raise UserError(f"{what} must be above {above:g}, not '{value}'")
    if at_least is not None and not float(converted) >= at_least:
        raise UserError(f"{what} must be {at_least:g} or more, not '{value}'")
    if item.metadata["registered"]:
        find_target(item.metadata["registered"], str(converted))
    choices = item.metadata["choices"]
    if choices and converted not in choices:
        raise UserError(f"{what} must be one of {', '.join(choices)}, not '{value}'")
    return converted


def _convert_type(kind: type[Any], value: Any) -> OptionValue:
    """A value as one of a type. Raises KeyError, TypeError and ValueError where it is none."""
    if kind is bool:
        return {"true": True, "false": False}[str(value).lower()]
    # True is a number to Python, and none to a user
    if isinstance(value, bool):
        raise ValueError
    converted: OptionValue = kind(value)
    if kind is int and float(value) != converted:
        raise ValueError
    return converted
