"""Tunings at equal budgets: what is typed, drawn and kept."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from builders import result
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import plan
from harness.errors import UserError
from harness.spec import Variant
from harness.store import Store
from harness.store.tunings import (
    Tuning,
    make_tuning,
    read_tunings,
    resume_tuning,
    save_tuning,
    start_search,
)

RECORDED = Path(__file__).parents[2] / "results" / "tuning"
GRID = "mcse:lambda=0.01|0.1|1,temperature=0.05|0.1"


def drawn(text: str, trials: int) -> tuple[str, ...]:
    (method,) = make_tuning("tiny", {}, [text], trials).methods
    return method.trials


@settings(max_examples=25)
@given(
    st.sets(st.integers(1, 30), min_size=1, max_size=5),
    st.sets(st.integers(1, 30), min_size=1, max_size=5),
)
def test_a_whole_grid_is_drawn_once_each_and_fewer_trials_are_its_first(
    a: set[int], b: set[int]
) -> None:
    text = f"mcse[margin=2]:lambda={'|'.join(map(str, a))},temperature={'|'.join(map(str, b))}"
    every = {
        str(Variant.make("mcse", {"margin": 2, "lambda": x, "temperature": y}))
        for x, y in product(a, b)
    }
    trials = drawn(text, len(every))
    assert set(trials) == every
    assert all(drawn(text, n) == trials[:n] for n in range(1, len(trials)))


def test_the_draw_depends_on_what_is_meant_not_on_how_it_is_typed() -> None:
    assert drawn(GRID, 4) == drawn("mcse: temperature=0.10|5e-2 , lambda=1.0|0.1|0.01", 4)
    assert drawn(GRID, 4) != drawn(GRID.replace("mcse", "kdmcse"), 4)


def test_a_range_is_drawn_evenly_on_a_logarithmic_scale() -> None:
    trials = [
        dict(Variant.parse(text).options)
        for text in drawn("mcse:learning_rate=1e-5..1e-3,lambda=1|2", 200)
    ]
    rates = [float(options["learning_rate"]) for options in trials]
    assert 1e-5 <= min(rates) <= max(rates) <= 1e-3
    assert 70 < sum(rate < 1e-4 for rate in rates) < 130
    assert {options["lambda"] for options in trials} == {"1", "2"}


@pytest.mark.parametrize("method", ["simcse", "mcse", "kdmcse", "dalr"])
def test_a_few_draws_are_spread_over_their_range(method: str) -> None:
    def parts(trials: tuple[str, ...], key: str, low: float, high: float) -> set[int]:
        values = [float(dict(Variant.parse(trial).options)[key]) for trial in trials]
        shares = [math.log(value / low) / math.log(high / low) for value in values]
        return {int(share * len(trials)) for share in shares}

    alone = f"{method}:temperature=0.02..0.1"
    assert parts(drawn(alone, 2), "temperature", 0.02, 0.1) == {0, 1}
    assert len(drawn(alone, 3)) == 3
    both = drawn(f"{alone},learning_rate=1e-5..1e-3,dropout=0|0.1", 4)
    assert parts(both, "temperature", 0.02, 0.1) == {0, 1, 2, 3}
    assert parts(both, "learning_rate", 1e-5, 1e-3) == {0, 1, 2, 3}
    listed = [dict(Variant.parse(trial).options)["dropout"] for trial in both]
    assert sorted(listed) == ["0", "0", "0.1", "0.1"]


def test_a_stored_tuning_keeps_the_trials_that_an_earlier_version_drew(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tuning = make_tuning("tiny", {}, ["simcse:temperature=0.02..0.1"], 2)
    trials = ("simcse[temperature=0.0208]", "simcse[temperature=0.023]")
    methods = (tuning.methods[0].model_copy(update={"trials": trials}),)
    earlier = tuning.model_copy(update={"methods": methods})
    save_tuning(store, earlier)
    assert resume_tuning(store, tuning) == earlier
    planned = plan("tiny", tune="simcse:temperature=0.02..0.1", trials=2, seeds=1, results=tmp_path)
    assert {run.key.partition("/")[0] for run in planned.runs} == {*trials}

    other = make_tuning("tiny", {}, ["simcse:temperature=0.02..0.2"], 2)
    assert resume_tuning(store, other) == other


def test_the_recorded_tunings_are_those_of_their_commands() -> None:
    store = Store(RECORDED)
    tunings, problems = read_tunings(store)
    assert (len(tunings), problems) == (2, [])
    for recorded in tunings:
        texts = [method.typed for method in recorded.methods]
        again = make_tuning(recorded.profile, recorded.overrides, texts, recorded.trials)
        assert resume_tuning(store, again) == recorded


@pytest.mark.parametrize(
    ("texts", "trials", "said"),
    [
        (
            ["mcse:lambda=0.1|1|1.0"],
            3,
            "mcse has 2 configurations, fewer than 3 trials; list more, or give --trials 2",
        ),
        ([GRID, "simcse:temperature=1"], 6, "simcse has 1 configuration, fewer than 6 trials"),
        ([GRID, GRID], 2, "--tune names mcse twice"),
        ([GRID], 0, "--trials 0 is not a number of trials"),
        (["mcse"], 1, "--tune 'mcse' names no values; write METHOD:key=VALUE|VALUE"),
        (["mcse:lambda"], 1, "names no values"),
        (["mcse[lambda=1]:lambda=2|3"], 1, "sets 'lambda' twice"),
        (["mcse:lambda=3..1"], 1, "3..1 is not a range of positive numbers"),
        (["mcse:lambda=a..b"], 1, "a..b is not a range of positive numbers"),
        (["mcse:lambda=1..1.0001"], 3, "has too narrow a range for 3 trials"),
        (["mcse[:lambda=1"], 1, "unbalanced brackets"),
    ],
)
def test_mistakes_are_one_line(texts: list[str], trials: int, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        make_tuning("tiny", {}, texts, trials)


def test_a_tuning_is_kept_by_its_content(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert read_tunings(store) == ([], [])
    tuning = make_tuning("tiny", {"steps": 5}, [GRID, "kdmcse:margin=0.1|0.2|0.3"], 2)
    for _ in range(2):
        save_tuning(store, tuning)
    assert read_tunings(store) == ([tuning], [])
    (path,) = (tmp_path / "tunings").iterdir()
    assert path.stem == tuning.key
    assert store.files() == []
    whole = path.read_bytes()
    for good, bad in ((b'"trials"', b'"trails"'), (b'"kdmcse"', b'"not a method"')):
        path.write_bytes(whole.replace(good, bad, 1))
        tunings, (problem,) = read_tunings(store)
        assert not tunings
        assert problem.startswith(f"the tuning {path} cannot be used")


def rounds(
    text: str, trials: int, sampler: str, score: Callable[[dict[str, str]], float]
) -> list[Tuning]:
    """All rounds of a search whose trials score by their options, in two seeds that differ."""
    pytest.importorskip("optuna", reason="optuna is not installed; searches were not tested")
    made = [start_search(make_tuning("tiny", {}, [text], trials), sampler, "toy/toy-bert")]
    while len(made) < 2 or made[-1] != made[-2]:
        options = {trial: dict(Variant.parse(trial).options) for trial in made[-1].variants}
        scores = [
            (trial, seed, score(given) + seed)
            for trial, given in options.items()
            for seed in range(2)
        ]
        made.append(
            made[-1].next_round(
                [result(trial, seed, dev=(0.0, best)) for trial, seed, best in scores]
            )
        )
    return made[:-1]


RATES = "mcse:learning_rate=1.23456e-5..1e-3,lambda=0.01|0.1|1"


@pytest.mark.parametrize("sampler", ["tpe", pytest.param("gp", marks=pytest.mark.long)])
def test_a_search_draws_first_then_follows_the_scores(sampler: str) -> None:
    def score(options: dict[str, str]) -> float:
        return -abs(math.log10(float(options["learning_rate"]) / 1e-4)) - abs(
            math.log10(float(options["lambda"]) / 0.1)
        )

    searched = rounds(RATES, 20, sampler, score)
    assert [len(each.variants) for each in searched] == list(range(5, 21)), (
        "one more trial in each round"
    )
    assert searched == rounds(RATES, 20, sampler, score)
    trials = searched[-1].variants
    assert (tuple(trials[:5]), len({*trials})) == (drawn(RATES, 5), 20)
    best = [
        max(score(dict(Variant.parse(trial).options)) for trial in some)
        for some in (trials, drawn(RATES, 20))
    ]
    assert best[0] > best[1], "better than as many draws"
    assert (
        trials[5:] != rounds(RATES, 20, sampler, lambda options: -score(options))[-1].variants[5:]
    )


def test_a_search_of_a_whole_grid_tries_each_once_even_if_its_sampler_repeats_itself() -> None:
    text = "mcse:temperature=0.1|0.2|0.3,without=b+a|c|b"  # terms are sorted in a trial
    (*_, last) = rounds(text, 9, "tpe", lambda options: float(options["temperature"] == "0.1"))
    assert {*last.variants} == {*drawn(text, 9)}


def test_a_search_has_one_file_in_all_rounds_and_goes_on_from_the_longest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second, third = (
        rounds(GRID, 6, "tpe", lambda options: 0.0)[:1]
        + rounds(RATES, 7, "tpe", lambda options: 0.0)[1:]
    )
    assert resume_tuning(store, second) == second
    for each, kept in ((second, second), (third, third), (second, third)):
        save_tuning(store, each)
        assert read_tunings(store) == ([kept], [])
    assert resume_tuning(store, second) == third
    assert resume_tuning(store, first) == first, "another search"
    assert second.next_round([result(trial) for trial in second.variants[1:]]) == second, (
        "a trial has no result yet"
    )


def test_without_optuna_a_search_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        UserError, match=re.escape("--sampler tpe needs Optuna; install it with `pip install ")
    ):
        start_search(make_tuning("tiny", {}, [GRID], 2), "tpe", "toy/toy-bert")
