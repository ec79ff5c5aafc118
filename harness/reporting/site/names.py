"""Names of pages: safe in every file system and in a link, whatever the run, paper or method is called."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

#: Longest stem of a file name, in characters.
LONGEST = 90


def slug(text: str) -> str:
    """A text as lower-case ASCII letters, digits, dots and hyphens; never empty, never hidden, never a path."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9.]+", "-", plain)[:LONGEST].strip("-.") or "unnamed"


def slugs(names: Iterable[str]) -> dict[str, str]:
    """A slug for each name, no two alike."""
    taken: set[str] = set()
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        stem, count = slug(name), 1
        while (unique := stem if count == 1 else f"{stem}--{count}") in taken:
            count += 1
        taken.add(unique)
        found[name] = unique
    return found


def run_names(results: Sequence[Any]) -> list[str]:
    """The stem of each run's page, in the order of the results: its key and its fingerprint, no two alike."""
    stems = [f"{slug(one.spec.key)}-{slug(one.fingerprint[:12])}" for one in results]
    count: dict[str, int] = {}
    names = []
    for stem in stems:
        count[stem] = count.get(stem, 0) + 1
        names.append(stem if count[stem] == 1 else f"{stem}--{count[stem]}")
    return names
