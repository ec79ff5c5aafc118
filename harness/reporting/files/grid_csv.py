"""One table as CSV, rounded as the report prints it; tables.csv has the unrounded numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from harness.plaintext import for_csv
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section, code_of

#: what a cell has beside its number -> the end of that column's name
_PARTS = {"spread": "deviation", "mark": "mark", "caveats": "caveat", "extra": "remark"}


def table_csv(grid: Grid) -> str:
    """The table with a column for each number, and for the deviations, marks and remarks that any cell has."""
    lines = [(section, line, heads) for section in grid.sections for line, heads in _filled(section)]
    parts = [
        [part for part in _PARTS if any(getattr(line.cells[at], part) for _, line, _ in lines)]
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
    for section, line, heads in lines:
        values = (value for cell, some in zip(line.cells, parts, strict=True) for value in _values(cell, some))
        writer.writerow(map(for_csv, (section.title, *heads, *values)))
    return stream.getvalue()


def _filled(section: Section) -> Iterator[tuple[Line, list[str]]]:
    """Each line with its heads, after the code of the first; heads shared with lines above are repeated."""
    shared: Line | None = None
    for line in section.lines:
        shared = line if line.span or shared is None else shared
        heads = [*shared.heads[:-1], line.heads[-1]]
        yield line, [code_of(heads[0]), *map(str, heads)]


def _values(cell: CellText, parts: list[str]) -> list[str]:
    return ["" if cell.value == ABSENT else cell.value, *(getattr(cell, part) for part in parts)]
