"""Tables as Markdown in GitHub's dialect and as CSV, the formats by name, and report.md."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from harness.command_line import TABLE_FORMATS
from harness.formatting import for_csv, for_markdown, visible
from harness.reporting.seeds.wording import Sentence
from harness.reporting.tables.grids import ABSENT, PARTS, CellText, Grid, get_code
from harness.reporting.tables.latex import format_latex_table


def format_markdown(
    sentences: Sequence[Sentence], grids: Iterable[Grid], footer: str
) -> Iterator[str]:
    """The text of report.md, piece by piece."""
    yield "# Results\n\n"
    for place, group in groupby(sentences, key=lambda sentence: sentence.place):
        yield f"**{for_markdown(place)}**\n\n" if place else ""
        yield "\n".join(f"- {for_markdown(sentence.text)}" for sentence in group) + "\n\n"
    for grid in grids:
        yield f"{format_markdown_table(grid)}\n\n"
    yield f"---\n\n{for_markdown(footer)}\n"


def format_markdown_table(grid: Grid) -> str:
    """A table with its title, notes and the commands for missing runs."""
    header = [for_markdown(name) for name in ("where", *grid.heads, *grid.titles)]
    ruler = ["---"] * (1 + len(grid.heads)) + ["---:"] * len(grid.columns)
    lines = [_format_markdown_line(header), _format_markdown_line(ruler)]
    for title, line in grid.lines:
        heads = [for_markdown(str(text)) for text in (title, *line.heads)]
        lines.append(_format_markdown_line([*heads, *map(_format_markdown_cell, line.cells)]))

    notes = "\n".join(f"- {for_markdown(note)}" for note in grid.remarks)
    parts = [f"## {for_markdown(grid.title)}", "\n".join(lines), notes]
    if grid.commands:
        commands = [" ".join(visible(command).splitlines()) for command in grid.commands]
        listed = "\n".join(f"    {command}" for command in commands)
        parts.append(f"Still to run:\n\n{listed}")
    return "\n\n".join(filter(None, parts))


def _format_markdown_cell(cell: CellText) -> str:
    """A cell; bold print covers the number and its spread, not its mark."""
    text = str(cell)
    if not cell.bold:
        return for_markdown(text)
    number = str(replace(cell, mark="", caveats="", extra=""))
    return f"**{for_markdown(number)}**{for_markdown(text.removeprefix(number))}"


def _format_markdown_line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def format_csv_table(grid: Grid) -> str:
    """The table with a column for each number, and for the deviations, marks and remarks that any
    cell has.
    """
    parts_of_columns = grid.parts
    names = ["where", "code", *grid.heads]
    for title, parts in zip(grid.titles, parts_of_columns, strict=True):
        names.append(title)
        names += [f"{title} {PARTS[part]}" for part in parts]

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(for_csv, names))
    for title, line in grid.lines:
        fields = [title, get_code(line.heads[0]), *map(str, line.heads)]
        for cell, parts in zip(line.cells, parts_of_columns, strict=True):
            fields.append("" if cell.value == ABSENT else cell.value)
            fields += [getattr(cell, part) for part in parts]
        writer.writerow(map(for_csv, fields))
    return stream.getvalue()


#: name -> a table in that format
FORMATS: Mapping[str, Callable[[Grid], str]] = dict(
    zip(TABLE_FORMATS, (format_markdown_table, format_latex_table, format_csv_table), strict=True)
)
