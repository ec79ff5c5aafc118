"""What a report says of an encoder that was not trained."""

from __future__ import annotations

import scipy.stats
from builders import over_seeds, tables

from harness.reporting.sections.ranking import ranking_tables
from harness.reporting.seeds.forest import forests, lead_text, untrained_texts
from harness.store import Result

LOW, HIGH = [20.0, 24.0, 22.5], [70.0, 73.0, 72.2]
BAR = over_seeds("none[pooling=mean]", [50.0], setting="none")


def said(results: list[Result]) -> dict[str, str]:
    """What is said of the untrained encoder, by place."""
    every = (forest for table in tables(results) for forest in forests(table, fewest=1))
    return {forest.place: text for forest in every for text in untrained_texts(forest)}


def test_the_report_begins_with_it_where_it_is_ahead_of_trained_methods() -> None:
    runs = over_seeds("simcse", LOW) + over_seeds("mcse", HIGH) + over_seeds("kdmcse", [49.0, 50.5]) + BAR
    other = over_seeds("simcse", [1.0, 2.0, 3.0], setting="a")
    found = said(other + runs)
    assert "beats the one trained variant: SimCSE (1 significantly" in found["a / toy-bert"]
    assert found["toy / toy-bert"] == (
        "The untrained encoder beats 2 of 3 trained variants: SimCSE; KDMCSE (1 significantly, one-sample "
        "t-tests with Holm's correction; 1 with too few seeds to test): untrained 50.00 (untrained, mean), best "
        "trained 71.73 ± 1.55 (MCSE), points of Spearman, sts average."
    )
    assert max(scipy.stats.ttest_1samp(values, 50.0).pvalue for values in (LOW, HIGH)) < 0.025


def test_a_lead_that_may_be_chance_is_said_to_be() -> None:
    near = over_seeds("simcse", [49.9, 50.3, 49.5])
    (text,) = said(near + BAR).values()
    assert "beats the one trained variant: SimCSE (none significantly, one-sample" in text


def test_methods_that_are_ahead_are_said_to_be() -> None:
    (text,) = said(over_seeds("simcse", HIGH) + BAR).values()
    assert text.startswith("Every trained variant beats the untrained encoder: untrained 50.00 (")


def test_the_trained_pooling_comes_first_and_another_is_named() -> None:
    def untrained(pooling: str, score: float) -> list[Result]:
        values = {"method": {"pooling": pooling}, "training": {}, "encoder": {"pooling": pooling}}
        return over_seeds(f"none[pooling={pooling}]", [score], setting="none", hyperparameters=values)

    runs = over_seeds("simcse", LOW) + over_seeds("mcse", HIGH) + untrained("cls", 10.0) + untrained("mean", 90.0)
    (table,) = tables(runs)
    (text,) = said(runs).values()
    assert text.startswith("Every trained variant beats the untrained encoder: untrained 10.00 (untrained, [CLS])")
    assert text.endswith("At another pooling, the untrained encoder is ahead of all: 90.00 (untrained, mean).")
    (forest,) = forests(table)
    assert lead_text(forest).startswith("MCSE leads on toy / toy-bert")
    assert [gain.kind for gain in forest.gains] == ["other pooling", "better", "baseline", "untrained"]
    more = over_seeds("simcse", LOW, setting="wiki") + over_seeds("mcse", HIGH, setting="wiki")
    (ranking,) = ranking_tables(tables(runs + more))
    assert "Read by another pooling than most trained variants: untrained, mean." in ranking.notes
