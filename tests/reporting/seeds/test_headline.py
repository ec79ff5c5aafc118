"""The sentences on a leaderboard: who leads, the untrained encoder, and controls."""

from __future__ import annotations

import pytest
import scipy.stats
from builders import over_seeds, tables

from harness.reporting.sections.ranking import rank_tables
from harness.reporting.seeds.gains import describe_lead, make_forests, make_headline
from harness.store import Result

LOW, HIGH = [20.0, 24.0, 22.5], [70.0, 73.0, 72.2]
HIGHER = [80.0, 83.0, 82.2]
BAR = over_seeds("none[pooling=mean]", [50.0], setting="none")


def say(results: list[Result], *begins: str) -> list[str]:
    """The sentences that begin so."""
    every = (
        sentence
        for table in tables(results)
        for forest in make_forests(table, fewest=1)
        for sentence in make_headline(forest)
    )
    return [sentence.text for sentence in every if sentence.text.startswith(begins or "")]


def on_untrained(results: list[Result]) -> list[str]:
    return say(results, "The untrained encoder ", "Every trained variant ")


def lead(**scores: list[float]) -> str:
    runs = [run for name, values in scores.items() for run in over_seeds(name, values)]
    (forest,) = make_forests(tables(runs)[0], fewest=1)
    return describe_lead(forest)


def test_the_leader_is_compared_with_the_next_method_and_with_the_baseline() -> None:
    said = lead(simcse=LOW, mcse=HIGHER, dalr=HIGH)
    assert said.startswith(
        "MCSE leads on toy / toy-bert, profile tiny (STS average) with 81.73 ± 1.55 points"
    )
    assert (
        "10.00 better than DALR, the next method (95 % interval 6.48 to 13.52; better, p = 0.0014, tested alone)"
        in said
    )
    assert "59.57 better than SimCSE, the baseline" in said


def test_variants_of_the_leader_are_not_the_next_method() -> None:
    runs = (
        over_seeds("mcse", HIGHER)
        + over_seeds("mcse[lambda=1]", HIGHER[::-1])
        + over_seeds("simcse", LOW)
    )
    first, *_ = say(runs)
    assert "better than SimCSE, the baseline (" in first
    assert "λ" not in first


def test_a_mean_that_may_be_ahead_by_chance_does_not_lead() -> None:
    said = lead(simcse=LOW, mcse=[21.0, 24.0, 23.0])
    assert said.startswith("MCSE has the best mean on ")
    assert "0.50 better than SimCSE, the baseline" in said
    assert "not significant" in said


@pytest.mark.parametrize(
    "scores", [{"simcse": LOW[:2], "mcse": HIGH[:2]}, {"simcse": LOW, "mcse": HIGH[:1]}]
)
def test_fewer_than_three_seeds_claim_nothing(scores: dict[str, list[float]]) -> None:
    said = lead(**scores)
    assert "MCSE scores 7" in said
    counts = [len(values) for values in (scores["mcse"], scores["simcse"])]
    seeds = f"{counts[0]} and {counts[1]} seeds"
    assert f"{seeds}, too few to compare (3 each are the fewest)" in said
    assert not any(word in said for word in ("leads", "better", "best"))


def test_a_method_with_one_seed_does_not_silence_the_others() -> None:
    said = lead(simcse=LOW, mcse=HIGHER, dalr=[95.0])
    assert said.startswith("MCSE leads on toy / toy-bert")
    assert "59.57 better than SimCSE" in said
    assert said.endswith(" Too few seeds to compare: DALR 95.00 points of Spearman (1 seed).")


def test_one_method_alone_is_only_told() -> None:
    assert lead(mcse=HIGH).endswith("; no other method has been run there.")
    orders = "MCSE and SimCSE have the same scores ", "SimCSE and MCSE have the same scores "
    assert lead(simcse=LOW, mcse=LOW).startswith(orders)


@pytest.mark.parametrize(
    ("control", "meaning"),
    [
        (LOW, "; the gain depends on matching features."),
        (HIGH, "; no evidence that matching features matter."),
        ([90.0, 91.0, 92.0], "; scrambled features do better than matching ones."),
        ([70.0], "too few seeds to test)."),
    ],
)
def test_controls_are_compared_with_their_own_method(control: list[float], meaning: str) -> None:
    results = (
        over_seeds("mcse[images=shuffled]", control)
        + over_seeds("mcse", HIGH)
        + over_seeds("simcse", LOW)
    )
    (text,) = say(results, "Control: ")
    assert text.startswith("Control: training on unmatched images (MCSE, shuffled images) ")
    assert text.endswith(meaning)


def test_a_control_keeps_the_other_options() -> None:
    results = over_seeds("mcse[images=shuffled,lambda=1]", LOW) + over_seeds("mcse[lambda=1]", HIGH)
    results += over_seeds("mcse", LOW) + over_seeds("simcse", LOW)
    (text,) = say(results, "Control: ")
    assert " below MCSE, λ = 1 (" in text
    alone = over_seeds("mcse[images=random]", LOW) + over_seeds("simcse", LOW[::-1])
    assert say(alone, "Control: ") == [], "a control without its method says nothing about it"


def test_the_untrained_encoder_is_said_to_be_ahead_or_behind_and_how_certainly() -> None:
    runs = (
        over_seeds("simcse", LOW)
        + over_seeds("mcse", HIGH)
        + over_seeds("kdmcse", [49.0, 50.5])
        + BAR
    )
    other = over_seeds("simcse", [1.0, 2.0, 3.0], setting="a")
    first, second = on_untrained(other + runs)
    assert "beats the one trained variant: SimCSE (1 significantly" in first
    assert second == (
        "The untrained encoder beats 2 of 3 trained variants: SimCSE; KDMCSE (1 significantly, one-sample "
        "t-tests with Holm's correction; 1 with too few seeds to test): untrained 50.00 (untrained, mean), best "
        "trained 71.73 ± 1.55 (MCSE), points of Spearman, STS average."
    )
    (chance,) = on_untrained(over_seeds("simcse", [49.9, 50.3, 49.5]) + BAR)
    assert chance.startswith(
        "The untrained encoder beats the one trained variant: SimCSE (none significantly, one-"
    )
    (behind,) = on_untrained(over_seeds("simcse", HIGH) + BAR)
    assert behind.startswith("Every trained variant beats the untrained encoder: untrained 50.00 (")
    assert max(scipy.stats.ttest_1samp(values, 50.0).pvalue for values in (LOW, HIGH)) < 0.025


def test_the_untrained_encoder_is_read_at_its_best_pooling_and_another_than_the_trained_is_named() -> (
    None
):
    def untrained(pooling: str, score: float) -> list[Result]:
        values = {"method": {"pooling": pooling}, "training": {}, "encoder": {"pooling": pooling}}
        return over_seeds(
            f"none[pooling={pooling}]", [score], setting="none", hyperparameters=values
        )

    runs = (
        over_seeds("simcse", LOW)
        + over_seeds("mcse", HIGH)
        + untrained("cls", 10.0)
        + untrained("mean", 90.0)
    )
    (table,) = tables(runs)
    (text,) = on_untrained(runs)
    assert text.startswith(
        "The untrained encoder beats all 2 trained variants: SimCSE; MCSE (2 significantly, "
    )
    assert (
        "untrained 90.00 (untrained, mean), at another pooling than the trained, best trained 71.73"
        in text
    )
    (forest,) = make_forests(table)
    assert describe_lead(forest).startswith("MCSE has the best mean on toy / toy-bert")
    assert (
        "A control is not beaten: the untrained encoder (untrained, mean) scores 90.00, 18.27 above MCSE"
        in describe_lead(forest)
    )
    assert [gain.kind for gain in forest.gains] == [
        "other pooling",
        "better",
        "baseline",
        "untrained",
    ]
    more = over_seeds("simcse", LOW, setting="wiki") + over_seeds("mcse", HIGH, setting="wiki")
    third = [run for place in ("toy", "wiki") for run in over_seeds("dalr", LOW, setting=place)]
    (ranking,) = rank_tables(tables(runs + more + third))
    assert "Read by another pooling than most trained variants: untrained, mean." in ranking.notes
