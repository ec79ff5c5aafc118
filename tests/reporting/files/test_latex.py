"""Tables as LaTeX: escaped, and laid out with booktabs."""

from __future__ import annotations

import re

from file_samples import grid

from harness.reporting.files.latex import latex
from harness.reporting.tables.grids import CellText, Grid, Line, Section
from harness.verdicts import Agreement


def test_escapes_every_special_character() -> None:
    text = latex([grid()], "made % by & us\nnow")
    body = text.split("\n", 2)[2]
    plain = re.sub(r"\\(text\w+\{\}|[_&%#${}])", "", body).replace("\\\\\n", "\n")
    for line in plain.splitlines():
        assert "#" not in line
        assert line.count("&") in (0, 3), line
    assert not re.search(r"\\\\\s*\[", body), "a bracket after a line's end would be read as its option"
    assert text.startswith("% made % by & us now\n% Needs")
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")


def test_latex_is_a_booktabs_table_with_its_marks() -> None:
    text = latex([grid("mcse")], "footer")
    for word in (
        r"\begin{table}",
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\begin{tabular}{llrr}",
        r"\label{tab:tiny-sts}",
    ):
        assert text.count(word) == 1, word
    assert r"mcse & 3 & $-$0.25\,$\pm$\,0.10$^{*}$ & 71.00$^{\dagger}$ (n = 2) \\" in text
    assert r" & 4 & -- & 1.00 \\" in text
    assert all(ord(char) < 128 for char in text)


def test_differences_have_no_p_value_and_too_few_seeds_no_verdict() -> None:
    cells = (CellText("+1.00", extra="p = 0.04"), CellText.judged(Agreement.TOO_FEW), CellText("1"))
    lines = (Line(("mcse", "difference"), cells[:1] * 3, "difference"), Line(("mcse", "verdict"), cells, "verdict"))
    columns = ("a", "b", "c")
    text = latex([Grid("k", "t", ("variant", "what"), columns, (False,) * 3, (Section("s", lines),), ())], "footer")
    assert r"mcse & difference & +1.00 & +1.00 & +1.00 \\" in text
    assert r"mcse & verdict & +1.00 (p = 0.04) & -- & 1 \\" in text


def test_verdicts_are_signs_that_a_note_explains() -> None:
    cells = (
        CellText.judged(Agreement.REPRODUCED),
        CellText.judged(Agreement.DIFFERS),
        CellText.judged(Agreement.UNDECIDED, "12 seeds"),
    )
    line = Line(("mcse", "verdict: a long sum"), cells, "verdict")
    grid = Grid("k", "t", ("variant", "what"), ("a", "b", "c"), (False,) * 3, (Section("s", (line,)),), ("±1 point",))
    text = latex([grid], "footer")
    assert r"mcse & verdict & $\approx$ & $\neq$ & ? (12 seeds) \\" in text
    assert r"Signs of verdicts: $\approx$~reproduced, $\neq$~differs, ?~not distinguishable." in text
    assert r"$\pm$1 point" in text
