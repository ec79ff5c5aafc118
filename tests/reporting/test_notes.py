"""Each note of a report is there where it is true, and goes where it is false."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import Split, over_seeds, result, split, sts

from harness.reporting.charts.glance import draw_forest
from harness.reporting.contents import Contents
from harness.reporting.sections.base import make_sections
from harness.reporting.sections.papers import PapersSection
from harness.reporting.seeds.gains import make_forests
from harness.reporting.tables.grids import make_summary_grid
from harness.store import Evaluation, Result, Store

HIGH, LOW = [70.0, 73.0, 72.2], [50.0, 53.0, 52.1]
SEEN: Split = {"ToySTS": (300, 60.0, 200, 50.0)}
FEW_SEEN: Split = {"ToySTS": (20, 60.0, 480, 50.0)}
UNSEEN: Split = {"ToySTS": (0, None, 500, 50.0)}
HEALTHY, COLLAPSED = {"alignment": 0.4, "uniformity": -2.5}, {"alignment": 0.0, "uniformity": -0.6}


def notes(results: Sequence[Result]) -> Iterator[str]:
    """Every note of a report: of its sections, their tables, and the tables and charts of profiles.

    The section of papers is left out: it has none of these notes and takes most of the time.
    """
    contents = Contents(Store(Path("nowhere")), results)
    for section in make_sections(contents):
        if isinstance(section, PapersSection):
            continue
        yield from section.notes
        for grid in section.grids:
            yield from grid.notes
    for table in contents.tables:
        yield from make_summary_grid(table).remarks
        for forest in make_forests(table, fewest=1):
            yield draw_forest(forest).text


def said(fragment: str, results: Sequence[Result]) -> bool:
    return any(fragment in note for note in notes(results))


def with_seen(
    variant: str, pairs: Split, seeds: Sequence[int] = (0, 1), **more: Any
) -> list[Result]:
    return [split(variant, seed, pairs, **more) for seed in seeds]


def shaped(losses: dict[str, float]) -> list[Result]:
    scores = {"geometry": {"ToySTS": losses, "Avg": losses}}
    return [result(name, seed, scores) for name in ("mcse", "simcse") for seed in range(3)]


def other_suite(seeds: Sequence[int]) -> list[Result]:
    """SimCSE evaluated on another suite alone."""
    scores = {"geometry": {"ToySTS": HEALTHY, "Avg": HEALTHY}}
    return [result("simcse", seed, scores) for seed in seeds]


def on_two_suites(pairs: Split) -> list[Result]:
    """MCSE and SimCSE with seen pairs of STS, and other pairs of the multilingual tests."""
    runs = []
    for run in [*with_seen("mcse", SEEN), *with_seen("simcse", SEEN)]:
        first: Evaluation = run.evaluations[0]
        other = split(str(run.spec.variant), run.spec.seed, pairs).evaluations[0]
        second = other.model_copy(update={"suite": "stsb-multi"})
        runs.append(run.model_copy(update={"evaluations": [first, second]}))
    return runs


Runs = Callable[[], list[Result]]
#: a note, results of which it is true, and results of which it is false
NOTES: list[tuple[str, Runs, Runs]] = [
    (
        "STS: training read no sentence of a test pair in toy / toy-bert (profile tiny)",
        lambda: with_seen("mcse", UNSEEN),
        lambda: with_seen("mcse", SEEN),
    ),
    (
        "Multilingual STS-B: training read no sentence of a test pair",
        lambda: on_two_suites(UNSEEN),
        lambda: on_two_suites(SEEN),
    ),
    (
        "seen pairs say nothing about a method",
        lambda: with_seen("mcse", FEW_SEEN) + with_seen("simcse", FEW_SEEN),
        lambda: with_seen("mcse", SEEN) + with_seen("simcse", SEEN),
    ),
    (
        "Not compared, no matching run of SimCSE",
        lambda: with_seen("mcse", SEEN),
        lambda: with_seen("mcse", SEEN) + with_seen("simcse", SEEN),
    ),
    (
        "Not compared, no seed in common with SimCSE",
        lambda: with_seen("mcse", SEEN, [0]) + with_seen("simcse", SEEN, [1]),
        lambda: with_seen("mcse", SEEN, [0]) + with_seen("simcse", SEEN, [0, 1]),
    ),
    (
        "Not compared, the numbers of seen pairs differ",
        lambda: with_seen("mcse", FEW_SEEN) + with_seen("simcse", SEEN),
        lambda: with_seen("mcse", SEEN) + with_seen("simcse", SEEN),
    ),
    (
        "Not compared, SimCSE was evaluated with another version",
        lambda: with_seen("mcse", SEEN) + with_seen("simcse", SEEN, version=2),
        lambda: with_seen("mcse", SEEN) + with_seen("simcse", SEEN),
    ),
    (
        "Not tested, fewer than 3 seeds",
        lambda: over_seeds("mcse", HIGH[:2]) + over_seeds("simcse", LOW),
        lambda: over_seeds("mcse", HIGH) + over_seeds("simcse", LOW),
    ),
    (
        "Not tested, no run of SimCSE",
        lambda: over_seeds("mcse", HIGH) + over_seeds("dalr", LOW),
        lambda: over_seeds("mcse", HIGH) + over_seeds("simcse", LOW),
    ),
    (
        "Not tested, SimCSE has no sts score",
        lambda: over_seeds("mcse", HIGH) + other_suite([0, 1, 2]),
        lambda: over_seeds("mcse", HIGH) + over_seeds("simcse", LOW),
    ),
    (
        "Not tested, the same scores as SimCSE",
        lambda: over_seeds("mcse", HIGH) + over_seeds("simcse", HIGH),
        lambda: over_seeds("mcse", HIGH) + over_seeds("simcse", LOW),
    ),
    (
        "collapsed in seeds 0, 1, 2",
        lambda: shaped(COLLAPSED),
        lambda: shaped(HEALTHY),
    ),
    (
        "selected on ToySTS-dev",
        lambda: [result("mcse", 0, sts(**{"ToySTS-dev": 70.0}))],
        lambda: [result("mcse", 0, sts(ToySTS=70.0))],
    ),
    (
        "of another group",
        lambda: over_seeds("mcse", HIGH) + over_seeds("mcse", LOW, data="second"),
        lambda: over_seeds("mcse", HIGH),
    ),
    (
        "There is no SimCSE run to compare",
        lambda: over_seeds("mcse", HIGH) + over_seeds("dalr", LOW),
        lambda: over_seeds("mcse", HIGH) + over_seeds("simcse", LOW),
    ),
    (
        "SimCSE has no score in STS",
        lambda: over_seeds("mcse", HIGH) + over_seeds("dalr", LOW) + other_suite([0, 1, 2]),
        lambda: over_seeds("mcse", HIGH) + over_seeds("dalr", LOW),
    ),
    (
        "SimCSE alone has been trained here",
        lambda: over_seeds("simcse", HIGH),
        lambda: over_seeds("simcse", HIGH) + over_seeds("mcse", LOW),
    ),
]


@pytest.mark.parametrize(
    ("fragment", "where_true", "where_false"), NOTES, ids=[n for n, *_ in NOTES]
)
def test_a_note_is_there_where_it_is_true_and_goes_where_it_is_false(
    fragment: str, where_true: Runs, where_false: Runs
) -> None:
    assert said(fragment, where_true())
    assert not said(fragment, where_false())
