"""What the runs of a row read and computed, and the parts of their loss terms in gradients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import nan
from statistics import median
from typing import NamedTuple

from harness.store import Frames

#: numbers of a budget: column of the frame of runs -> its words
BUDGET = {
    "steps": "steps",
    "text_rows": "rows of text",
    "other_rows": "rows of images or audio",
    "flops": "FLOPs",
    "peak_memory_mb": "peak MB",
}
MINUTES = "minutes (this machine)"


#: JSON texts in columns of frames, of which many are equal; what it returns is not to be changed
read_json = lru_cache(maxsize=4096)(json.loads)


class Spent(NamedTuple):
    """Medians over runs by name of BUDGET, without those that results of schema 4 lack, and each
    training's minutes.

    `shares` has the largest share of the gradient that each loss term had in a batch of any run.
    """

    budget: Mapping[str, float] = {}
    minutes: tuple[float, ...] = ()
    shares: Mapping[str, float] = {}

    @classmethod
    def of(cls, frames: Frames, runs: Sequence[int]) -> Spent:
        """What runs have spent, which are rows of frames."""
        numbers = {name: frames.numbers[name][[*runs]].tolist() for name in (*BUDGET, "minutes")}
        columns = {name: [number for number in numbers[name] if number >= 0] for name in BUDGET}
        budget = {name: float(median(values)) for name, values in columns.items() if values}
        shares = [read_json(frames.table["shares"][row].as_py()) for row in runs]
        most = {term: max(one.get(term, 0.0) for one in shares) for each in shares for term in each}
        return cls(budget, tuple(numbers["minutes"]), most)

    def numbers(self) -> dict[str, float]:
        """The budget and the median of minutes, by their words."""
        minutes = {MINUTES: median(self.minutes)} if self.minutes else {}
        return {BUDGET[name]: value for name, value in self.budget.items()} | minutes

    def texts(self) -> dict[str, str]:
        """The budget in words, and the median and range of minutes."""
        texts = {BUDGET[n]: f"{v:,.0f}" if v < 1e9 else f"{v:.3g}" for n, v in self.budget.items()}
        middle, low, high = (f"{of(self.minutes or [nan]):.2g}" for of in (median, min, max))
        return {**texts, MINUTES: middle if low == high else f"{middle} ({low} to {high})"}
