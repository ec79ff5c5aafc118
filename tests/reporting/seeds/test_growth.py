"""The work of tables, rankings and comparisons grows with the number of runs, not with its square."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import pytest
from builders import result, tables

from harness.reporting.seeds.gains import forests, headline
from harness.reporting.seeds.lookup import compare_variants
from harness.store import Result


def runs(variants: int) -> list[Result]:
    """Two settings with the baseline and other variants, two seeds each."""
    names = ["simcse", *(f"mcse[lambda={number}]" for number in range(1, variants))]
    return [result(name, seed, setting=where) for where in ("a", "b") for name in names for seed in (0, 1)]


def calls(work: Callable[[], object]) -> int:
    """The number of function calls, generators' steps among them."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    "work",
    [
        lambda some: [headline(forest) for table in tables(some) for forest in forests(table)],
        lambda some: compare_variants(some, "mcse[lambda=1]", "simcse", "sts.Avg", setting="a"),
    ],
    ids=["tables and sentences", "comparison"],
)
def test_four_times_the_variants_are_four_times_the_work(work: Callable[[list[Result]], object]) -> None:
    work(runs(3))  # imports
    few, many = runs(25), runs(100)
    assert calls(lambda: work(many)) < 4.6 * calls(lambda: work(few))
