from __future__ import annotations

from typing import Any

import pytest
from builders import frame, over_seeds, result, sts, tables

from harness.papers.published import read_papers, read_published
from harness.reporting.seeds.headline import headline
from harness.reporting.seeds.words import Sentence
from harness.reporting.tables.filled import paper_tables

LOW, HIGH = [20.0, 24.0, 22.5], [70.0, 73.0, 72.2]


def say(results: list) -> list[Sentence]:
    return headline(tables(results), [])


def test_a_significant_gain_is_said_with_size_seeds_and_p() -> None:
    (sentence,) = say(over_seeds("mcse", HIGH) + over_seeds("simcse", LOW))
    assert sentence == Sentence(
        "toy / toy-bert, profile tiny",
        "MCSE beats SimCSE by 49.57 points of Spearman (sts average, 3 seeds each, p < 0.0001, "
        "95 % interval 45.48 to 53.65).",
        "better",
    )


def test_a_significant_loss_is_said_as_one() -> None:
    (sentence,) = say(over_seeds("mcse", LOW) + over_seeds("simcse", HIGH))
    assert sentence.kind == "worse"
    assert sentence.text.startswith("MCSE trails SimCSE by 49.57 points")


def test_chance_is_not_called_a_gain() -> None:
    (sentence,) = say(over_seeds("mcse", [21.0, 24.0, 23.0]) + over_seeds("simcse", LOW))
    assert sentence.kind == "even"
    assert sentence.text.startswith(
        "MCSE scores 0.50 points of Spearman higher than SimCSE (sts average, 3 seeds each, not "
    )


def test_what_rounds_to_nothing_has_no_direction() -> None:
    (sentence,) = say(over_seeds("mcse", [value - 0.001 for value in LOW]) + over_seeds("simcse", LOW))
    assert sentence.text.startswith("MCSE and SimCSE differ by 0.00 points of Spearman (sts average,")


def test_one_seed_is_not_tested() -> None:
    (sentence,) = say(over_seeds("mcse", [70.0]) + over_seeds("simcse", LOW))
    assert sentence.kind == "untested"
    assert sentence.text.endswith("(sts average, 1 and 3 seeds: too few seeds to test).")


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
    (sentence,) = [one for one in say(results) if one.kind == "control"]
    assert sentence.text.startswith("Control: MCSE, shuffled images ")
    assert sentence.text.endswith(meaning)


def test_a_control_keeps_the_other_options() -> None:
    results = over_seeds("mcse[images=shuffled,lambda=1]", LOW) + over_seeds("mcse[lambda=1]", HIGH)
    results += over_seeds("mcse", LOW) + over_seeds("simcse", LOW)
    (sentence,) = [one for one in say(results) if one.kind == "control"]
    assert " trails MCSE, λ = 1 by " in sentence.text


def test_a_gain_that_only_other_methods_weaken_is_better_alone() -> None:
    runs = over_seeds("simcse", [70.0, 70.4, 70.8]) + over_seeds("mcse", [71.2, 71.6, 72.0])
    ablations = sum((over_seeds(f"mcse[lambda={n}]", [70.1, 70.4, 70.7]) for n in range(2, 5)), runs)
    (sentence,) = [one for one in say(ablations) if one.text.startswith("MCSE ")]
    assert sentence.kind == "better"
    methods = [over_seeds(name, [70.1, 70.4, value]) for name, value in (("dalr", 70.7), ("kdmcse", 70.8))]
    (sentence,) = [one for one in say(sum(methods, runs)) if one.text.startswith("MCSE ")]
    assert sentence.kind == "alone"
    assert "MCSE scores 1.20 points of Spearman higher than SimCSE" in sentence.text
    assert "better alone (p = 0.0213), not after correction over 3 tests" in sentence.text


def test_a_control_without_its_method_says_nothing_about_it() -> None:
    results = over_seeds("mcse[images=random]", LOW) + over_seeds("simcse", LOW[::-1])
    assert [sentence.kind for sentence in say(results)] == ["even"]


def test_findings_on_sts_come_before_those_of_other_suites() -> None:
    def runs(variant: str, accuracy: float, spearman: float) -> list:
        both = [{"transfer": {"acc": accuracy + n}, "sts": {"spearman": spearman + n}} for n in range(3)]
        return [
            result(variant, seed, {suite: {"T": one, "Avg": one} for suite, one in scores.items()})
            for seed, scores in enumerate(both)
        ]

    found = say(runs("mcse", 90.0, 70.1) + runs("simcse", 50.0, 70.0))
    assert [sentence.kind for sentence in found] == ["even", "better"]
    assert "sts average" in found[0].text


def test_without_a_baseline_only_the_score_is_told() -> None:
    (sentence,) = say(over_seeds("mcse", HIGH))
    assert sentence.text == (
        "MCSE scores 71.73 ± 1.55 points of Spearman (sts average, 3 seeds); not compared, no SimCSE run."
    )
    (alone,) = say(over_seeds("simcse", LOW))
    assert alone.text == "SimCSE scores 22.17 ± 2.02 points of Spearman (sts average, 3 seeds)."


def test_the_most_important_sentences_come_first() -> None:
    found = say(
        over_seeds("simcse", [70.0, 70.4, 70.8])
        + over_seeds("dalr", [70.1, 70.3, 70.9])
        + over_seeds("kdmcse", [1.0])
        + over_seeds("mcse", [81.2, 81.6, 82.0])
        + over_seeds("mcse", [81.2, 81.6, 82.0], setting="other")
    )
    assert [sentence.kind for sentence in found] == ["better", "even", "untested", "note"]


def test_nothing_is_said_of_nothing() -> None:
    assert [sentence.text for sentence in headline([], [])] == ["No results yet."]


def test_coverage_of_a_paper_counts_its_verdicts() -> None:
    scores = dict.fromkeys(["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"], 10.0)
    place: dict[str, Any] = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}
    results = [
        result("mcse", seed, sts(**{task: value + seed for task, value in scores.items()}), **place)
        for seed in (0, 1, 2)
    ]
    papers = paper_tables(read_papers(), read_published(), frame(results))
    (sentence,) = headline([], papers)
    assert sentence.place == "mcse, table 1"
    assert sentence.text == (
        "1 of 12 rows measured; of 8 testable cells, 0 reproduced within 1 point, 8 differ, 0 not distinguishable."
    )
