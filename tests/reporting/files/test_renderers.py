from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from builders import frame, over_seeds, result, sts

from harness.papers.published import read_papers, read_published
from harness.reporting.files.csv import COLUMNS, tidy
from harness.reporting.files.latex import escape as latex_escape
from harness.reporting.files.latex import latex
from harness.reporting.files.markdown import escape as markdown_escape
from harness.reporting.files.markdown import markdown
from harness.reporting.formats import CellText
from harness.reporting.seeds.headline import Sentence
from harness.reporting.seeds.summary import summary_tables
from harness.reporting.tables.filled import paper_tables
from harness.reporting.tables.grids import Grid, Line, Section, summary_grid

NASTY = r"a_b&c%d#e[f]{g}$h~i^j\k|l<m>n*"


def grid(name: str = NASTY) -> Grid:
    lines = (
        Line((name, "3"), (CellText("-0.25", "0.10", "*"), CellText("71.00", "", "†", "n = 2")), "plain", 2),
        Line((name, "4"), (CellText("–"), CellText("1.00")), "plain", 0),
    )
    return Grid(
        "tiny-sts", f"sts, {name}", ("variant", "seeds"), (name, "Avg"), (False, True), (Section(name, lines),), ()
    )


def test_latex_escapes_every_special_character() -> None:
    text = latex([grid()], "made % by & us\nnow")
    body = text.split("\n", 2)[2]
    plain = re.sub(r"\\(text\w+\{\}|[_&%#${}])", "", body).replace("\\\\\n", "\n")
    for line in plain.splitlines():
        assert "#" not in line
        assert line.count("&") in (0, 3), line
    assert not re.search(r"\\\\\s*\[", body), "a bracket after a line's end would be read as its option"
    assert text.startswith("% made % by & us now\n% Needs")
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")
    assert latex_escape("é中\n") == "éU+4E2D "


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


def test_markdown_cells_hold_no_markup() -> None:
    text = markdown([Sentence("here", "a <b>bold</b> claim", "note")], [grid()], "footer")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "<b>" not in text
    assert "a &lt;b>bold&lt;/b> claim" in text
    assert markdown_escape("x_y*z`[w](v)|u\nt") == r"x\_y\*z\`\[w\](v)\|u t"


def test_markdown_shows_every_cell() -> None:
    (table,) = summary_tables(frame(over_seeds("mcse", [70.0, 72.0]) + over_seeds("simcse", [20.0, 22.0])))
    text = markdown([], [summary_grid(table)], "footer")
    assert r"| toy / toy-bert | mcse | 2 | 71.00 ± 1.41\* | 71.00 ± 1.41\* |" in text


def test_csv_has_one_row_a_cell_unrounded() -> None:
    place: dict[str, Any] = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}
    scores = dict.fromkeys(["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"], 76.123456789)
    results = [result("mcse", seed, sts(**scores), **place) for seed in (0, 1)]
    results += over_seeds("mcse", [70.0, 72.0]) + over_seeds("simcse", [20.0, 23.0])
    data = frame(results)
    text = tidy(summary_tables(data), paper_tables(read_papers(), read_published(), data))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == COLUMNS
    assert "nan" not in text.lower()
    summary = [row for row in rows if row["table"] == "summary"]
    assert len(summary) == 8 + 2 * 2
    mcse = next(row for row in summary if (row["variant"], row["profile"], row["task"]) == ("mcse", "tiny", "Avg"))
    assert float(mcse["difference"]) == pytest.approx(49.5)
    assert (mcse["against"], mcse["verdict"], mcse["n"], mcse["seeds"]) == ("simcse", "better", "2", "0 1")
    paper = [row for row in rows if row["table"] == "mcse T1"]
    assert len(paper) == 14 * 8
    cell = next(
        row
        for row in paper
        if (row["variant"], row["setting"], row["encoder"], row["task"])
        == ("mcse", "wiki+flickr", "bert-base-uncased", "Avg")
    )
    assert cell["mean"].startswith("76.12345678")
    assert (cell["published"], cell["published_std"], cell["published_seeds"], cell["published_star"]) == (
        "77.3",
        "0.5",
        "5",
        "1",
    )
    assert float(cell["minus_published"]) == pytest.approx(76.123456789 - 77.3)
    assert 0 < float(cell["p_published"]) < 1
    assert cell["command"].startswith("harness run --profile paper --methods mcse")
