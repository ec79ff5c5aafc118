"""Tables as LaTeX: escaped, with every cell and mark, in the papers' shape, and set in a two-column
document.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from table_samples import measured_grids, nasty
from two_columns import typeset

from harness.metrics import Agreement
from harness.reporting.tables.grids import CellText, Grid, Line, Section
from harness.reporting.tables.latex import latex, latex_table


def test_every_table_fits_two_columns_in_text_of_7_pt_or_more(tmp_path: Path) -> None:
    grids = measured_grids()
    pdf = typeset("".join(latex([*grids.values(), nasty()], "footer")), tmp_path)
    sizes = {int(size) for size in re.findall(rb"/FontName\s*/\w+\+CM[A-Z]+(\d+)", pdf)}
    assert min(sizes) == 7
    labels = re.findall(r"\\newlabel\{(tab:[^}]*)\}", (tmp_path / "paper.aux").read_text())
    shown = [grid for grid in grids.values() if any(section.lines for section in grid.sections)]
    assert len(labels) == len(set(labels)) == len(shown) + 1


def wide(rows: int, columns: int, name: str = "MCSE") -> Grid:
    line = Line((name, "3"), (CellText("-72.50", "0.25", "(*)"),) * columns, "plain")
    where = (Section("wiki / bert", (line,) * rows),)
    titles = tuple(f"STS{at}" for at in range(columns))
    return Grid(
        "k",
        "STS",
        ("variant", "seeds"),
        titles,
        (False,) * columns,
        where,
        ("A note.",),
        legend=("±1.",),
    )


@pytest.mark.parametrize(
    ("grid", "kind", "size", "parts", "floats"),
    [
        (wide(3, 2), "table", 8, 1, 1),
        (wide(3, 2, "MCSE, public"), "table", 7, 1, 1),
        (wide(3, 5), "table*", 8, 1, 1),
        (wide(3, 10), "table*", 8, 2, 1),
        (wide(90, 2), "table", 8, 1, 2),
    ],
)
def test_a_table_that_is_too_large_spans_the_page_or_is_split_and_never_shrinks_below_7_pt(
    grid: Grid, kind: str, size: int, parts: int, floats: int
) -> None:
    text = latex_table(grid)
    assert text.count(f"\\begin{{{kind}}}") == text.count("\\caption{STS") == floats
    assert text.count(f"\\fontsize{{{size}}}") >= floats
    assert text.count("\\begin{tabular}{") == parts * floats
    assert text.count("$-$72.50 & $\\pm$0.25({*})") == len(grid.sections[0].lines) * len(
        grid.columns
    )
    assert all(text.count(f"STS{at}}}") == floats for at in range(len(grid.columns))), (
        "each column once"
    )
    assert text.count("A note.") == text.count("\\label{tab:k}") == 1


def test_latex_escapes_every_special_character() -> None:
    text = "".join(latex([nasty()], "made % by & us\nnow"))
    body = text.split("\n", 2)[2]
    plain = re.sub(r"\\(text\w+\{\}|[_&%#${}])", "", body).replace("\\\\\n", "\n")
    rows = [line for line in plain.splitlines() if line.endswith("\\tabularnewline")]
    assert len(rows) == 2
    assert all(line.count("&") == 5 for line in rows), (
        "two heads and two numbers, each with what follows it"
    )
    assert "#" not in plain
    assert not re.search(r"(\\\\|newline)\s*[\[*]", body), (
        "it would be read as an option of the line's end"
    )
    assert text.startswith("% made % by & us now\n% Needs")
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")
    assert all(ord(char) < 128 for char in text)


def test_latex_is_a_booktabs_table_with_its_marks() -> None:
    text = latex_table(nasty("mcse"))
    for word in (
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"{@{}llr@{}lr@{}l@{}}",
        r"\label{tab:n-1}",
    ):
        assert text.count(word) == 1, word
    assert r"\textbf{$-$0.25} & $\pm$0.10({*}) & 71.00 & $\dagger$~(n = 2) \tabularnewline" in text
    assert r" & 4 & -- &  & 1.00 &  \tabularnewline" in text
    assert "$-$1" in text, "a minus sign in a note"
    text = latex_table(measured_grids()["mcse-T1"])
    assert r"\textbf{77.3} & $\pm$0.5{*}" in text
    assert r"\textbf{73.6} & $\pm$1.0{*}" in text
    assert r"70.3 & $\pm$0.3$\dagger$" in text


def test_latex_rules_off_settings_and_encoders_and_leaves_out_what_would_only_widen_it() -> None:
    text = latex_table(measured_grids()["mcse-T1"])
    parts = 2
    # above the first encoder, between the two, and between the four settings of each
    assert text.count("\\midrule") == (2 + 2 * 3) * parts
    assert "no run yet" not in text
    body = text.partition("\\smallskip")[0]
    assert "p = " not in body
    assert body.count("& difference &") == body.count("& verdict &") == 4 * parts
    rows = [
        line
        for line in body.splitlines()
        if re.match(r"(\\raggedright )?(SimCSE|MCSE|untrained)", line)
    ]
    assert len(rows) == 14 * parts, "as in the paper"


def test_differences_have_no_p_value_and_verdicts_are_signs_that_a_note_explains() -> None:
    cells = (CellText("+1.00", extra="p = 0.04"), CellText.judged(Agreement.TOO_FEW), CellText("1"))
    verdicts = (
        (Agreement.REPRODUCED, ""),
        (Agreement.DIFFERS, ""),
        (Agreement.UNDECIDED, "12 seeds"),
    )
    signs = tuple(CellText.judged(*verdict) for verdict in verdicts)
    lines = (
        Line(("mcse", "difference"), cells[:1] * 3, "difference"),
        Line(("mcse", "verdict"), cells, "verdict"),
        Line(("dalr", "verdict: a long sum"), signs, "verdict"),
    )
    heads, columns = ("variant", "what"), ("a", "b", "c")
    text = latex_table(
        Grid("k", "t", heads, columns, (False,) * 3, (Section("s", lines),), ("±1 point",))
    )
    assert r"mcse & difference & +1.00 &  & +1.00 & +1.00 &  \tabularnewline" in text
    assert r"mcse & verdict & +1.00 & ~(p = 0.04) & -- & 1 &  \tabularnewline" in text
    assert r"dalr & verdict & $\approx$ &  & $\neq$ & ? & ~(12) \tabularnewline" in text
    assert (
        r"Signs of verdicts: $\approx$ reproduced, $\neq$ differs, ? not distinguishable (" in text
    )
    assert r"$\pm$1 point" in text
