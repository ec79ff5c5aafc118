"""How the runs that stand for a row relate to the present code, data and values, and to other runs of its label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.formatting import count_of
from harness.store import PRESENT, UNKNOWN


@dataclass(frozen=True)
class Freshness:
    """The number of seeds of a group of runs, and its state as the frame's column `present` has it.

    `hidden` are the seeds and states of the other groups with the same label, which are not shown.
    """

    seeds: int = 0
    state: str = UNKNOWN
    hidden: tuple[tuple[int, str], ...] = ()

    @property
    def is_stale(self) -> bool:
        """Whether code, data or values have changed since."""
        return self.state not in (PRESENT, UNKNOWN)

    @property
    def mark(self) -> str:
        """A word beside the number of seeds; empty where there is nothing to say."""
        if self.is_stale:
            return "stale"
        return "incomplete" if self.seeds < max((seeds for seeds, _ in self.hidden), default=0) else ""

    def __str__(self) -> str:
        """What is to be said wherever the numbers stand; empty where there is nothing."""
        parts = [f"stale, changed since: {self.state}"] if self.is_stale else []
        if self.hidden and self.state == UNKNOWN:
            parts.append("the newest of several groups of runs; which of them is the present one is not known")
        elif self.mark == "incomplete":
            parts.append(f"incomplete, {count_of(self.seeds, 'seed')} with the present code, data and values")
        if self.hidden:
            parts.append(f"not shown: {' and '.join(_hidden(*group) for group in self.hidden)}")
        return "; ".join(parts)


def _hidden(seeds: int, state: str) -> str:
    known = "" if state in (PRESENT, UNKNOWN) else f" (changed since: {state})"
    return f"{count_of(seeds, 'seed')} of another group{known}"


def freshness_notes(rows: Iterable[tuple[str, str, Freshness]]) -> Iterator[str]:
    """One note for each thing that is to be said of rows, each given by its place, name and freshness."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for where, name, freshness in rows:
        if text := str(freshness):
            found.setdefault(text, {}).setdefault(where, {})[name] = None
    for text, places in found.items():
        listed = " ".join(f"In {where}: {'; '.join(names)}." for where, names in places.items())
        yield f"{text[0].upper()}{text[1:]}. {listed}"
