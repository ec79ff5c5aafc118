"""Tables as LaTeX and Markdown: escaped, with every cell and mark; they compile, and have the papers' shape."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import over_seeds, result, tables
from table_samples import PAPERS, PUBLISHED, runs, stand_ins

from harness.metrics import Agreement
from harness.reporting.seeds.wording import Sentence
from harness.reporting.tables.filled import paper_tables
from harness.reporting.tables.grids import CellText, Grid, Line, Section, summary_grid
from harness.reporting.tables.paper_grids import paper_grid
from harness.reporting.tables.texts import latex, latex_table, markdown, markdown_table

NASTY = r"a_b&c%d#e[f]{g}$h~i^j\k|l<m>n*"
DOCUMENT = "\\documentclass{{article}}\n\\usepackage{{booktabs,graphicx}}\n\\begin{{document}}\n{}\n\\end{{document}}\n"


def nasty(name: str = NASTY) -> Grid:
    """A table with every mark, whose texts are hard to escape."""
    cells = (CellText("-0.25", "0.10", "(*)", bold=True), CellText("71.00", "", "†", "n = 2"))
    lines = (
        Line((name, "[b]"), cells, "plain", 2),
        Line((name, "4"), (CellText("–"), CellText("1.00")), "plain", 0),
    )
    where = (Section(name, lines),)
    return Grid("n/1", f"sts, {name}", ("variant", "seeds"), (name, "Avg"), (False, True), where, (name, "± † –"))


@pytest.fixture(scope="module")
def grids() -> dict[str, Grid]:
    """All tables of the papers by key, some measured, and those of the toy world."""
    results = runs("simcse", [70.0, 71.0, 72.0]) + runs("mcse", [72.6, 73.6, 74.6])
    results += runs("simcse", [75.0, 75.3, 75.6], setting="wiki+coco")
    results += runs("mcse", [70.0, 70.3, 70.6], setting="wiki+coco")
    results += runs("simcse", [75.0, 76.0, 77.0], setting="flickr") + runs("mcse", [72.3, 73.3, 74.3], setting="flickr")
    results += [result(variant, seed) for variant in ("mcse[text_teacher=clip]", "kdmcse") for seed in range(2)]
    toy = stand_ins(results)
    assert toy
    every = map(paper_grid, (*paper_tables(PAPERS, PUBLISHED, results), *toy.values()))
    return {grid.key: grid for grid in every}


@pytest.mark.parametrize(("average", "columns"), [(70.0, ("ToySTS",)), (65.0, ("ToySTS", "Avg"))])
def test_an_average_is_left_out_where_every_row_repeats_the_only_task(average: float, columns: tuple[str, ...]) -> None:
    scores = {"sts": {"ToySTS": {"spearman": 70.0}, "Avg": {"spearman": average}}}
    (table,) = tables([result("mcse", 0, scores), *over_seeds("simcse", [60.0])])
    assert summary_grid(table).columns == columns
    assert summary_grid(table, whole=True).columns == ("ToySTS", "Avg")


def test_every_table_compiles(grids: dict[str, Grid], tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("no LaTeX table is compiled; install texlive-latex-recommended, such as by apt-get")
    text = latex([*grids.values(), nasty()], "footer")
    (tmp_path / "report.tex").write_text(DOCUMENT.format(text), encoding="utf-8")
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


def test_latex_escapes_every_special_character() -> None:
    text = latex([nasty()], "made % by & us\nnow")
    body = text.split("\n", 2)[2]
    plain = re.sub(r"\\(text\w+\{\}|[_&%#${}])", "", body).replace("\\\\\n", "\n")
    for line in plain.splitlines():
        assert "#" not in line
        assert line.count("&") in (0, 3), line
    assert not re.search(r"\\\\\s*\[", body), "a bracket after a line's end would be read as its option"
    assert text.startswith("% made % by & us now\n% Needs")
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")
    assert all(ord(char) < 128 for char in text)


def test_latex_is_a_booktabs_table_with_its_marks(grids: dict[str, Grid]) -> None:
    text = latex([nasty("mcse")], "footer")
    for word in (r"\begin{table}", r"\toprule", r"\midrule", r"\bottomrule", r"{tabular}{llrr}", r"\label{tab:n-1}"):
        assert text.count(word) == 1, word
    assert r"\textbf{$-$0.25}\,$\pm$\,0.10$^{(*)}$ & 71.00$^{\dagger}$ (n = 2) \\" in text
    assert r" & 4 & -- & 1.00 \\" in text
    text = latex_table(grids["mcse-T1"])
    assert r"\textbf{77.3}\,$\pm$\,0.5$^{*}$" in text
    assert r"\textbf{73.6}\,$\pm$\,1.0$^{*}$" in text
    assert r"70.3\,$\pm$\,0.3$^{\dagger}$" in text


def test_latex_rules_off_settings_and_encoders_and_leaves_out_what_would_only_widen_it(grids: dict[str, Grid]) -> None:
    text = latex_table(grids["mcse-T1"])
    # below the head, between the two encoders, and between the four settings of each
    assert text.count("\\midrule") == 1 + 1 + 2 * 3
    assert latex_table(grids["nonling-T1"]).count("\\midrule") == 1 + 2
    assert "no run yet" not in text
    body = text.partition("\\bottomrule")[0]
    assert "p = " not in body
    assert body.count("& difference &") == body.count("& verdict &") == 4
    rows = [line for line in body.splitlines() if re.match(r"(SimCSE|MCSE|untrained)", line)]
    assert len(rows) == 14, "as in the paper"


def test_differences_have_no_p_value_and_verdicts_are_signs_that_a_note_explains() -> None:
    cells = (CellText("+1.00", extra="p = 0.04"), CellText.judged(Agreement.TOO_FEW), CellText("1"))
    verdicts = (Agreement.REPRODUCED, ""), (Agreement.DIFFERS, ""), (Agreement.UNDECIDED, "12 seeds")
    signs = tuple(CellText.judged(*verdict) for verdict in verdicts)
    lines = (
        Line(("mcse", "difference"), cells[:1] * 3, "difference"),
        Line(("mcse", "verdict"), cells, "verdict"),
        Line(("dalr", "verdict: a long sum"), signs, "verdict"),
    )
    heads, columns = ("variant", "what"), ("a", "b", "c")
    text = latex_table(Grid("k", "t", heads, columns, (False,) * 3, (Section("s", lines),), ("±1 point",)))
    assert r"mcse & difference & +1.00 & +1.00 & +1.00 \\" in text
    assert r"mcse & verdict & +1.00 (p = 0.04) & -- & 1 \\" in text
    assert r"dalr & verdict & $\approx$ & $\neq$ & ? (12 seeds) \\" in text
    assert r"Signs of verdicts: $\approx$~reproduced, $\neq$~differs, ?~not distinguishable." in text
    assert r"$\pm$1 point" in text


def test_markdown_has_whole_rows_bold_and_no_markup(grids: dict[str, Grid]) -> None:
    text = markdown([Sentence("here", "a <b>bold</b> claim")], [nasty()], "footer")
    assert "<b>" not in text
    assert "a &lt;b>bold&lt;/b> claim" in text
    for grid in [*grids.values(), nasty()]:
        rows = [line for line in markdown_table(grid).splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(grid.heads) + len(grid.columns) + 2}
        assert len(rows) == 2 + sum(len(section.lines) for section in grid.sections)
    text = markdown_table(grids["mcse-T1"])
    assert r"**77.3 ± 0.5**\*" in text
    assert r"**73.6 ± 1.0**\*" in text
    assert r"**-0.25 ± 0.10**(\*)" in markdown_table(nasty())
    cells = [cell for part in grids["mcse-T1"].sections for line in part.lines for cell in line.cells]
    assert text.count("**") == 2 * sum(cell.bold for cell in cells)
