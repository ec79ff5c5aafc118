"""Noise on triplets: how much of it there is, and that it is the same each time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

from harness.corpora.base import CorpusSource, Noisy, Triplets

WORDS = [f"w{number}" for number in range(20)]


class Clean(CorpusSource):
    stream: Literal["sentences", "pairs", "triplets", "images", "audio"] = "triplets"

    def __init__(self, *texts: str) -> None:
        self.listed = list(texts) or [" ".join(WORDS)] * 300

    def missing(self, root: Path | None) -> list:
        return []

    def fingerprint(self, root: Path | None) -> str:
        return "clean"

    def load(self, root: Path | None) -> Triplets:
        return Triplets(self.listed[0::3], self.listed[1::3], self.listed[2::3])


def noisy(*texts: str, **options: float) -> list[list[str]]:
    return [text.split() for text in Noisy(Clean(*texts), **options).texts(None)]


def test_a_deletion_of_two_fifths_leaves_three_fifths_in_their_order() -> None:
    found = noisy(deletion=0.4)
    assert 0.58 < sum(map(len, found)) / (300 * 20) < 0.62
    assert all(words == [word for word in WORDS if word in set(words)] for words in found)
    assert len({len(words) for words in found}) > 5


def test_one_word_always_stays() -> None:
    found = noisy("one", "two words", "three", deletion=0.99)
    assert all(found)
    assert set(found[1]) <= {"two", "words"}


def test_an_insertion_repeats_words_of_the_text() -> None:
    for words in noisy(insertion=2):
        assert len(words) == 22
        assert set(words) == set(WORDS)


def test_a_swap_keeps_the_words() -> None:
    found = noisy(swap=2)
    assert all(Counter(words) == Counter(WORDS) for words in found)
    moved = [sum(one != other for one, other in zip(words, WORDS, strict=True)) for words in found]
    assert max(moved) == 4
    assert sum(moved) / len(moved) > 3


def test_it_is_drawn_once(tmp_path: Path) -> None:
    assert noisy(deletion=0.3, insertion=2, swap=2) == noisy(deletion=0.3, insertion=2, swap=2)
    one, other = (Noisy(Clean(), deletion=chance) for chance in (0.3, 0.4))
    assert one.fingerprint(None) != other.fingerprint(None) != Clean().fingerprint(None)


@pytest.mark.parametrize("options", [{"deletion": 0.5}, {"insertion": 3}, {"swap": 1}])
def test_a_loaded_triplet_is_the_three_texts_of_a_row(options: dict[str, float]) -> None:
    source = Noisy(Clean("a b c", "d e f", "g h i", "j k l", "m n o", "p q r"), **options)
    loaded = source.load(None)
    assert [*zip(loaded.premises, loaded.entailed, loaded.contradicted, strict=True)][1] == tuple(source.texts(None))[
        3:
    ]
    assert source.per_row == 3
