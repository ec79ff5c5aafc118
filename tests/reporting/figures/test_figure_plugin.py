"""A kind of figure from another package: drawn in a report, and a broken one that fails on its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KIND = """
from harness.metrics import AVERAGE, Score
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind


def draw(data: FigureData) -> Drawing | str:
    score = Score(data.spec.suite, AVERAGE, data.spec.metric)
    means = {run.label.variant: summary.mean for run in data.runs if (summary := run.summary(score))}
    if not means:
        return f"no run has been evaluated on {data.spec.suite} yet"
    return Drawing(lambda figure: figure.subplots().bar(*zip(*means.items())), (5, 4), "Averages.", data.runs)


def fail(data):
    raise ZeroDivisionError("broken")


BARS, BROKEN = FigureKind(draw, suites=("geometry",)), FigureKind(fail)
"""
SCRIPT = """
from builders import over_seeds
from figure_samples import averages, figure
from harness.papers.schema import FigureSpec

spec = dict(title="Bars", suite="sts", metric="spearman", seeds=2, encoders=["bert-base-uncased"], settings=["coco"],
            variants=["simcse", "mcse"])
figures = {kind: FigureSpec.model_validate({**spec, "kind": kind}) for kind in ("bars", "broken", "absent")}
made = {kind: figure(f"mcse-{kind}", averages("mcse", "coco", [70.0]), **figures) for kind in figures}
assert made["bars"].svg.startswith("<svg") and "mcse" in made["bars"].svg, made["bars"].empty
assert "--suites geometry,sts" in made["bars"].commands[0], made["bars"].commands
tiny = figure("mcse-bars", over_seeds("mcse", [20.0, 21.0]), profile="tiny", **figures)
assert tiny.svg and "(2 seeds)" in tiny.caption and "not comparable with the paper" in tiny.caption, tiny.empty
assert "'broken' (package bars, bars:BROKEN) cannot draw: ZeroDivisionError: broken" in made["broken"].empty
assert "'absent' (package bars, no:X) cannot be loaded" in made["absent"].empty
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with two kinds of figure, as pip would install it."""
    site = tmp_path_factory.mktemp("site")
    (site / "bars.py").write_text(KIND)
    info = site / "bars-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bars\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[harness.figures]\nbars = bars:BARS\nbroken = bars:BROKEN\nabsent = no:X\n")
    return site


def test_kinds_of_another_package_are_drawn(package: Path) -> None:
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (package, here, here.parents[1])))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_asking_a_kind_for_its_suites_imports_no_plotting_library() -> None:
    script = (
        "import sys; from harness.registry import get, names\n"
        "found = {name: get('figure kind', name).suites for name in names('figure kind')}\n"
        "assert found['alignment-uniformity'] == ('sts',) and len(found) >= 7\n"
        "sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
