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


def split_words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return re.findall(r"[a-z]+", text.lower())


def read_ratings(path: Path) -> dict[str, float]:
    """The rating of each single word."""
    ratings = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["Brysbaert"]:
                ratings[row["Word"].lower()] = float(row["Brysbaert"])
    return ratings


def mark_words(
    words: Collection[str], captions: Collection[str], ratings: Mapping[str, float]
) -> tuple[float, float | None]:
    """The share of words that captions have, 0 without words, and the mean rating of those that are
    rated.
    """
    if not words:
        return 0.0, None

    share = round(mean(word in captions for word in words), 3)
    ratings_found = []
    for word in words:
        rating = ratings.get(word, ratings.get(word.removesuffix("s")))
        if rating is not None:
            ratings_found.append(rating)
    return share, round(mean(ratings_found), 3) if ratings_found else None


def mark_tasks(
    root: Path, ratings: Mapping[str, float]
) -> Iterator[tuple[str, Mapping[str, Marks]]]:
    """Each task, and the marks of the pairs of its subsets."""
    corpora = Inventory(load_profile("grounding"), root, {}).corpora

    def count_words(corpus: str) -> Counter[str]:
        return Counter(split_words(" ".join(corpora[corpus].plain.source.texts(root))))

    grammar = {word for word, _ in count_words("wiki").most_common(GRAMMAR)}
    captions = count_words("flickr8k")
    for name in TASKS:
        subsets = registry.get(SIMILARITY, name).load(root)
        marks = {}
        for subset, pairs in subsets.items():
            marks[subset] = _mark_pairs(pairs, captions, ratings, grammar)
        yield name, marks


def _mark_pairs(
    pairs: Iterable[SentencePair],
    captions: Collection[str],
    ratings: Mapping[str, float],
    grammar: Collection[str],
) -> Marks:
    seen = []
    concrete = []
    for first, second, _ in pairs:
        words = set(split_words(f"{first} {second}")).difference(grammar)
        share, rating = mark_words(words, captions, ratings)
        seen.append(share)
        concrete.append(rating)
    return {"seen": seen, "concrete": concrete}


if __name__ == "__main__":
    json.dump(
        dict(mark_tasks(Path(sys.argv[1]), read_ratings(Path(sys.argv[2])))),
        sys.stdout,
        separators=(",", ":"),
    )
