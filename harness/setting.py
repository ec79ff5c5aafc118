"""Options of a setting: how many rows of its corpora are used, and how the corpora are read.

flickr[shot=100]        100 pairs, with as many steps as all pairs would give (MCSE Figure 3)
nli[size=30000]         30,000 triplets or sentences, with the steps that these give (NonLing Figure 2)
nli[deletion=0.4]       every word deleted with probability 0.4 (NonLing Figure 3)
nli[insertion=2,swap=2] two words inserted and two pairs of words swapped in every text (NonLing Figure 3)
flickr[captions=all]    every caption of an image as a row; `one` draws one caption per image

NonLing does not define its three kinds of noise. Here each word is deleted with a given
probability, except that one word always remains; an inserted word is a copy of a word of the text
at a random place; a swap exchanges the words at two random places. Noise is applied in this order,
once per text, with random numbers drawn in the order of the corpus.

A package adds an option as a `SettingOption` in the entry point group `harness.setting_options`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from harness.corpora.base import CorpusSource, Triplets
from harness.errors import UnavailableError
from harness.registry import Registered, get_class, list_registered, suggest
from harness.seeds import make_generator
from harness.sources import Findings, Missing, digest
from harness.spec import Stream, Variant


class Kept(NamedTuple):
    """The number of rows of a stream used in training; `steps_of_all` keeps the steps that all rows
    would give.
    """

    rows: int
    steps_of_all: bool


class SettingOption(Registered):
    """One option of a setting with its value. It changes the corpora of its streams, and only
    those.
    """

    streams: ClassVar[tuple[Stream, ...]]

    def __init__(self, text: str) -> None:
        """Read the value. Raises ValueError whose message says what is allowed: 'a whole number of
        at least 1'.
        """

    def kept(self) -> Kept | None:
        """The rows used of each of the streams, or None for all of them."""
        return None

    def read(self, source: CorpusSource) -> CorpusSource:
        """The corpus with this option. A change of its content must change its fingerprint."""
        return source


class Size(SettingOption):
    """A number of triplets or sentences, with the steps that they give."""

    streams: ClassVar[tuple[Stream, ...]] = ("triplets", "sentences")
    steps_of_all: ClassVar[bool] = False

    def __init__(self, text: str) -> None:
        self.rows = _parse_count(text)

    def kept(self) -> Kept:
        return Kept(self.rows, self.steps_of_all)


class Shot(Size):
    """A number of pairs, with the steps of all pairs."""

    streams = ("pairs",)
    steps_of_all = True


@dataclass(frozen=True)
class Noisy(CorpusSource):
    """Triplets with noise in every text: `deletion` is a probability, `insertion` and `swap` are
    counts per text.
    """

    clean: CorpusSource
    deletion: float = 0.0
    insertion: int = 0
    swap: int = 0
    stream = "triplets"

    def missing(self, root: Path | None) -> list[Missing]:
        return self.clean.missing(root)

    def fingerprint(self, root: Path | None) -> str:
        return digest(
            "noise", self.clean.fingerprint(root), self.deletion, self.insertion, self.swap
        )

    def examined(self, root: Path | None) -> Findings:
        return self.clean.examined(root)

    def load(self, root: Path | None) -> Triplets:
        texts = list(self.texts(root))
        return Triplets(texts[0::3], texts[1::3], texts[2::3])

    def texts(self, root: Path | None) -> Iterator[str]:
        rng = make_generator(
            axis="noise", deletion=str(self.deletion), insertion=self.insertion, swap=self.swap
        )
        for text in self.clean.texts(root):
            yield self._add_noise(text, rng)

    def _add_noise(self, text: str, rng: np.random.Generator) -> str:
        words = text.split()
        if self.deletion:
            stays = rng.random(len(words)) >= self.deletion
            stays[rng.integers(len(words))] |= not stays.any()
            words = [word for word, stay in zip(words, stays, strict=True) if stay]
        for _ in range(self.insertion):
            place = int(rng.integers(len(words) + 1))
            words.insert(place, words[int(rng.integers(len(words)))])
        for _ in range(self.swap):
            first, second = rng.integers(len(words), size=2)
            words[first], words[second] = words[second], words[first]
        return " ".join(words)


class _Noise(SettingOption):
    streams = ("triplets",)
    noise: Mapping[str, Any]

    def read(self, source: CorpusSource) -> Noisy:
        """The corpus with this noise, in addition to any other."""
        return replace(source if isinstance(source, Noisy) else Noisy(source), **self.noise)


class Deletion(_Noise):
    """The probability of deleting each word."""

    def __init__(self, text: str) -> None:
        self.noise = {"deletion": _parse_share(text)}


class Insertion(_Noise):
    """The number of words inserted into each text."""

    def __init__(self, text: str) -> None:
        self.noise = {"insertion": _parse_count(text)}


class Swap(_Noise):
    """The number of pairs of words swapped in each text."""

    def __init__(self, text: str) -> None:
        self.noise = {"swap": _parse_count(text)}


class Captions(SettingOption):
    """Which captions of an image become rows: 'one' or 'all'."""

    streams = ("pairs",)

    def __init__(self, text: str) -> None:
        if text not in ("one", "all"):
            raise ValueError("'one' or 'all'")
        self.which: Literal["one", "all"] = "one" if text == "one" else "all"

    def read(self, source: CorpusSource) -> CorpusSource:
        return source.with_captions(self.which)


def read_setting_options(
    setting: Variant, streams: Collection[Stream]
) -> tuple[SettingOption, ...]:
    """Read the options of a setting whose corpora are of these streams.

    Raises UnavailableError for an unknown option or value, and for an option that applies to none
    of the streams.
    """
    options = []
    for name, text in setting.options:
        if name not in list_registered("setting option"):
            hint = suggest(name, list_registered("setting option"))
            raise UnavailableError(f"the setting '{setting}' has no option '{name}'; {hint}")
        try:
            option = get_class("setting option", name, SettingOption)(text)
        except ValueError as error:
            raise UnavailableError(
                f"{name}={text} in the setting '{setting}' must be {error}"
            ) from error
        if not set(option.streams) & set(streams):
            raise UnavailableError(
                f"the setting '{setting}' has no {' or '.join(option.streams)}, to which '{name}' applies; "
                "remove the option"
            )
        options.append(option)
    return tuple(options)


def read_with(options: Iterable[SettingOption], source: CorpusSource) -> CorpusSource:
    """Apply the options of a corpus's stream to the corpus, in order; without any, return the
    corpus itself.
    """
    for option in options:
        if source.stream in option.streams:
            source = option.read(source)
    return source


def find_kept_rows(options: Iterable[SettingOption], stream: Stream) -> Kept | None:
    """The rows used of a stream, the fewest if several options limit them; None for all."""
    limits = [option.kept() for option in options if stream in option.streams]
    return min((limit for limit in limits if limit is not None), default=None)


def _parse_share(text: str) -> float:
    try:
        if 0 < float(text) < 1:
            return float(text)
    except ValueError:
        pass
    raise ValueError("a number between 0 and 1")


def _parse_count(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError("a whole number of at least 1")
