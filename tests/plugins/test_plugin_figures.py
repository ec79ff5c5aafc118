"""A kind of figure from another package: drawn in a report, and a broken one that fails on its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plugin_packages import Install

from harness.papers.schema import FigureSpec

sys.path.append(str(Path(__file__).parents[1] / "reporting" / "figures"))
from figure_samples import averages, figure

pytestmark = pytest.mark.usefixtures("small_toy_tests")

CODE = '''\
    """Bars of averages."""
    from harness.metrics import AVERAGE, Score
    from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind


    def draw(data: FigureData) -> Drawing | str:
        score = Score(data.spec.suite, AVERAGE, data.spec.metric)
        means = {run.label.variant: summary.mean for run in data.runs if (summary := run.summary(score))}
        if not means:
            return f"no run has been evaluated on {data.spec.suite} yet"
        values = [{"variant": variant, "mean": mean} for variant, mean in means.items()]
        encoding = {"x": {"field": "variant", "type": "nominal"}, "y": {"field": "mean", "type": "quantitative"}}
        return Drawing({"data": {"values": values}, "mark": "bar", "encoding": encoding}, "Averages.", data.runs)


    def fail(data):
        raise ZeroDivisionError("broken")


    BARS, BROKEN = FigureKind(draw, suites=("geometry",)), FigureKind(fail)
'''


def test_a_kind_is_drawn_with_its_command_and_one_that_fails_costs_its_own_figure(
    install: Install,
) -> None:
    install("bars", CODE, {"figures": {"bars": "BARS", "broken": "BROKEN"}})
    good, bad = (
        FigureSpec(
            title="Bars", kind=kind, suite="sts", metric="spearman", seeds=2, encoders=("bert-base-uncased",),
            settings=("coco",), variants=("simcse", "mcse"),
        )
        for kind in ("bars", "broken")
    )  # fmt: skip
    drawn = figure("mcse-bars", averages("mcse", "coco", [70.0]), bars=good)
    assert drawn.svg.startswith("<svg")
    assert "mcse" in drawn.svg
    assert drawn.commands == ("harness run --figure mcse:bars --results nowhere",)
    failed = figure("mcse-broken", averages("mcse", "coco", [70.0]), broken=bad)
    assert (
        "'broken' (package bars, bars:BROKEN) cannot draw: ZeroDivisionError: broken (bars.py, line"
        in failed.empty
    )
