"""The figure of gains on seen and unseen pairs: where its points and intervals stand."""

from __future__ import annotations

import pytest
from builders import frame, split
from figure_samples import texts

from harness.reporting.figures.papers import ReportFigure
from harness.reporting.sections.seen import seen_figures, seen_tables
from harness.store import Result, metrics_of


def one_task(variant: str, seed: int, seen: float, unseen: float, pairs: float = 100) -> Result:
    return split(variant, seed, {"STS15": (pairs, 60 + seen, 900, 70 + unseen)})


def drawn(results: list[Result]) -> list[ReportFigure]:
    (table,) = seen_tables(frame(results), metrics_of(results))
    return seen_figures(table)


def test_points_are_mean_gains_of_each_compared_row() -> None:
    results = [one_task("simcse", seed, seed, seed) for seed in (0, 1)]
    results += [one_task("dalr", seed, 4 + 3 * seed, 1 + seed) for seed in (0, 1)]
    results += [one_task("mcse", seed, 2 + seed, 2 + seed) for seed in (0, 1)]
    results += [one_task("kdmcse@official", seed, 9, 9, pairs=400) for seed in (0, 1)]
    (figure,) = drawn(results)
    shown = texts(figure)
    assert [text for text in shown if text in ("DALR", "MCSE", "SimCSE", "KDMCSE (public code)")] == ["DALR", "MCSE"]
    assert {"seen pairs", "unseen pairs"} <= set(shown)
    assert "gain over SimCSE, points of Spearman (n = 2)" in shown
    assert figure.caption.startswith("STS15, weighted by pairs. Bars are 95% intervals")


@pytest.mark.parametrize("variants", [("simcse",), ("mcse", "kdmcse")])
def test_nothing_is_drawn_without_a_comparison(variants: tuple[str, ...]) -> None:
    results = [one_task(variant, 0, 1.0, 1.0) for variant in variants]
    assert drawn(results) == []
