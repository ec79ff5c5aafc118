"""The figures of a report: the papers' own, those of other profiles, training curves, and their files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Tree

import pytest
from builders import result
from figure_samples import PAPERS, POINTS, SVG, figure, texts

from harness.errors import UserError
from harness.papers.published import read_paper, read_published
from harness.reporting.contents import Contents
from harness.reporting.figures.papers import Material
from harness.reporting.sections.papers import PapersSection
from harness.store import Store


def test_all_figures_of_the_papers_are_specified_and_empty_without_runs() -> None:
    assert {name: list(paper.figures) for name, paper in PAPERS.items() if paper.figures} == {
        "mcse": ["F2", "F3", "F4"],
        "kdmcse": [f"F{number}" for number in range(5, 13)],
        "dalr": ["F3", "F4"],
        "nonling": ["F2", "F3", "F4"],
    }
    material = Material("paper", Contents(Store(Path("nowhere")), []), list(PAPERS.values()), read_published())
    made = [material.figure(paper, name) for paper in PAPERS.values() for name in paper.figures]
    assert {one.empty for one in made} == {"no run of profile paper yet"}
    assert all(one.commands for one in made)
    printed = {(*key[:2], key.task) for key in read_published()}
    for name, paper in PAPERS.items():
        for figure_name, spec in paper.figures.items():
            assert {(name, figure_name, task) for task in spec.printed} <= printed


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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "subset-gain"', 'kind = "pie"', r"figures\.F4.*'kind'"),
        ('variants = ["simcse", "mcse"]', 'variants = ["mcse[b=1,a=2]"]', r"spelled 'mcse\[a=2,b=1\]'"),
        ('"simcse-sup/nli[size=10000]"', '"mcse/nli"', "'mcse/nli' in 'pairs'"),
    ],
)
def test_an_error_names_the_entry_of_a_wrong_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    import harness_reports

    for source in sorted((Path(str(harness_reports.__file__)).parent / "papers").glob("*.toml")):
        text = source.read_text()
        if old in text:
            path = tmp_path / source.name
            path.write_text(text.replace(old, new))
            with pytest.raises(UserError, match=message):
                read_paper(path)
            return
    raise AssertionError(f"no paper file has {old}")
