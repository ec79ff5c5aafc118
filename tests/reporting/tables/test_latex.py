"""Tables as LaTeX: escaped, with every cell and mark, in the papers' shape, and set in a two-column
document.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from table_samples import measured_grids, nasty
from two_columns import STYLES, typeset

from harness.metrics import Agreement, ClaimVerdict
from harness.reporting.tables.grids import CellText, Grid, Line, Section, remove_spread
from harness.reporting.tables.latex import TooLargeError, format_latex, format_latex_table


def board(methods: int, tasks: int, mark: str = "(*)", title: str = "STS") -> Grid:
    """A table of a suite: methods with names as they are usual, tasks and an average."""
    names = ("SimCSE", "MCSE, tuned", "KDMCSE, tuned (6 trials)", "DALR", "VisualCSE")
    lines = []
    for number in range(methods):
        cells = (CellText("72.50", "0.25", mark, bold=number == 1),) * (tasks + 1)
        lines.append(Line((names[number % len(names)], "5"), cells, "plain"))
    columns = (*(f"STS{task + 12}" for task in range(tasks)), "Avg")
    return Grid(
        "k",
        f"{title}, profile small",
        ("variant", "seeds"),
        columns,
        (False,) * tasks + (True,),
        (Section("wiki+flickr8k / all-minilm-l6-v2", tuple(lines)),),
        ("A note.", "‡ SimCSE: a weak score."),
        legend=("Mean ± sample standard deviation over 5 seeds.", "* significantly better."),
        caption=("Mean ± SD over 5 seeds; * better (t-test, Holm, p < 0.05).", "Bold: the best."),
        paper_title=title,
    )


def boards() -> list[Grid]:
    """Eight tables: of one to eight methods, in few columns and in many, with long names and notes."""
    sizes = ((4, 7), (8, 7), (1, 1), (3, 2), (8, 5), (5, 7), (30, 7))
    grids = [board(methods, tasks) for methods, tasks in sizes]
    named = [replace(grid, key=f"board-{at}") for at, grid in enumerate(grids)]
    return [*named, nasty()]


@pytest.mark.parametrize("style", STYLES)
def test_tables_fit_the_columns_and_pages_of_three_classes(tmp_path: Path, style: str) -> None:
    text = "".join(format_latex(boards(), "footer"))
    assert "Left out" not in text
    assert text.count("\\begin{tabular}{") == len(boards()), "none is split"
    assert {*re.findall(r"\\fontsize\{(\d+)", text)} <= {"7", "8"}
    typeset(text, tmp_path, style)


def test_every_table_of_the_papers_fits_two_columns(tmp_path: Path) -> None:
    grids = measured_grids()
    text = "".join(format_latex(grids.values(), "footer"))
    typeset(text, tmp_path)
    labels = re.findall(r"\\newlabel\{(tab:[^}]*)\}", (tmp_path / "paper.aux").read_text())
    shown = [grid for grid in grids.values() if any(section.lines for section in grid.sections)]
    assert "Left out" not in text
    assert len(labels) == len(set(labels)) == len(shown)


@pytest.mark.parametrize(
    ("methods", "tasks", "environment", "size"),
    [(2, 1, "table", 8), (3, 1, "table", 7), (4, 4, "table*", 8), (8, 7, "table*", 7)],
)
def test_a_table_is_one_float_in_the_narrowest_place_and_the_largest_text_that_hold_it(
    methods: int, tasks: int, environment: str, size: int
) -> None:
    text = format_latex_table(board(methods, tasks))
    assert text.startswith(f"\\begin{{{environment}}}\n")
    assert text.count("\\begin{tabular}{") == text.count("\\caption{") == 1
    assert f"\\fontsize{{{size}}}" in text
    assert text.count("72.50} & $\\pm$0.25({*})") + text.count("72.50 & $\\pm$0.25({*})") == (
        methods * (tasks + 1)
    )


def test_a_caption_has_no_profile_and_explains_marks_once() -> None:
    text = format_latex_table(board(4, 7, mark="*"))
    shown = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert r"\caption{STS. Mean $\pm$ SD over 5 seeds; {*} better (" in shown
    assert "profile" not in shown
    assert "significantly better" not in shown
    assert "A note." not in shown
    assert "% A note.\n" in text
    marked = board(1, 1)
    cells = tuple(replace(cell, caveats="‡") for cell in marked.sections[0].lines[0].cells)
    lines = (replace(marked.sections[0].lines[0], cells=cells),)
    explained = format_latex_table(replace(marked, sections=(Section("s", lines),)))
    assert "\n$\\ddagger$ SimCSE: a weak score.\n\\end{minipage}" in explained
    assert r"Spearman correlation $\times$ 100" in format_latex_table(
        board(1, 1, title="STS: Spearman correlation x 100")
    )


def test_what_no_page_holds_is_refused_with_the_option_that_helps() -> None:
    def refusal(grid: Grid) -> str:
        with pytest.raises(TooLargeError) as raised:
            format_latex_table(grid)
        return str(raised.value)

    assert re.fullmatch(
        r"the table k is \d+ pt wide in text of 7 pt, and a page of a paper has 455 pt; give --no-std",
        refusal(board(3, 12)),
    )
    assert refusal(board(3, 30)).endswith("; give --columns or --tasks with fewer of them")
    assert refusal(board(90, 2)).endswith(
        " lines, and a page of a paper holds 61; give --rows with fewer variants"
    )
    format_latex_table(remove_spread(board(3, 12)))
    text = "".join(format_latex([board(3, 12), board(1, 1)], "footer"))
    assert "% Left out: the table k is " in text
    assert " `harness table` takes --no-std. All its numbers are in tables.csv.\n" in text
    assert text.count("\\begin{table}") == 1


def test_a_claim_has_a_verdict_of_one_word() -> None:
    verdicts = (ClaimVerdict.HOLDS, ClaimVerdict.UNSEEN, ClaimVerdict.TOO_FEW)
    lines = [
        Line(("pictures help",), (CellText.from_verdict(verdict, "p = 0.04, a long sum"),), "plain")
        for verdict in verdicts
    ]
    grid = Grid("k", "t", ("claim",), ("verdict",), (False,), (Section("s", tuple(lines)),), ())
    rows = re.findall(r"pictures help & (.*) \\tabularnewline", format_latex_table(grid))
    assert rows == ["holds", "open", "--"]


def test_latex_escapes_every_special_character() -> None:
    text = "".join(format_latex([nasty()], "made % by & us\nnow"))
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
    text = format_latex_table(nasty("mcse"))
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
    text = format_latex_table(measured_grids()["mcse-T1"])
    assert r"\textbf{77.3} & $\pm$0.5{*}" in text
    assert r"\textbf{73.6} & $\pm$1.0{*}" in text
    assert r"70.3 & $\pm$0.3$\dagger$" in text


def test_latex_rules_off_settings_and_encoders_and_leaves_out_what_would_only_widen_it() -> None:
    text = format_latex_table(measured_grids()["mcse-T1"])
    # above the first encoder, between the two, and between the four settings of each
    assert text.count("\\midrule") == 2 + 2 * 3
    assert "no run yet" not in text
    body = text.partition("\\smallskip")[0]
    assert "p = " not in body
    body = body.replace("\\raggedright ", "")
    assert body.count("& difference &") == body.count("& verdict &") == 4
    rows = [
        line
        for line in body.splitlines()
        if re.match(r"(\\raggedright )?(SimCSE|MCSE|untrained)", line)
    ]
    assert len(rows) == 14, "as in the paper"


def test_differences_have_no_p_value_and_verdicts_are_signs_that_a_note_explains() -> None:
    cells = (
        CellText("+1.00", extra="p = 0.04"),
        CellText.from_verdict(Agreement.TOO_FEW),
        CellText("1"),
    )
    verdicts = (
        (Agreement.REPRODUCED, ""),
        (Agreement.DIFFERS, ""),
        (Agreement.UNDECIDED, "12 seeds"),
    )
    signs = tuple(CellText.from_verdict(*verdict) for verdict in verdicts)
    lines = (
        Line(("mcse", "difference"), cells[:1] * 3, "difference"),
        Line(("mcse", "verdict"), cells, "verdict"),
        Line(("dalr", "verdict: a long sum"), signs, "verdict"),
    )
    heads, columns = ("variant", "what"), ("a", "b", "c")
    text = format_latex_table(
        Grid("k", "t", heads, columns, (False,) * 3, (Section("s", lines),), ("±1 point",))
    )
    assert r"mcse & difference & +1.00 &  & +1.00 & +1.00 &  \tabularnewline" in text
    assert r"mcse & verdict & +1.00 & ~(p = 0.04) & -- & 1 &  \tabularnewline" in text
    assert r"dalr & verdict & $\approx$ &  & $\neq$ & ? & ~(12) \tabularnewline" in text
    assert (
        r"Signs of verdicts: $\approx$ reproduced, $\neq$ differs, ? not distinguishable (" in text
    )
    assert r"$\pm$1 point" in text
