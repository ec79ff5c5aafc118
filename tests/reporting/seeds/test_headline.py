from __future__ import annotations

import pytest
from builders import over_seeds, tables

from harness.reporting.seeds.forest import forests, headline, lead_text
from harness.reporting.seeds.words import Sentence

LOW, HIGH = [20.0, 24.0, 22.5], [70.0, 73.0, 72.2]
HIGHER = [80.0, 83.0, 82.2]


def say(results: list) -> list[Sentence]:
    return [one for table in tables(results) for forest in forests(table, fewest=1) for one in headline(forest)]


def lead(**scores: list[float]) -> str:
    runs = [one for name, values in scores.items() for one in over_seeds(name, values)]
    (forest,) = forests(tables(runs)[0], fewest=1)
    return lead_text(forest)


def test_the_leader_is_compared_with_the_next_method_and_with_the_baseline() -> None:
    said = lead(simcse=LOW, mcse=HIGHER, dalr=HIGH)
    assert said.startswith("MCSE leads on toy / toy-bert, profile tiny (sts average) with 81.73 ± 1.55 points")
    assert (
        "10.00 better than DALR, the next method (95 % interval 6.48 to 13.52, p = 0.0014 in a test of the two alone)"
        in said
    )
    assert "59.57 better than SimCSE, the baseline" in said


def test_variants_of_the_leader_are_not_the_next_method() -> None:
    runs = over_seeds("mcse", HIGHER) + over_seeds("mcse[lambda=1]", HIGHER[::-1]) + over_seeds("simcse", LOW)
    (first, *_) = say(runs)
    assert "better than SimCSE, the baseline (" in first.text
    assert "λ" not in first.text


def test_a_mean_that_may_be_ahead_by_chance_does_not_lead() -> None:
    said = lead(simcse=LOW, mcse=[21.0, 24.0, 23.0])
    assert said.startswith("MCSE has the best mean on ")
    assert "0.50 better than SimCSE, the baseline" in said
    assert "not significant" in said


@pytest.mark.parametrize("scores", [{"simcse": LOW[:2], "mcse": HIGH[:2]}, {"simcse": LOW, "mcse": HIGH[:1]}])
def test_fewer_than_three_seeds_claim_nothing(scores: dict[str, list[float]]) -> None:
    said = lead(**scores)
    assert "MCSE scores 7" in said
    assert "too few to compare" in said
    assert not any(word in said for word in ("leads", "better", "best"))


def test_one_method_alone_is_only_told() -> None:
    assert lead(mcse=HIGH).endswith("; no other method has been run there.")
    assert lead(simcse=LOW, mcse=LOW).startswith("MCSE and SimCSE have the same scores ") or lead(
        simcse=LOW, mcse=LOW
    ).startswith("SimCSE and MCSE have the same scores ")


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
    results = over_seeds("mcse[images=shuffled]", control) + over_seeds("mcse", HIGH) + over_seeds("simcse", LOW)
    (sentence,) = [one for one in say(results) if one.text.startswith("Control: ")]
    assert sentence.text.startswith("Control: MCSE, shuffled images ")
    assert sentence.text.endswith(meaning)


def test_a_control_keeps_the_other_options() -> None:
    results = over_seeds("mcse[images=shuffled,lambda=1]", LOW) + over_seeds("mcse[lambda=1]", HIGH)
    results += over_seeds("mcse", LOW) + over_seeds("simcse", LOW)
    (sentence,) = [one for one in say(results) if one.text.startswith("Control: ")]
    assert " below MCSE, λ = 1 (" in sentence.text


def test_a_gain_that_only_other_methods_weaken_is_better_alone() -> None:
    scores = {"simcse": [70.0, 70.4, 70.8], "mcse": [71.2, 71.6, 72.0]}
    assert lead(**scores).startswith("MCSE leads on ")
    more = {name: [70.1, 70.4, value] for name, value in (("dalr", 70.7), ("kdmcse", 70.8))}
    assert "better alone (p = 0.0213), not after correction over 3 tests" in lead(**scores, **more)


def test_a_control_without_its_method_says_nothing_about_it() -> None:
    results = over_seeds("mcse[images=random]", LOW) + over_seeds("simcse", LOW[::-1])
    assert len(say(results)) == 1
