"""A kind of figure from another package: drawn in a report, and a broken one that fails on its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plugin_packages import Install

from harness.papers.schema import FigureSpec

sys.path.append(str(Path(__file__).parents[1] / "reporting" / "figures"))
from figure_samples import averages, figure

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


@pytest.fixture
def kinds(install: Install) -> None:
    install("bars", CODE, {"figures": {"bars": "BARS", "broken": "BROKEN"}})


def spec(kind: str) -> FigureSpec:
    return FigureSpec(
        title="Bars", kind=kind, suite="sts", metric="spearman", seeds=2, encoders=("bert-base-uncased",),
        settings=("coco",), variants=("simcse", "mcse"),
    )  # fmt: skip


@pytest.mark.usefixtures("kinds")
def test_a_kind_is_drawn_with_the_command_for_what_it_needs() -> None:
    made = figure("mcse-bars", averages("mcse", "coco", [70.0]), bars=spec("bars"))
    assert made.svg.startswith("<svg")
    assert "mcse" in made.svg
    assert "--suites geometry,sts" in made.commands[0]


@pytest.mark.usefixtures("kinds")
def test_a_kind_that_fails_costs_its_own_figure() -> None:
    made = figure("mcse-broken", averages("mcse", "coco", [70.0]), broken=spec("broken"))
    assert "'broken' (package bars, bars:BROKEN) cannot draw: ZeroDivisionError: broken (bars.py, line" in made.empty
