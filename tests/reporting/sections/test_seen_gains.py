"""Gains on test pairs that training has seen and on the others, recomputed from the stored parts."""

from __future__ import annotations

from typing import Any

import pytest
import scipy.stats
from builders import Split, frame, over_seeds, split

from harness.metrics import AVERAGE, SEEN, UNSEEN
from harness.reporting.sections.seen import SeenTable, seen_tables
from harness.store import Result, metrics_of

SEEDS = (0, 1, 2)
#: score of STS-B on seen and unseen pairs, of SICK-R on seen and unseen pairs, of STS16 on unseen pairs, by seed
SIMCSE = ((60.0, 70.0, 50.0, 65.0, 80.0), (61.0, 70.5, 52.0, 64.0, 81.0), (62.0, 69.0, 51.0, 66.0, 79.0))
MCSE = ((66.0, 71.0, 53.0, 66.0, 80.5), (65.0, 72.0, 53.5, 66.5, 80.0), (69.0, 69.5, 56.0, 66.5, 80.0))


def tasks(scores: tuple[float, ...], pairs: float = 189.0) -> Split:
    return {
        "STS-B": (pairs, scores[0], 1379 - pairs, scores[1]),
        "SICK-R": (436, scores[2], 4491, scores[3]),
        "STS16": (4, None, 1182, scores[4]),
    }


def runs(variant: str, scores: tuple[tuple[float, ...], ...], pairs: float = 189.0, **more: Any) -> list[Result]:
    return [split(variant, seed, tasks(mine, pairs), **more) for seed, mine in enumerate(scores)]


def tables(results: list[Result]) -> list[SeenTable]:
    return seen_tables(frame(results), metrics_of(results))


def stored(results: list[Result], task: str, part: str) -> list[float]:
    return [one.evaluations[0].parts[task][part]["spearman"] for one in results]


def test_scores_and_gains_are_those_of_the_stored_parts() -> None:
    base, mine = runs("simcse", SIMCSE), runs("mcse", MCSE)
    (table,) = tables([*mine, *base])
    first, second = table.rows
    assert (first.label.variant, second.label.variant) == ("simcse", "mcse")
    for task, part in [("STS-B", SEEN), ("STS-B", UNSEEN), ("SICK-R", SEEN), ("SICK-R", UNSEEN), ("STS16", UNSEEN)]:
        cell, gains = second.cells[task, part], second.cells[task, part].gains
        before, after = stored(base, task, part), stored(mine, task, part)
        assert cell.scores.values == tuple(after)
        assert gains.values == pytest.approx([a - b for a, b in zip(after, before, strict=True)])
        test = scipy.stats.ttest_rel(after, before)
        interval = test.confidence_interval(0.95)
        assert (gains.test.low, gains.test.high) == pytest.approx((interval.low, interval.high))
        assert gains.test.p == pytest.approx(test.pvalue)
        assert first.cells[task, part].gains is None
    few = second.cells["STS16", SEEN]
    assert (few.pairs.summary.mean, few.scores, few.gains) == (4.0, None, None)


def test_tasks_with_both_kinds_of_pairs_are_pooled_by_their_pairs() -> None:
    (table,) = tables([*runs("simcse", SIMCSE), *runs("mcse", MCSE)])
    assert (table.averaged, table.mean) == (("STS-B", "SICK-R"), "2 tasks, pooled")
    row = table.rows[1]
    seen, unseen = row.cells[table.mean, SEEN], row.cells[table.mean, UNSEEN]
    # by hand: the gains of STS-B and SICK-R by seed, weighted by their 189 and 436 seen, 1190 and 4491 unseen pairs
    assert seen.gains.values == pytest.approx(
        [(189 * one + 436 * other) / 625 for one, other in ((6, 3), (4, 1.5), (7, 5))]
    )
    assert unseen.gains.values == pytest.approx(
        [(1190 * one + 4491 * other) / 5681 for one, other in ((1, 1), (1.5, 2.5), (0.5, 0.5))]
    )
    assert (seen.pairs.summary.mean, unseen.pairs.summary.mean) == (189 + 436, 1190 + 4491)
    assert row.cells[AVERAGE, UNSEEN].scores is not None
    assert row.cells[AVERAGE, SEEN].scores is None, "STS16 has too few seen pairs"


def test_fewer_than_a_hundred_seen_pairs_say_nothing() -> None:
    def notes(pairs: float) -> str:
        scores = {"A": (pairs, 50.0, 500, 60.0)}
        (table,) = tables([split(name, seed, scores) for name in ("simcse", "mcse") for seed in SEEDS])
        return " ".join(table.notes())

    assert "say nothing about a method: A (99)" in notes(99)
    assert "say nothing" not in notes(100)


def test_seeds_are_paired_and_those_of_one_side_only_are_left_out() -> None:
    base, mine = runs("simcse", SIMCSE)[1:], runs("mcse", MCSE)
    (table,) = tables([*base, *mine])
    cell = table.rows[1].cells["STS-B", SEEN]
    assert (cell.scores.summary.n, cell.gains.values) == (3, (65.0 - 61.0, 69.0 - 62.0))


def problem(results: list[Result]) -> str:
    """Why the row of mcse has no gains; those of kdmcse are there."""
    (table,) = tables([*results, *runs("kdmcse", MCSE)])
    row = next(row for row in table.rows if row.label.variant == "mcse")
    assert all(cell.gains is None for cell in row.cells.values())
    assert row.cells["STS-B", SEEN].scores is not None
    (note,) = (note for note in table.notes() if note.startswith("Not compared"))
    assert note == f"Not compared, {row.problem}: {row.label.name}."
    assert table.averaged == ("STS-B", "SICK-R"), "the others are averaged over the same tasks as before"
    return row.problem


def test_a_row_is_not_compared_with_a_baseline_of_other_pairs_seeds_or_protocol() -> None:
    base = runs("simcse", SIMCSE)
    # a method that draws all captions of an image sees more pairs
    assert problem([*base, *runs("mcse", MCSE, pairs=420)]) == (
        "the numbers of seen pairs differ from those of SimCSE by more than 5%"
    )
    assert problem([*base, split("mcse", 7, tasks(MCSE[0]))]) == "no seed in common with SimCSE"
    assert problem([*base, *runs("mcse", MCSE, version=3)]) == (
        "SimCSE was evaluated with another version or other data of the suite"
    )
    assert problem([*base, *runs("mcse", MCSE, overrides={"steps": 9})]) == "no matching run of SimCSE"


def test_a_few_pairs_more_or_less_do_not_matter() -> None:
    (table,) = tables([*runs("simcse", SIMCSE), *runs("mcse", MCSE, pairs=195)])
    assert table.rows[1].problem == ""
    assert table.rows[1].cells["STS-B", SEEN].pairs.summary.mean == 195


def test_a_row_of_other_tasks_has_no_mean_over_those_it_lacks() -> None:
    results = [*runs("simcse", SIMCSE), *runs("mcse", MCSE), split("dalr", 9, {"STS16": (30, 50.0, 1156, 60.0)})]
    (table,) = tables(results)
    assert table.mean == "2 tasks, pooled"
    with_mean = [row.label.variant for row in table.rows if (table.mean, SEEN) in row.cells]
    assert with_mean == ["simcse", "mcse"]


def test_seeds_that_saw_other_pairs_are_left_out() -> None:
    mine = [*runs("mcse", MCSE)[:2], split("mcse", 2, tasks(MCSE[2], pairs=100))]
    (table,) = tables([*runs("simcse", SIMCSE), *mine])
    gains = table.rows[1].cells["STS-B", SEEN].gains
    assert gains.values == (66.0 - 60.0, 65.0 - 61.0)


def test_settings_encoders_and_profiles_have_tables_of_their_own() -> None:
    places = [("a", "x", "tiny"), ("a", "y", "tiny"), ("b", "x", "tiny"), ("a", "x", "small")]
    results = [
        split(variant, 0, tasks(MCSE[0]), setting=setting, encoder=encoder, profile=profile)
        for setting, encoder, profile in places
        for variant in ("simcse", "mcse")
    ]
    found = tables(results)
    assert [(one.setting, one.encoder, one.profile) for one in found] == [
        ("a", "x", "small"),
        ("a", "x", "tiny"),
        ("a", "y", "tiny"),
        ("b", "x", "tiny"),
    ]
    assert all(len(one.rows) == 2 for one in found)
    assert len({one.key for one in found}) == 4


def test_results_without_such_parts_have_no_table() -> None:
    assert tables(over_seeds("simcse", [1.0, 2.0])) == []
