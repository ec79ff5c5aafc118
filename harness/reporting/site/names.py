"""Names of pages: safe on every file system and in links, whatever the name of the run, paper or method."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.store import Result

#: Longest stem of a file name, in characters.
LONGEST = 90


def slug(text: str) -> str:
    """Reduce a text to lower-case ASCII letters, digits, dots and hyphens; never empty, hidden or a path."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9.]+", "-", plain)[:LONGEST].strip("-.") or "unnamed"


def slugs(names: Iterable[str]) -> dict[str, str]:
    """A unique slug for each name."""
    taken: set[str] = set()
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        stem, count = slug(name), 1
        while (unique := stem if count == 1 else f"{stem}--{count}") in taken:
            count += 1
        taken.add(unique)
        found[name] = unique
    return found


def run_names(results: Sequence[Result]) -> list[str]:
    """A unique stem for the page of each run, made of its key and fingerprint, in the order of the results."""
    count: Counter[str] = Counter()
    names = []
    for one in results:
        stem = f"{slug(one.spec.key)}-{slug(one.fingerprint[:12])}"
        count[stem] += 1
        names.append(stem if count[stem] == 1 else f"{stem}--{count[stem]}")
    return names
