"""A million sentences of a Wikipedia, by a seeded recipe.

NonLing trains on a million sentences of each of four Wikipedias and does not describe how they were chosen; this recipe
is the project's own. Articles of the drawn shards are read in order. Lines that end like a sentence, unlike headings
and list items, are split into sentences, those within the length bounds are candidates, and at most `per_article` of
them are drawn by title. Duplicates are removed, and the first `count` sentences are shuffled by seed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.recipes.base import Got, Take, clean
from harness.seeds import generator

#: ends of sentences followed by a capital, a digit or a quotation mark, in scripts with spaces between words
_SPACED = re.compile(r"(?<=[.!?])\s+(?=[«„\"“(]?[A-ZÀ-ÖØ-ÞА-ЯЁ0-9])")
_UNSPACED = re.compile(r"(?<=[。！？])")


def wikipedia(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write one sentence per line. Raises UserError if the shards have too few."""
    options = entry.options
    found: dict[str, None] = {}
    for title, text in _articles(got[entry.origins[0].file]):
        candidates = sentences(text, options["spaced"], options["shortest"], options["longest"])
        if len(candidates) > options["per_article"]:
            order = generator(axis="article's sentences", seed=options["seed"], title=title).permutation(
                len(candidates)
            )
            candidates = [candidates[row] for row in sorted(order[: options["per_article"]])]
        found.update(dict.fromkeys(candidates))
        if len(found) >= options["count"]:
            break
    if len(found) < options["count"]:
        raise UserError(
            f"{entry.name}: the shards have {len(found)} sentences, {options['count']} are needed; give more shards"
        )
    texts = list(found)[: options["count"]]
    order = generator(axis="sentences' order", seed=options["seed"]).permutation(len(texts))
    target = out / entry.outputs[0].path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{texts[row]}\n" for row in order)


def sentences(text: str, spaced: bool, shortest: int, longest: int) -> list[str]:
    """Sentences of an article; length is in words, or in characters for scripts without spaces."""
    ends = (".", "!", "?") if spaced else ("。", "！", "？")
    found = []
    for line in text.split("\n"):
        if line.rstrip().endswith(ends):
            for part in (_SPACED if spaced else _UNSPACED).split(line):
                sentence = clean(part)
                length = len(sentence.split()) if spaced else len(sentence)
                if shortest <= length <= longest and sentence.endswith(ends):
                    found.append(sentence)
    return found


def _articles(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    import pyarrow.parquet as parquet
    from pyarrow import ArrowException

    for path in paths:
        try:
            for batch in parquet.ParquetFile(path).iter_batches(batch_size=1000, columns=["title", "text"]):
                yield from zip(batch["title"].to_pylist(), batch["text"].to_pylist(), strict=True)
        except (ArrowException, OSError, KeyError) as error:
            raise UserError(
                f"{path} is not a table of articles: {' '.join(str(error).split())}; download it again"
            ) from error
