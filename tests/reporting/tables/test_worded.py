"""The papers' tables as LaTeX and Markdown: they compile, and they have the papers' shape."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import frame, result
from table_samples import PAPERS, PUBLISHED, runs, stand_ins

from harness.reporting.files.latex import latex
from harness.reporting.files.latex import table as latex_table
from harness.reporting.files.markdown import table as markdown_table
from harness.reporting.tables.filled import paper_tables
from harness.reporting.tables.grids import CellText, Grid, Line, Section
from harness.reporting.tables.worded import paper_grid

NASTY = r"a_b&c%d#e[f]{g}$h~i^j\k|l<m>n*"
DOCUMENT = "\\documentclass{{article}}\n\\usepackage{{booktabs,graphicx}}\n\\begin{{document}}\n{}\n\\end{{document}}\n"


@pytest.fixture(scope="module")
def grids() -> list[Grid]:
    """All tables of the papers, some measured, and one of the toy world."""
    found = runs("simcse", [70.0, 71.0, 72.0]) + runs("mcse", [72.6, 73.6, 74.6])
    found += runs("simcse", [75.0, 75.3, 75.6], setting="wiki+coco")
    found += runs("mcse", [70.0, 70.3, 70.6], setting="wiki+coco")
    found += runs("simcse", [75.0, 76.0, 77.0], setting="flickr") + runs("mcse", [72.3, 73.3, 74.3], setting="flickr")
    found += [result(variant, seed) for variant in ("mcse[text_teacher=clip]", "kdmcse") for seed in range(2)]
    toy = stand_ins(found)
    assert toy
    return [paper_grid(one) for one in (*paper_tables(PAPERS, PUBLISHED, frame(found)), *toy.values())]


def nasty() -> Grid:
    line = Line((NASTY, "[b]", "c"), (CellText("-0.25", "0.10", "(*)", bold=True), CellText("1", "", "(†)")), "plain")
    return Grid(
        "n", NASTY, ("x", "y", "z"), (NASTY, "Avg"), (False, True), (Section(NASTY, (line,)),), (NASTY, "± † –")
    )


def test_every_table_compiles(grids: list[Grid], tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("no LaTeX table is compiled; install texlive-latex-recommended, such as by apt-get")
    (tmp_path / "report.tex").write_text(DOCUMENT.format(latex([*grids, nasty()], "footer")), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1500:]
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
    assert "Overfull \\hbox" not in done.stdout, "a table is wider than the text"
    labels = re.findall(r"\\newlabel\{(tab:[^}]*)\}", (tmp_path / "report.aux").read_text())
    assert len(labels) == len(set(labels)) == len(grids) + 1


def test_groups_of_setting_and_encoder_are_ruled_off(grids: list[Grid]) -> None:
    text = latex_table(next(grid for grid in grids if grid.key == "mcse-T1"))
    # below the head, between the two encoders, and between the four settings of each
    assert text.count("\\midrule") == 1 + 1 + 2 * 3
    text = latex_table(next(grid for grid in grids if grid.key == "nonling-T1"))
    assert text.count("\\midrule") == 1 + 2


def test_bold_and_both_kinds_of_star_in_latex(grids: list[Grid]) -> None:
    text = latex_table(next(grid for grid in grids if grid.key == "mcse-T1"))
    assert r"\textbf{77.3}\,$\pm$\,0.5$^{*}$" in text
    assert r"\textbf{73.6}\,$\pm$\,1.0$^{*}$" in text
    assert r"70.3\,$\pm$\,0.3$^{\dagger}$" in text
    assert r"\textbf{$-$0.25}\,$\pm$\,0.10$^{(*)}$" in latex_table(nasty())


def test_latex_leaves_out_what_would_only_widen_it(grids: list[Grid]) -> None:
    text = latex_table(next(grid for grid in grids if grid.key == "mcse-T1"))
    assert "no run yet" not in text
    body = text.partition("\\bottomrule")[0]
    assert "p = " not in body
    assert body.count("& difference &") == body.count("& verdict &") == 4
    rows = [line for line in body.splitlines() if re.match(r"(SimCSE|MCSE|untrained)", line)]
    assert len(rows) == 14, "as in the paper"


def test_markdown_has_whole_rows_and_bold(grids: list[Grid]) -> None:
    for grid in [*grids, nasty()]:
        rows = [line for line in markdown_table(grid).splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(grid.heads) + len(grid.columns) + 2}
        assert len(rows) == 2 + sum(len(section.lines) for section in grid.sections)
    text = markdown_table(next(grid for grid in grids if grid.key == "mcse-T1"))
    assert r"**77.3 ± 0.5**\*" in text
    assert r"**73.6 ± 1.0**\*" in text
    assert r"**-0.25 ± 0.10**(\*)" in markdown_table(nasty())
    assert text.count("**") == 2 * sum(
        cell.bold
        for section in next(grid for grid in grids if grid.key == "mcse-T1").sections
        for line in section.lines
        for cell in line.cells
    )
