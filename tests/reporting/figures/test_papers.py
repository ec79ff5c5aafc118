"""The figures of a report: the papers' own, those of other profiles, and their files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Tree

from builders import result
from figure_samples import PAPERS, POINTS, SVG, figure, texts

from harness.reporting.contents import Contents
from harness.reporting.figures.drawn import Material
from harness.reporting.sections.papers import PapersSection
from harness.store import Store


def test_figures_without_runs_are_empty_and_say_their_commands() -> None:
    material = Material("paper", Contents(Store(Path("nowhere")), []))
    made = [material.figure(paper, name) for paper in PAPERS.values() for name in paper.figures]
    assert {one.empty for one in made} == {"no run of profile paper yet"}
    assert all(one.commands for one in made)


def test_a_report_has_the_papers_figures_and_those_of_other_profiles() -> None:
    toy = result("simcse", 0, {"geometry": {"ToySTS": {"alignment": 1.0, "uniformity": -2.0}}}, dev=(40, 55))
    made = PapersSection("papers", Contents(Store(Path("nowhere")), [POINTS[-1], toy])).figures
    drawn = [one.key for one in made if one.svg]
    assert drawn[0] == "mcse-F2"
    assert "mcse-F2-tiny" in drawn
    assert all(one.svg or (one.paper and one.profile == "paper") for one in made)


def test_pictures_are_reproducible_with_text_and_a_title() -> None:
    first, second = figure("mcse-F2", POINTS), figure("mcse-F2", POINTS)
    assert first.svg == second.svg
    assert first.pdf.startswith(b"%PDF")
    assert first.pdf.rstrip().endswith(b"%%EOF")
    assert b"CreationDate" not in first.pdf
    assert "<text" in first.svg
    assert Tree.fromstring(first.svg).find(f"{SVG}title") is not None


def test_hostile_names_are_escaped() -> None:
    evil = "<script>alert(1)</script>"
    spec = PAPERS["mcse"].figures["F2"].model_copy(update={"variants": (evil,), "title": evil})
    run = result(evil, 0, {"geometry": {"ToySTS": {"alignment": 0.3, "uniformity": -2.0}}}, setting='"><script>')
    drawn = figure("mcse-F2", [run], profile="tiny", F2=spec)
    assert not list(Tree.fromstring(drawn.svg).iter(f"{SVG}script"))
    assert "<script" not in drawn.svg
    assert f"{evil} (n = 1)" in texts(drawn)


def test_asking_a_kind_for_its_suites_imports_no_plotting_library() -> None:
    script = (
        "import sys; from harness.registry import get, names\n"
        "found = {name: get('figure kind', name).suites for name in names('figure kind')}\n"
        "assert found['alignment-uniformity'] == ('sts',) and len(found) >= 7\n"
        "sys.exit('vl_convert' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
