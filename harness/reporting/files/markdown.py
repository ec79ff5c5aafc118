"""The report as Markdown, in GitHub's dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from harness.formatting import for_markdown, visible
from harness.reporting.seeds.words import Sentence
from harness.reporting.tables.grids import CellText, Grid


def markdown(sentences: Sequence[Sentence], grids: Sequence[Grid], footer: str) -> str:
    """The text of report.md."""
    parts = ["# Results"]
    for place, group in groupby(sentences, key=lambda sentence: sentence.place):
        parts += [f"**{for_markdown(place)}**"] if place else []
        parts.append("\n".join(f"- {for_markdown(sentence.text)}" for sentence in group))
    parts += [table(grid) for grid in grids]
    return "\n\n".join([*parts, "---", for_markdown(footer)]) + "\n"


def table(grid: Grid) -> str:
    """A table with its title, notes and the commands for missing runs."""
    header = [for_markdown(name) for name in ("where", *grid.heads, *grid.titles)]
    ruler = ["---"] * (1 + len(grid.heads)) + ["---:"] * len(grid.columns)
    lines = [_line(header), _line(ruler)]
    for section in grid.sections:
        for line in section.lines:
            heads = [for_markdown(str(text)) for text in (section.title, *line.heads)]
            lines.append(_line([*heads, *map(_cell, line.cells)]))
    notes = "\n".join(f"- {for_markdown(note)}" for note in grid.remarks)
    parts = [f"## {for_markdown(grid.title)}", "\n".join(lines), notes]
    if grid.commands:
        commands = (" ".join(visible(command).splitlines()) for command in grid.commands)
        parts.append("Still to run:\n\n" + "\n".join(f"    {command}" for command in commands))
    return "\n\n".join(part for part in parts if part)


def _cell(cell: CellText) -> str:
    """A cell; bold print covers the number and its spread, not its mark."""
    whole, number = str(cell), str(replace(cell, mark="", caveats="", extra=""))
    if not cell.bold:
        return for_markdown(whole)
    return f"**{for_markdown(number)}**{for_markdown(whole.removeprefix(number))}"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
