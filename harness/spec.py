"""What a run is: the variant grammar, RunSpec and its key.

    variant := NAME [ "[" option { "," option } "]" ] [ "@" READING ]
    option  := KEY "=" VALUE

A value may hold balanced brackets, so that one variant can name another
(`dalr[text=run:simcse[temperature=0.1]/wiki/bert-base-uncased/seed-0]`). Options are printed in
order of their keys and numbers in their shortest form, so equal variants have equal texts. They are
the method's options or values of the training (`kdmcse[batch_size=128,margin=0.1]`). A setting has
the same grammar without a reading (`flickr[shot=100]`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from harness.errors import UserError

#: a kind of training data
Stream = Literal["sentences", "pairs", "triplets", "images", "audio"]
#: streams that are not text
MEDIA: Final[tuple[Stream, ...]] = ("images", "audio")
#: what a teacher's feature describes: an image, a caption, each token of a caption, or a region of
#: an image that a phrase names
FeatureKind = Literal["image", "caption", "tokens", "model", "region"]
#: a value of a hyperparameter
OptionValue = int | float | str | bool

DEFAULT_READING = "paper"
#: the setting of a method that does not train
UNTRAINED = "none"
#: the method that others are tested against
BASELINE = "simcse"
#: the control that gives each image the features of the image network before it was trained
UNTRAINED_IMAGES = "untrained"
#: image teachers of control experiments: features of the rows in another order, of rows drawn at
#: random with replacement, or noise; 'permuted' gives each image the features of another one, which
#: all its captions share. Of regions, 'shuffled' exchanges those of one image, and 'permuted' gives
#: them those of another image
CONTROLS = ("shuffled", "random", "noise", "permuted", UNTRAINED_IMAGES)
#: values of a teacher option that name no teacher of a profile
NO_TEACHER = ("default", "none", *CONTROLS)
#: values of a training that were added later, and what all trainings before had; with these a run
#: keeps the identity that it had without them
LATER_VALUES: dict[str, OptionValue] = {"checkpoint": "best"}


def settle_compile(training: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a training with `compile = "auto"` as false: the machine chooses how fast the
    steps are, which is no other training.
    """
    if training.get("compile") == "auto":
        return {**training, "compile": False}
    return dict(training)


def select_identifying(training: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a training that identify a run: all but those that earlier runs had anyway."""
    values = settle_compile(training)
    for name, earlier in LATER_VALUES.items():
        if values.get(name) == earlier:
            del values[name]
    return values


#: more seeds than this are a mistake, such as a single seed typed without its comma
MOST_SEEDS = 10_000
#: a name with more levels of brackets is a mistake
MOST_NESTED = 20
#: what names a run in records and tables
NAMES = ("method", "variant", "setting", "encoder", "seed")
_VARIANT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._+-]*)(?:\[(.*)\])?", re.DOTALL)
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SEED = re.compile(r"seed-(0|[1-9][0-9]{0,8})")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
#: a run's key, whose setting may contain '+', or a teacher of the profile; text in brackets is
#: masked by NUL
_TEACHER = r"run:[^/+]+/[^/]+/[^/+]+/seed-\d+|[^/+\0]+"
_TEACHERS = re.compile(rf"({_TEACHER})(?:\+(?={_TEACHER})|$)")


class SpecError(UserError, ValueError):
    """A text that is not a variant, setting, seed list or run key. The message says what to type."""


@dataclass(frozen=True)
class Variant:
    """A name with options and a reading: a method variant, or a setting (whose reading stays
    default).
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()
    reading: str = DEFAULT_READING

    @classmethod
    def make(
        cls, name: str, options: Mapping[str, object] | None = None, reading: str = DEFAULT_READING
    ) -> Variant:
        """Build a variant from values of any printable type."""
        texts = {key: _write_option(key, value) for key, value in (options or {}).items()}
        return cls(name, tuple(sorted(texts.items())), reading)

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read a variant. Raises SpecError."""
        head, *readings = split(text, "@")
        match = _VARIANT.fullmatch(head)
        if match is None or len(readings) > 1:
            raise SpecError(
                f"'{text}' is not a variant; write NAME, NAME[key=value,...] or NAME@reading"
            )

        name, inside = match.groups()
        reading = readings[0] if readings else DEFAULT_READING
        if not _KEY.fullmatch(reading):
            example = f"{name}@official"
            reading_name, bracket, options = reading.partition("[")
            # the options were written after the reading
            if bracket and not inside:
                example = f"{head}[{options}@{reading_name}"
            raise SpecError(f"'{text}' has no valid reading after '@'; write for example {example}")

        return cls.make(name, {} if inside is None else _parse_options(inside, text), reading)

    def read_as(self, reading: str) -> Variant:
        """Return the variant in this reading, unless it names a reading already."""
        if self.reading != DEFAULT_READING:
            return self
        return replace(self, reading=reading)

    def __str__(self) -> str:
        text = self.name
        if self.options:
            options = ",".join(f"{key}={value}" for key, value in self.options)
            text += f"[{options}]"
        if self.reading != DEFAULT_READING:
            text += f"@{self.reading}"
        return text


@dataclass(frozen=True)
class RunSpec:
    """One run: method variant x setting x encoder x seed. Its text is its key."""

    variant: Variant
    setting: Variant
    encoder: str
    seed: int

    @classmethod
    def parse(cls, text: str) -> RunSpec:
        """Read a key such as `mcse[lambda=0.05]/wiki+flickr/bert-base-uncased/seed-3`. Raises
        SpecError.
        """
        variant, *rest = split(text, "/")
        seed = _SEED.fullmatch(rest[-1]) if rest else None
        if len(rest) < 3 or seed is None:
            raise SpecError(f"'{text}' is not a run; write METHOD/SETTING/ENCODER/seed-N")
        setting, *encoder_parts, _ = rest
        encoder = parse_encoder("/".join(encoder_parts))
        return cls(Variant.parse(variant), parse_setting(setting), encoder, int(seed.group(1)))

    @property
    def key(self) -> str:
        return str(self)

    @property
    def names(self) -> dict[str, str | int]:
        """The run as texts, as NAMES lists them: its method without reading and options, then its
        key in parts.
        """
        parts = (self.variant.name, str(self.variant), str(self.setting), self.encoder, self.seed)
        return dict(zip(NAMES, parts, strict=True))

    def __str__(self) -> str:
        return f"{self.variant}/{self.setting}/{self.encoder}/seed-{self.seed}"


class Place(NamedTuple):
    """Variant, setting and encoder of runs that differ only by their seeds, as texts."""

    variant: str
    setting: str
    encoder: str


def parse_setting(text: str) -> Variant:
    """Read a setting: a name with options and no reading. Raises SpecError."""
    setting = Variant.parse(text)
    if setting.reading != DEFAULT_READING:
        raise SpecError(f"the setting '{text}' has a reading; only methods have readings")
    return setting


#: prefix of the name of a run whose model is a teacher or an encoder
RUN = "run:"


def parse_encoder(text: str) -> str:
    """Check an encoder's name: a profile's name or a hub name such as owner/model. Raises
    SpecError.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?", text):
        raise SpecError(
            f"'{text}' is not an encoder's name; use letters, digits, '.', '_', '-' and at most one '/'"
        )
    return text


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read `5` as the seeds 0 to 4, and `0,3,7` or `3,` as those seeds. Raises SpecError."""
    parts = [part.strip() for part in text.split(",")]
    listed = len(parts) > 1
    if listed and parts[-1] == "":
        parts.pop()
    if not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        raise SpecError(
            f"seeds '{text}' are neither a number of seeds nor a list; write --seeds 5 or --seeds 0,3,7"
        )

    if listed and any(len(part) > 9 for part in parts):
        raise SpecError(f"seeds '{text}': a seed has at most 9 digits")

    numbers = [int(part[:10]) for part in parts]  # more digits are too many in any case
    if listed:
        distinct = dict.fromkeys(numbers)
        if len(distinct) < len(numbers):
            raise SpecError(f"seeds '{text}' name a seed twice; name each once")
        return tuple(distinct)

    if numbers[0] < 1:
        raise SpecError(
            "seeds '0' asks for no run; write --seeds 1 for seed 0, or --seeds 0, for the seed itself"
        )

    if numbers[0] > MOST_SEEDS:
        raise SpecError(
            f"seeds '{text}' are more than {MOST_SEEDS:,} runs of each variant; for one such seed write '{text},'"
        )
    return tuple(range(numbers[0]))


def split(text: str, separator: str = ",") -> list[str]:
    """Split at the separators that stand outside brackets.

    Raises SpecError for brackets that are unbalanced or nested too deeply, and for control
    characters.
    """
    if not text.isprintable():
        raise SpecError(f"'{text}' contains a control character; type it again")

    parts = []
    depth = 0
    start = 0
    for index, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1

        if depth > MOST_NESTED:
            raise SpecError(
                f"'{text}' has more than {MOST_NESTED} brackets inside each other; name fewer"
            )

        if depth < 0:
            break
        if char == separator and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1

    if depth != 0:
        raise SpecError(f"'{text}' has unbalanced brackets; close every '[' with a ']'")
    return [*parts, text[start:].strip()]


def split_teachers(text: str) -> tuple[str, ...]:
    """Split the teachers' names in an option's value, joined by '+'. Raises SpecError if they
    cannot be read.
    """
    depth = 0
    masked = ""
    for char in text:
        if char == "[":
            depth += 1
        masked += "\0" if depth else char
        if char == "]":
            depth -= 1

    matches = list(_TEACHERS.finditer(masked))
    matched_length = sum(len(match.group()) for match in matches)
    if not matches or matched_length != len(text):
        raise SpecError(
            f"'{text}' is not a list of teachers; join their names by '+', as in simcse+diffcse"
        )
    return tuple(text[slice(*match.span(1))] for match in matches)


def write_canonical(value: object) -> str:
    """Write a value in its canonical form: numbers in their shortest form, anything else unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"

    text = str(value).strip()
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    if math.isinf(number):
        return text
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    return repr(number)


def _write_option(key: str, value: object) -> str:
    """Write an option's value in its canonical form; the terms of `without` are sorted."""
    text = write_canonical(value)
    if key != "without":
        return text
    return "+".join(sorted(text.split("+")))


def _parse_options(inside: str, given: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in split(inside):
        key, _, value = (word.strip() for word in part.partition("="))
        if not value or not _KEY.fullmatch(key):
            raise SpecError(f"'{part}' in '{given}' is not an option; write key=value")
        if key in options:
            raise SpecError(f"'{given}' sets '{key}' twice; keep one")
        options[key] = value

    return options


def find_fresh_size(name: str) -> int | None:
    """Return the patch size of 'fresh-SIZE', an embedding trained from scratch; None for other
    names.
    """
    prefix, _, size = name.partition("fresh-")
    if prefix or not size.isdecimal():
        return None
    return int(size)
