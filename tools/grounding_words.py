"""How far the words of the pairs of STS12 to STS16 are those of pictures:
`tools/grounding_words.json`.

    python tools/grounding_words.py DATA RATINGS.csv > tools/grounding_words.json

DATA is the folder of data files. RATINGS has the concreteness of words from 1 to 5 (Brysbaert,
Warriner and Kuperman 2014), columns Word and Brysbaert. The hundred most frequent words of the
Wikipedia sentences, which are those of grammar, do not count. For each subset of each task, of its
pairs in their order:

- `seen`: the share of its words that occur in the captions of Flickr8k, one for each image
- `concrete`: the mean rating of its words, null if no word is rated; a word that is not rated
  counts as the one without its last s
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

from harness import registry
from harness.evaluation.suites import SIMILARITY, SentencePair
from harness.planning.inventory import Inventory
from harness.profiles import load_profile

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16")
GRAMMAR = 100
#: what is known of the words of each pair of a subset
Marks = Mapping[str, Sequence[float | None]]


def words_of(text: str) -> list[str]:
    """The words of a text in lower case."""
    return re.findall(r"[a-z]+", text.lower())


def ratings_of(path: Path) -> dict[str, float]:
    """The rating of each single word."""
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["Word"].lower(): float(row["Brysbaert"])
            for row in csv.DictReader(file)
            if row["Brysbaert"]
        }


def marks_of(
    words: Collection[str], captions: Collection[str], ratings: Mapping[str, float]
) -> tuple[float, float | None]:
    """The share of words that captions have, 0 without words, and the mean rating of those that are
    rated.
    """
    rated = [ratings.get(word, ratings.get(word.removesuffix("s"))) for word in words]
    known = [rating for rating in rated if rating is not None]
    return round(mean([word in captions for word in words] or [0]), 3), round(
        mean(known), 3
    ) if known else None


def marks(root: Path, ratings: Mapping[str, float]) -> Iterator[tuple[str, Mapping[str, Marks]]]:
    """Each task, and the marks of the pairs of its subsets."""
    corpora = Inventory(load_profile("grounding"), root, {}).corpora
    wiki, pictures = (
        Counter(words_of(" ".join(corpora[name].plain.source.texts(root))))
        for name in ("wiki", "flickr8k")
    )
    grammar = {word for word, _ in wiki.most_common(GRAMMAR)}
    for name in TASKS:
        subsets = registry.get(SIMILARITY, name).load(root)
        yield (
            name,
            {
                subset: _of_pairs(pairs, pictures, ratings, grammar)
                for subset, pairs in subsets.items()
            },
        )


def _of_pairs(
    pairs: Iterable[SentencePair],
    captions: Collection[str],
    ratings: Mapping[str, float],
    grammar: Collection[str],
) -> Marks:
    words = ({*words_of(f"{first} {second}")} - {*grammar} for first, second, _ in pairs)
    seen, concrete = zip(*(marks_of(some, captions, ratings) for some in words), strict=True)
    return {"seen": seen, "concrete": concrete}


if __name__ == "__main__":
    json.dump(
        dict(marks(Path(sys.argv[1]), ratings_of(Path(sys.argv[2])))),
        sys.stdout,
        separators=(",", ":"),
    )
