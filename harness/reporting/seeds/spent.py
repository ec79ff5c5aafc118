"""What the runs of a row read and computed, up to the weights that are scored and in all, and the
parts of their loss terms in gradients.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import nan
from statistics import median
from typing import NamedTuple

from harness.store import COUNTED, MEASURES, Frames, scored_name

#: the measure whose values differ between seeds by the load of a machine: it is shown with its range
_TIME = "minutes"
MINUTES = MEASURES[_TIME].title
#: numbers of a budget: column of the frame of runs -> its words
BUDGET = {
    name: measure.title for name, measure in MEASURES.items() if measure.spent and name != _TIME
}
#: the columns of what is counted up to the weights that are scored -> the measure
SCORED = {scored_name(name): name for name in COUNTED}

#: JSON texts in columns of frames, of which many are equal; what it returns is not to be changed
read_json = lru_cache(maxsize=4096)(json.loads)


class Spent(NamedTuple):
    """Medians over runs by name of BUDGET, without those that results of schema 4 lack, and each
    training's minutes.

    `scored` has what is counted of a training up to the weights that are scored, by the same names.
    `shares` has the largest share of the gradient that each loss term had in a batch of any run.
    """

    budget: Mapping[str, float] = {}
    minutes: tuple[float, ...] = ()
    shares: Mapping[str, float] = {}
    scored: Mapping[str, float] = {}

    @classmethod
    def of(cls, frames: Frames, runs: Sequence[int]) -> Spent:
        """What runs have spent, which are rows of frames."""
        budget = _find_medians(frames, runs, {name: name for name in BUDGET})
        scored = _find_medians(frames, runs, SCORED)
        minutes = frames.numbers[_TIME][[*runs]].tolist()

        largest: dict[str, float] = {}
        for run in runs:
            shares = read_json(frames.table["shares"][run].as_py())
            for term, share in shares.items():
                largest[term] = max(largest.get(term, 0.0), share)
        return cls(budget, tuple(minutes), largest, scored)

    def count_scored(self, name: str) -> float:
        """A number of the budget that stands beside scores: up to the weights that are scored."""
        return self.scored.get(name, self.budget.get(name, 0.0))

    def numbers(self) -> dict[str, float]:
        """The budget up to the weights that are scored and the median of minutes, by their words."""
        numbers = {BUDGET[name]: self.count_scored(name) for name in self.budget}
        if self.minutes:
            numbers[MINUTES] = median(self.minutes)
        return numbers

    def texts(self) -> dict[str, str]:
        """The budget in words, `50 of 300` where the weights that are scored had less than all, and
        the median and range of minutes.
        """
        texts = {}
        for name, spent in self.budget.items():
            scored = _format_amount(self.count_scored(name))
            total = _format_amount(spent)
            texts[BUDGET[name]] = total if scored == total else f"{scored} of {total}"

        minutes = self.minutes or [nan]
        middle = f"{median(minutes):.2g}"
        low = f"{min(minutes):.2g}"
        high = f"{max(minutes):.2g}"
        texts[MINUTES] = middle if low == high else f"{middle} ({low} to {high})"
        return texts


def _find_medians(
    frames: Frames, runs: Sequence[int], columns: Mapping[str, str]
) -> dict[str, float]:
    """The medians over runs of columns of frames, by a name for each, without numbers that are
    missing in all of them.
    """
    medians = {}
    for column, name in columns.items():
        known_amounts = [
            number for number in frames.numbers[column][[*runs]].tolist() if number >= 0
        ]
        if known_amounts:
            medians[name] = float(median(known_amounts))
    return medians


def _format_amount(number: float) -> str:
    return f"{number:,.0f}" if number < 1e9 else f"{number:.3g}"
