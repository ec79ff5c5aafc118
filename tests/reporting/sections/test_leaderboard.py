"""The leaderboard: order, ranks, what is folded, what counts as one row, and its data for the
page's script.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import error_tables, over_seeds, result, sts

from harness.reporting.contents import Contents
from harness.reporting.sections.leaderboard import Board, LeaderboardSection, count_compared_rows
from harness.reporting.seeds.gains import make_forests
from harness.store import Result, Store

LOW, MIDDLE, HIGH = [20.0, 24.0, 22.5], [50.0, 53.0, 52.2], [70.0, 73.0, 72.2]


def boards(results: Sequence[Result]) -> Sequence[Board]:
    return LeaderboardSection("leaderboard", Contents(Store(Path("nowhere")), results)).boards


def board(**scores: list[float]) -> Board:
    (leaderboard,) = boards(
        [run for name, values in scores.items() for run in over_seeds(name, values)]
    )
    return leaderboard


def ranks(leaderboard: Board) -> list[tuple[str, str]]:
    """Each method with its rank, in order."""
    own = [entries[0].gain for entries in leaderboard.methods]
    return [(gain.row.label.method, leaderboard.rank(gain)) for gain in own]


def test_methods_are_best_first_with_their_variants_below() -> None:
    runs = over_seeds("simcse", LOW) + over_seeds("simcse@official", LOW) + over_seeds("mcse", HIGH)
    runs += over_seeds("dalr", MIDDLE)
    (leaderboard,) = boards([*runs, *over_seeds("mcse[lambda=1]", [90.0, 91.0, 92.0])])
    assert [name for name, _ in ranks(leaderboard)] == ["mcse", "dalr", "simcse"]
    first, _, last = leaderboard.methods
    assert [entry.gain.name.code for entry in first] == ["mcse", "mcse[lambda=1]"]
    assert [entry.also for entry in last] == [["@official"]], "the same scores, one row"
    assert leaderboard.names_readings, "a note explains @official"


def test_a_rank_counts_the_methods_that_are_better_by_a_test() -> None:
    near = [value + 0.3 for value in MIDDLE]
    leaderboard = board(simcse=LOW, mcse=near, dalr=MIDDLE, kdmcse=[99.0, 99.0])
    assert ranks(leaderboard) == [("kdmcse", "–"), ("mcse", "1"), ("dalr", "1"), ("simcse", "3")]
    (leaderboard,) = boards(
        over_seeds("simcse", LOW) + over_seeds("none[pooling=mean]", [99.0], setting="none")
    )
    assert ranks(leaderboard) == [("none", "–"), ("simcse", "1")]


def test_real_texts_come_before_the_toy_world_and_the_papers_profile_before_both() -> None:
    pairs = [
        (name, profile) for profile in ("tiny", "small", "paper") for name in ("simcse", "mcse")
    ]
    runs = [run for name, profile in pairs for run in over_seeds(name, HIGH, profile=profile)]
    assert [leaderboard.forest.table.profile for leaderboard in boards(runs)] == [
        "paper",
        "small",
        "tiny",
    ]


def test_gains_over_another_baseline_are_the_conclusions_on_the_two_rows() -> None:
    leaderboard = board(simcse=LOW, mcse=HIGH, dalr=MIDDLE)
    gains = leaderboard.data["gains"]
    assert set(gains) == {"SimCSE", "MCSE", "DALR"}
    assert gains["MCSE"][0][3] == "baseline"
    family = "after Holm's correction over 2 tests (methods against SimCSE)"
    assert gains["MCSE"][2][4] == f"worse, p < 0.0001 {family}"
    assert gains["SimCSE"][0][4] == f"better, p < 0.0001 {family}"
    assert gains["MCSE"][1][4].endswith(", tested alone")
    assert gains["SimCSE"][0][4] == leaderboard.words[leaderboard.methods[0][0].number][1]


def test_of_many_variants_only_the_first_have_gains_over_every_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.reporting.sections.leaderboard.MOST_COMPARED", 1)
    runs = over_seeds("simcse", LOW) + over_seeds("mcse", MIDDLE)
    runs += over_seeds("mcse[lambda=1]", [90.0, 91.0, 92.0]) + over_seeds("mcse[lambda=2]", HIGH)
    (leaderboard,) = boards(runs)
    gains = leaderboard.data["gains"]
    names = [entry.gain.name.code for entry in leaderboard.entries]
    assert names == ["mcse[lambda=1]", "mcse[lambda=2]", "mcse", "simcse"]
    assert [gain is None for gain in gains["MCSE"]] == [False, True, False, False]
    assert None not in gains["SimCSE"], "all rows have a gain over their baseline"


def test_runs_with_other_values_have_their_own_baseline() -> None:
    changed = {"overrides": {"steps": 20}}
    (leaderboard,) = boards(
        over_seeds("simcse", LOW, **changed) + over_seeds("mcse", HIGH, **changed)
    )
    gains = leaderboard.data["gains"]
    assert leaderboard.data["base"] == "SimCSE"
    assert gains["SimCSE"][0][4].startswith("better")


def test_any_two_rows_have_a_conclusion_and_their_tests() -> None:
    pairs = board(simcse=LOW, mcse=HIGH, dalr=MIDDLE[:2]).data["pairs"]
    assert set(pairs) == {"0 1", "0 2", "1 2"}
    conclusion, tests = pairs["0 2"]
    assert conclusion.startswith("mcse is better than simcse")
    assert [name for name, _ in tests][:3] == [
        f"difference, t-test{design}" for design in (" (Welch)", " (pooled)", ", paired by 3 seeds")
    ]
    assert pairs["0 1"][0].startswith("Too few seeds")
    assert pairs["0 1"][1] == []


def test_many_leaderboards_compare_fewer_rows_each() -> None:
    assert count_compared_rows([100, 7, 3]) == 40
    assert count_compared_rows([100] * 100 + [3] * 10) == 9, (
        "36 pairs in each long one, 3 in others"
    )
    assert count_compared_rows([100] * 10_000) == 2


def test_wins_are_counted_task_by_task_in_the_better_direction() -> None:
    scores = {"simcse": (10.0, 90.0, 30.0), "mcse": (20.0, 80.0, 40.0)}
    tasks = {name: dict(zip("ABC", values, strict=True)) for name, values in scores.items()}
    (first,) = boards(
        [result(name, seed, sts(**tasks[name])) for name in tasks for seed in range(3)]
    )
    assert (first.wins, len(first.tasks)) == ({"MCSE": [0, 2], "SimCSE": [1, 0]}, 3)
    for names, shown in (("AB", True), ("A", False)):
        some = [
            result(name, 0, sts(**{task: tasks[name][task] for task in names})) for name in tasks
        ]
        assert bool(boards(some)[0].wins) == shown


def test_lower_errors_are_ahead() -> None:
    (forest,) = make_forests(error_tables(simcse=0.3, mcse=0.1, dalr=0.5)[0])
    leaderboard = Board(forest, [], {})
    assert [name for name, _ in ranks(leaderboard)] == ["mcse", "simcse", "dalr"]
    assert leaderboard.words[leaderboard.methods[0][0].number][1].startswith("better")
