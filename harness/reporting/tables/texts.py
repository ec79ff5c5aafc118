"""Tables as Markdown in GitHub's dialect, as LaTeX for booktabs and graphicx, and as CSV; report.md and report.tex."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from harness.command_line import TABLE_FORMATS
from harness.formatting import for_csv, for_latex, for_markdown, visible
from harness.metrics import Agreement
from harness.reporting.seeds.caveats import COLLAPSED, SELECTED
from harness.reporting.seeds.wording import Sentence
from harness.reporting.tables.grids import ABSENT, BETTER, EQUAL, WORSE, CellText, Grid, Line, Section, code_of


def markdown(sentences: Sequence[Sentence], grids: Sequence[Grid], footer: str) -> str:
    """The text of report.md."""
    parts = ["# Results"]
    for place, group in groupby(sentences, key=lambda sentence: sentence.place):
        parts += [f"**{for_markdown(place)}**"] if place else []
        parts.append("\n".join(f"- {for_markdown(sentence.text)}" for sentence in group))
    parts += [markdown_table(grid) for grid in grids]
    return "\n\n".join([*parts, "---", for_markdown(footer)]) + "\n"


def markdown_table(grid: Grid) -> str:
    """A table with its title, notes and the commands for missing runs."""
    header = [for_markdown(name) for name in ("where", *grid.heads, *grid.titles)]
    ruler = ["---"] * (1 + len(grid.heads)) + ["---:"] * len(grid.columns)
    lines = [_markdown_line(header), _markdown_line(ruler)]
    for section in grid.sections:
        for line in section.lines:
            heads = [for_markdown(str(text)) for text in (section.title, *line.heads)]
            lines.append(_markdown_line([*heads, *map(_markdown_cell, line.cells)]))
    notes = "\n".join(f"- {for_markdown(note)}" for note in grid.remarks)
    parts = [f"## {for_markdown(grid.title)}", "\n".join(lines), notes]
    if grid.commands:
        commands = (" ".join(visible(command).splitlines()) for command in grid.commands)
        parts.append("Still to run:\n\n" + "\n".join(f"    {command}" for command in commands))
    return "\n\n".join(part for part in parts if part)


def _markdown_cell(cell: CellText) -> str:
    """A cell; bold print covers the number and its spread, not its mark."""
    whole, number = str(cell), str(replace(cell, mark="", caveats="", extra=""))
    if not cell.bold:
        return for_markdown(whole)
    return f"**{for_markdown(number)}**{for_markdown(whole.removeprefix(number))}"


def _markdown_line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


_MARKS = {
    **{"": "", BETTER: r"$^{*}$", WORSE: r"$^{\dagger}$", EQUAL: r"$^{\approx}$"},
    **{f"({BETTER})": r"$^{(*)}$", f"({WORSE})": r"$^{(\dagger)}$"},
}

_CAVEATS = {COLLAPSED: r"$^{\ddagger}$", SELECTED: r"$^{\S}$"}

#: words would make a table of eight columns too wide
_VERDICTS = {Agreement.REPRODUCED: r"$\approx$", Agreement.DIFFERS: r"$\neq$", Agreement.UNDECIDED: "?"}
_VERDICT_NOTE = ", ".join(f"{mark}~{verdict}" for verdict, mark in _VERDICTS.items())


def latex(grids: Sequence[Grid], footer: str) -> str:
    """The text of report.tex."""
    head = f"% {' '.join(footer.split())}\n% Needs \\usepackage{{booktabs,graphicx}} in the preamble.\n"
    return head + "\n" + "\n".join(latex_table(grid) for grid in grids)


def latex_table(grid: Grid) -> str:
    """A table environment, scaled down to the width of the text."""
    width = len(grid.heads) + len(grid.columns)
    align = "l" * len(grid.heads) + "r" * len(grid.columns)
    caption = " ".join([f"{grid.title}.", *grid.legend])
    body = "".join(f"\\midrule\n{_latex_section(section, width)}\n" for section in grid.sections)
    fitted = "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%"
    return (
        "\\begin{table}\n\\centering\n"
        f"\\caption{{{_text(caption)}}}\n\\label{{tab:{re.sub('[^A-Za-z0-9]', '-', grid.key)}}}\n"
        f"{fitted}\n\\begin{{tabular}}{{{align}}}\n"
        f"\\toprule\n{_header(grid)}{body}\\bottomrule\n\\end{{tabular}}}}\n"
        f"{_below(_notes(grid))}\\end{{table}}\n"
    )


def _header(grid: Grid) -> str:
    """The headings of columns, below those of their groups where there are any."""
    names = " & ".join(_text(name) for name in (*grid.heads, *grid.columns)) + " \\\\\n"
    if not grid.spans:
        return names
    at, cells, rules = len(grid.heads), [""] * len(grid.heads), ""
    for group, span in grid.spans:
        cells.append(f"\\multicolumn{{{span}}}{{c}}{{{_text(group)}}}")
        rules += f"\\cmidrule(lr){{{at + 1}-{at + span}}}" * bool(group)
        at += span
    return " & ".join(cells) + f" \\\\\n{rules}\n{names}"


def _notes(grid: Grid) -> list[str]:
    """The notes for a reader of the paper, without those that name a command, and the signs for verdicts."""
    shown = [cell.verdict for section in grid.sections for line in section.lines for cell in line.cells]
    signs = [f"Signs of verdicts: {_VERDICT_NOTE}."] if any(verdict in _VERDICTS for verdict in shown) else []
    return [*(_text(note) for note in grid.notes if "`harness " not in note), *signs]


def _text(text: object) -> str:
    r"""A text without commands; a letter with its value is one formula, `$\lambda = 0.1$`."""
    return re.sub(r"(\$\\[a-z]+)\$ = (-?[\d.]+)", r"\1 = \2$", for_latex(str(text)))


def _below(notes: Sequence[str]) -> str:
    """Escaped notes below a table in small print."""
    if not notes:
        return ""
    text = "\n\\par\n".join(notes)
    return f"\\par\\smallskip\n\\begin{{minipage}}{{\\linewidth}}\\footnotesize\n{text}\n\\end{{minipage}}\n"


def _latex_section(section: Section, width: int) -> str:
    rows = [f"\\multicolumn{{{width}}}{{l}}{{\\textit{{{_text(section.title)}}}}} \\\\"]
    for index, line in enumerate(section.lines):
        if index and line.group != section.lines[index - 1].group:
            rows.append("\\midrule")
        if any(cell.value != ABSENT for cell in line.cells) or line.span:
            rows.append(_latex_line(line))
    return "\n".join(rows)


def _latex_line(line: Line) -> str:
    """A line without p-values and without verdicts of too few seeds, which only tables.csv has."""
    heads = [*map(str, line.heads)] if line.span else [*("" for _ in line.heads[1:]), str(line.heads[-1])]
    if line.kind == "verdict" and any(cell.verdict in _VERDICTS for cell in line.cells):
        heads[-1] = heads[-1].partition(":")[0]  # the signs already show what the row's verdict would say
    cells = [replace(cell, extra="") if line.kind == "difference" else cell for cell in line.cells]
    cells = [CellText(ABSENT) if cell.verdict is Agreement.TOO_FEW else cell for cell in cells]
    return " & ".join([*map(_text, heads), *map(_latex_cell, cells)]) + " \\\\"


def _latex_cell(cell: CellText) -> str:
    if isinstance(cell.verdict, Agreement):
        return _VERDICTS[cell.verdict] + (f" ({for_latex(cell.extra)})" if cell.extra else "")
    value = f"$-${for_latex(cell.value[1:])}" if cell.value.startswith("-") else for_latex(cell.value)
    value = rf"\textbf{{{value}}}" if cell.bold else value
    spread = rf"\,$\pm$\,{for_latex(cell.spread)}" if cell.spread else ""
    extra = f" ({for_latex(cell.extra)})" if cell.extra else ""
    return value + spread + _MARKS[cell.mark] + "".join(map(_CAVEATS.__getitem__, cell.caveats)) + extra


#: a part of a cell beside its number -> the last word of that part's column
_PARTS = {"spread": "deviation", "mark": "mark", "caveats": "caveat", "extra": "remark"}


def csv_table(grid: Grid) -> str:
    """The table with a column for each number, and for the deviations, marks and remarks that any cell has."""
    lines = [(section.title, line) for section in grid.sections for line in section.lines]
    parts = [
        [part for part in _PARTS if any(getattr(line.cells[at], part) for _, line in lines)]
        for at in range(len(grid.columns))
    ]
    names = [
        name
        for title, some in zip(grid.titles, parts, strict=True)
        for name in (title, *(f"{title} {_PARTS[part]}" for part in some))
    ]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(for_csv, ("where", "code", *grid.heads, *names)))
    for title, line in lines:
        fields = [title, code_of(line.heads[0]), *map(str, line.heads)]
        for cell, some in zip(line.cells, parts, strict=True):
            fields += ["" if cell.value == ABSENT else cell.value, *(getattr(cell, part) for part in some)]
        writer.writerow(map(for_csv, fields))
    return stream.getvalue()


#: name -> a table in that format
FORMATS: Mapping[str, Callable[[Grid], str]] = dict(
    zip(TABLE_FORMATS, (markdown_table, latex_table, csv_table), strict=True)
)
