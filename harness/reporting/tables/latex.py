"""Tables as LaTeX floats for a two-column document: booktabs, text of 8 or 7 pt, in one column or
across both.

Decimals are aligned by two plain columns, of numbers and of what follows them, which needs no
package beside booktabs. A table that is wider than the page at 7 pt is split into parts below each
other, and a taller one into several floats.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from harness.formatting import for_latex
from harness.metrics import Agreement
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section

#: in points: a column and the page of ACL's style (IEEE's are wider), the height of rows and notes,
#: the gap of columns
COLUMN = 219.0
PAGE = 455.0
HEIGHT = 590.0
GAP = 6.0
#: sizes of text in points; most characters of three lines of a caption; floats that LaTeX holds
#: back at most
SIZES = (8, 7)
CAPTION = {COLUMN: 128, PAGE: 275}
HELD = 8
#: at least the widths of characters in em, in Computer Modern at 7 pt, which is wider than Times
_EM = dict.fromkeys("ijl.,:;'!|", 0.33) | dict.fromkeys(" -()[]/ftrsI", 0.45)
_EM |= dict.fromkeys("cez", 0.5) | dict.fromkeys("mwMW±≈≠%@&", 0.95)
_NUMBER = re.compile(rf"[-+]?[\d.,]*\d%?|[≈≠?{ABSENT}]")

#: words would make a table of eight columns too wide
_VERDICTS = {Agreement.REPRODUCED: "≈", Agreement.DIFFERS: "≠", Agreement.UNDECIDED: "?"}
_SIGNS = ", ".join(f"{mark} {verdict}" for verdict, mark in _VERDICTS.items())
_VERDICT_NOTE = f"Signs of verdicts: {_SIGNS} (with the seeds a side that would decide)."


class _Column(NamedTuple):
    """A column: its number in the grid, heading in lines, width in em, alignment and, if folded,
    width in points.
    """

    at: int
    heading: list[str]
    width: float
    align: str
    points: float = math.inf

    @property
    def span(self) -> int:
        return 2 if self.align == "r@{}l" else 1

    def at_size(self, size: int) -> float:
        return min(size * self.width, self.points) + GAP


def latex(grids: Iterable[Grid], footer: str) -> Iterator[str]:
    """The text of report.tex, without tables that have no rows, piece by piece."""
    yield f"% {' '.join(footer.split())}\n% Needs \\usepackage{{booktabs}} in the preamble.\n\n"
    for number, grid in enumerate(
        grid for grid in grids if any(section.lines for section in grid.sections)
    ):
        yield ("\n" if number % HELD else "\n\\clearpage\n") * bool(number)
        yield latex_table(grid)


def latex_table(grid: Grid) -> str:
    """A table as one float or more, with a caption of at most three lines; the rest of its remarks
    stands below.
    """
    key = re.sub("[^A-Za-z0-9]", "-", grid.key)
    caption = f"{grid.title}."
    names = len(grid.heads)
    grid = replace(
        grid,
        columns=(*grid.heads, *grid.columns),
        groups=("",) * names + grid.groups,
        sections=tuple(replace(one, lines=tuple(_lines(one))) for one in grid.sections),
    )
    size, room, parts = _layout(grid, names)
    if _tall(grid.remarks, room) > HEIGHT / 3:
        room = PAGE
    brief = [grid.caption] if grid.caption else [*grid.legend]
    below = [*grid.legend] if grid.caption else []
    while brief and len(f"{caption} {brief[0]}") <= CAPTION[room]:
        caption += f" {brief.pop(0)}"
    shown = {
        cell.verdict for section in grid.sections for line in section.lines for cell in line.cells
    }
    below = [note for note in (*brief, *below, *grid.notes) if "`harness " not in note]
    below += [_VERDICT_NOTE] * bool(shown & {*_VERDICTS})
    most = max(HEIGHT - _tall(below, room), HEIGHT / 2) / (1.2 * size * len(parts))
    kind = "table" if room == COLUMN else "table*"
    floats = list(_split(grid.sections, size, parts, most))
    return "".join(
        f"\\begin{{{kind}}}\n\\centering\n"
        + (
            f"\\caption{{{_text(caption)}}}\n\\label{{tab:{key}}}\n"
            if not at
            else _CONTINUED.format(_text(grid.title))
        )
        + f"{_font(size)}\\setlength{{\\tabcolsep}}{{{GAP / 2:g}pt}}%\n"
        + "\\par\\medskip\n".join(_tabular(grid, sections, part) for part in parts)
        + (_below(below) if at == len(floats) - 1 else "")
        + f"\\end{{{kind}}}\n"
        for at, sections in enumerate(floats)
    )


_CONTINUED = "\\addtocounter{{table}}{{-1}}\n\\caption{{{} (continued).}}\n"


def _font(size: int) -> str:
    return f"\\fontsize{{{size}}}{{{1.2 * size:g}}}\\selectfont"


def _tall(notes: Sequence[str], room: float) -> float:
    return sum(1.2 * SIZES[-1] * math.ceil(SIZES[-1] * _width(note) / room) for note in notes)


def _below(notes: Sequence[str]) -> str:
    text = "\n\\par\n".join(map(_text, notes))
    start = f"\\par\\smallskip\n\\begin{{minipage}}{{\\linewidth}}{_font(SIZES[-1])}\\raggedright\n"
    return f"{start}{text}\n\\end{{minipage}}\n" if notes else ""


def _lines(section: Section) -> Iterator[Line]:
    """Lines with their heads as cells, without p-values and verdicts of too few seeds, which only
    tables.csv has.
    """
    for line in section.lines:
        heads = (
            [*map(str, line.heads)]
            if line.span
            else [*("" for _ in line.heads[1:]), str(line.heads[-1])]
        )
        if line.kind == "verdict" and any(cell.verdict in _VERDICTS for cell in line.cells):
            heads[-1] = heads[-1].partition(":")[
                0
            ]  # the signs already show what the row's verdict would say
        cells = (
            replace(cell, extra="") if line.kind == "difference" else cell for cell in line.cells
        )
        if line.span or any(cell.value != ABSENT for cell in line.cells):
            yield replace(line, cells=(*map(CellText, heads), *map(_signed, cells)))


def _signed(cell: CellText) -> CellText:
    if cell.verdict is Agreement.TOO_FEW:
        return CellText(ABSENT)
    sign = _VERDICTS.get(cell.verdict) if isinstance(cell.verdict, Agreement) else None
    if not sign:
        return cell
    # what one test says alone may stand before the seeds that would decide
    seeds = cell.extra.rpartition("; ")[2].partition(" ")[0]
    return replace(cell, value=sign, extra=seeds)


def _layout(grid: Grid, names: int) -> tuple[int, float, list[list[_Column]]]:
    """The size of the text, the width of the float and the columns of each part, which begins with
    the `names`.

    A table is put into a column or else across the page, at 8 or else 7 pt. If it does not fit,
    texts are folded, and other columns stand in several parts of about the same width.
    """
    cells = [
        [line.cells[at] for section in grid.sections for line in section.lines]
        for at in range(len(grid.columns))
    ]
    columns = [
        _column(at, name, cells[at], is_name=at < names) for at, name in enumerate(grid.columns)
    ]
    for room, size in ((room, size) for room in (COLUMN, PAGE) for size in SIZES):
        if sum(column.at_size(size) for column in columns) - GAP <= room:
            return size, room, [columns]
    size, texts = (
        SIZES[0],
        sorted(size * column.width + GAP for column in columns if column.align == "l"),
    )
    left = max(
        PAGE - sum(column.at_size(size) for column in columns if column.align != "l"), 0.45 * PAGE
    )
    while texts and texts[0] * len(texts) <= left:
        left -= texts.pop(0)
    most = left / len(texts) - GAP if texts else math.inf
    columns = [
        one._replace(points=most) if one.align == "l" and size * one.width > most else one
        for one in columns
    ]
    heads = columns[:names]
    rest = columns[names:]
    left = PAGE + GAP - sum(head.at_size(size) for head in heads)
    parts = [rest]
    for count in range(1, len(rest) + 1):
        step = math.ceil(len(rest) / count)
        parts = [rest[at : at + step] for at in range(0, len(rest), step)]
        if all(sum(column.at_size(size) for column in part) <= left for part in parts):
            break
    return size, PAGE, [heads + part for part in parts]


def _column(at: int, name: str, cells: Sequence[CellText], *, is_name: bool) -> _Column:
    is_text = is_name or not all(_NUMBER.fullmatch(cell.value) for cell in cells)
    after = max((_width(_after(cell)) for cell in cells), default=0.0)
    width = after + max(
        (_width(cell.value) * (1.15 if cell.bold else 1) for cell in cells), default=0.0
    )
    heading = textwrap.wrap(
        name, max(9, int(2 * width)), break_long_words=False, break_on_hyphens=False
    )
    align = "l" if is_text else "r@{}l" if after else "r"
    return _Column(at, heading, max([width, *map(_width, heading)]), align)


@lru_cache(maxsize=1 << 16)
def _width(text: str) -> float:
    return sum(_EM.get(char, 0.8 if char.isupper() else 0.57) for char in text)


def _split(
    sections: Sequence[Section], size: int, parts: Sequence[Sequence[_Column]], most: float
) -> Iterator[tuple[Section, ...]]:
    """The sections of each float, of at most so many lines of text; lines of one span stay
    together.
    """
    some = list[Section]()
    used = 0.0
    columns = [column for part in parts for column in part]
    for section, line in ((one, line) for one in sections for line in one.lines):
        tall = max(
            math.ceil(1.2 * size * _width(str(line.cells[one.at])) / one.points) or 1
            for one in columns
        )
        if some and line.span and used + tall * line.span > most:
            yield tuple(some)
            some = []
            used = 0.0
        if not some or some[-1].title != section.title:
            some.append(replace(section, lines=()))
            used += 1.5
        some[-1] = replace(some[-1], lines=(*some[-1].lines, line))
        used += tall
    yield tuple(some)


def _tabular(grid: Grid, sections: Sequence[Section], part: Sequence[_Column]) -> str:
    spec = "".join(
        one.align if math.isinf(one.points) else f"p{{{one.points:.0f}pt}}" for one in part
    )
    rows = [f"\\begin{{tabular}}{{@{{}}{spec}@{{}}}}\n\\toprule\n{_header(grid, part)}"]
    for section in sections:
        width = sum(column.span for column in part)
        rows.append(
            f"\\midrule\n\\multicolumn{{{width}}}{{@{{}}l@{{}}}}{{\\textit{{{_text(section.title)}}}}} \\\\\n"
        )
        for at, line in enumerate(section.lines):
            rows.append("\\midrule\n" * (at > 0 and line.group != section.lines[at - 1].group))
            rows.append(
                " & ".join(_cell(line.cells[column.at], column) for column in part)
                + " \\tabularnewline\n"
            )
    return "".join([*rows, "\\bottomrule\n\\end{tabular}\n"])


def _header(grid: Grid, part: Sequence[_Column]) -> str:
    """The headings of columns, below those of their groups where there are any."""
    row = " & ".join(_heading(column.heading, column.span) for column in part) + " \\\\\n"
    if not any(grid.groups):
        return row
    at = 0
    cells = []
    rules = ""
    for group, some in (
        (group, list(some)) for group, some in groupby(part, key=lambda one: grid.groups[one.at])
    ):
        span = sum(column.span for column in some)
        width = sum(column.width for column in some)
        lines = textwrap.wrap(
            group, max(9, int(1.8 * width)), break_long_words=False, break_on_hyphens=False
        )
        cells.append(_heading(lines, span) if group else " & " * (span - 1))
        rules += f"\\cmidrule(lr){{{at + 1}-{at + span}}}" * bool(group)
        at += span
    return f"{' & '.join(cells)} \\\\\n{rules}\n{row}"


def _heading(lines: Sequence[str], span: int) -> str:
    text = r" \\ ".join(map(_text, lines))
    text = text if len(lines) < 2 else f"\\begin{{tabular}}[b]{{@{{}}c@{{}}}}{text}\\end{{tabular}}"
    return text if span == 1 else f"\\multicolumn{{{span}}}{{c}}{{{text}}}"


def _cell(cell: CellText, column: _Column) -> str:
    """A cell, or two if its column is double; a folded text may break within names."""
    value = _text(cell.value if column.span == 2 else cell)
    if not math.isinf(column.points):
        value = "\\raggedright " + re.sub(r"([/+=,:_-])(?=[^\s$])", r"\1\\allowbreak{}", value)
    value = rf"\textbf{{{value}}}" if cell.bold else value
    return f"{value} & {_text(_after(cell)).replace(' (', '~(')}" if column.span == 2 else value


def _after(cell: CellText) -> str:
    """What follows the number of a cell: its spread, marks and remark."""
    return cell.after.replace(" ± ", "±")


def _text(text: object) -> str:
    r"""A text without commands and with minus signs; a letter with its value is one formula,
    `$\lambda = 0.1$`.
    """
    signed = for_latex(re.sub(r"(?<![\w)])-(?=\.?\d)", "−", str(text)))
    return re.sub(r"(\$\\[a-z]+)\$ = (?:\$(-)\$)?(\d+(?:\.\d+)?(?:e-?\d+)?)", r"\1 = \2\3$", signed)
