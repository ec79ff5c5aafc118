"""A section of a report from another package, and one that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import over_seeds
from plugin_packages import Install

from harness.reporting.build import render
from harness.reporting.contents import Contents
from harness.store import Store

pytestmark = pytest.mark.usefixtures("small_toy_tests")

CODE = '''\
    """The time of each run."""
    from harness.reporting.sections.base import Part, ReportSection
    from harness.reporting.tables.grids import CellText, Grid, Line, Section


    class Times(ReportSection):
        order = 450
        title = menu = "Times <of runs>"

        @property
        def parts(self):
            lines = [
                Line((str(one.spec.variant), str(one.spec.seed)), (CellText(f"{one.train_seconds:.0f}"),), "plain")
                for one in self.contents.runs
            ]
            sections = (Section("all runs", tuple(lines)),)
            grid = Grid("times", "Seconds", ("variant", "seed"), ("seconds",), (False,), sections, ())
            return [Part("", "", [grid])]

        def rows(self):
            runs = self.contents.runs
            return [{"table": "times", "variant": str(one.spec.variant), "mean": one.train_seconds} for one in runs]


    class WithPage(Times):
        title = menu = "Times again"
        lede = "A page of its own."

        @property
        def parts(self):
            return [part._replace(key="all", title="All runs") for part in super().parts]


    class Broken(ReportSection):
        @property
        def parts(self):
            raise ZeroDivisionError("no runs")
'''


def test_sections_are_on_pages_and_in_files_and_those_that_fail_are_left_out(
    install: Install, tmp_path: Path
) -> None:
    install(
        "times",
        CODE,
        {"sections": {"times": "Times", "again": "WithPage", "broken": "Broken", "text": "CODE"}},
    )
    contents = Contents(
        Store(tmp_path / "nowhere"), over_seeds("simcse", [1.0, 2.0], train_seconds=77.0)
    )
    out = render(contents, tmp_path / "out").parent
    index = (out / "overview.html").read_text("utf-8")
    assert '<section id="times">' in index
    assert index.index('id="papers"') < index.index('id="times"') < index.index('id="methods"')
    assert 'href="../overview.html#times">Times &lt;of runs&gt;</a>' in (
        out / "runs" / "index.html"
    ).read_text("utf-8")
    assert "| all runs | simcse | 0 | 77 |" in (out / "report.md").read_text("utf-8")
    assert r"\label{tab:times}" in (out / "report.tex").read_text("utf-8")
    assert (out / "tables.csv").read_text("utf-8").count("\ntimes,") == 4, (
        "two sections with two runs each"
    )
    assert 'href="again.html#all">All runs</a>' in index
    page = (out / "again.html").read_text("utf-8")
    assert "A page of its own." in page
    assert "<td>77</td>" in " ".join(page.split())
    broken, text = sorted(contents.found)
    assert (
        "the report section 'broken' (package times, times:Broken) cannot be made: ZeroDivisionError"
        in broken
    )
    assert "the report section 'text' (package times, times:CODE) cannot be loaded" in text
