"""What the runs of a row read and computed, and the loss terms that their gradients hardly contain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.store import Result, frames_of, lines_of

if TYPE_CHECKING:
    from harness.reporting.seeds.cells import Row

#: numbers of a budget: column of the frame of runs -> its words
BUDGET = {
    "steps": "steps",
    "text_rows": "rows of text",
    "other_rows": "rows of the other modality",
    "flops": "FLOPs",
    "peak_memory_mb": "MB of memory at most",
}
MINUTES = "minutes, by this machine's load"
#: a loss term with a smaller share of the gradient in every batch cannot explain a difference
LEAST_SHARE = 0.01


class Spent(NamedTuple):
    """Medians over runs by name of BUDGET, without those that results of schema 4 lack, and each training's minutes.

    `shares` has the largest share of the gradient that each loss term had in a batch of any run.
    """

    budget: Mapping[str, float] = {}
    minutes: tuple[float, ...] = ()
    shares: Mapping[str, float] = {}

    @classmethod
    def of(cls, runs: Iterable[Any]) -> Spent:
        """What runs have spent, which are lines of a frame with these columns."""
        lines, shares = list(runs), dict[str, float]()
        columns = {name: [getattr(run, name) for run in lines if getattr(run, name) >= 0] for name in BUDGET}
        for term, most in (pair for run in lines for pair in json.loads(run.shares).items()):
            shares[term] = max(most, shares.get(term, 0.0))
        budget = {name: float(median(values)) for name, values in columns.items() if values}
        return cls(budget, tuple(run.minutes for run in lines), shares)

    @classmethod
    def by(cls, result: Result) -> Spent:
        return cls.of(lines_of(frames_of([result]).runs))

    def texts(self) -> dict[str, str]:
        """The budget in words, and the median and range of minutes."""
        texts = {name: f"{self.budget[name]:,.0f}" for name in BUDGET if name in self.budget}
        texts |= {"flops": f"{self.budget['flops']:.3g}"} if "flops" in texts else {}
        some = [f"{value:.2g}" for value in (median(self.minutes), min(self.minutes), max(self.minutes))]
        ends = f" ({some[1]} to {some[2]})" if some[1] != some[2] else ""
        return {**{BUDGET[name]: text for name, text in texts.items()}, MINUTES: f"{some[0]}{ends}"}


NOTHING = Spent()


def powerless(row: Row, other: Row) -> str:
    """`cannot show anything: cons carries 0.1 % of the gradient`, of two rows one of which lacks only such terms."""
    removed = removed_terms(row, other) or removed_terms(other, row)
    if not removed or max(removed.values()) >= LEAST_SHARE:
        return ""
    listed = " and ".join(f"{term} carries {100 * share:.1g} %" for term, share in removed.items())
    return f"cannot show anything: {listed} of the gradient"


def removed_terms(full: Row, other: Row) -> dict[str, float]:
    """The largest shares of the terms that another row lacks, if it differs in `without` and weights of 0 alone."""
    variants = full.label.parsed, other.label.parsed
    if None in variants or full.label._replace(variant="") != other.label._replace(variant=""):
        return {}
    mine, theirs = (dict(variant.options) for variant in variants if variant)
    changed = {name: value for name, value in theirs.items() if mine.get(name) != value}
    same = len({(variant.name, variant.reading) for variant in variants if variant}) == 1
    zeros = all(name == "without" or value == "0" for name, value in changed.items())
    if not (same and zeros and mine.keys() <= theirs.keys()):
        return {}
    gone, left = changed.get("without", "").split("+"), other.spent.shares
    return {term: share for term, share in full.spent.shares.items() if term in gone or (left and not left.get(term))}
