"""The report as Markdown, in GitHub's dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from harness.reporting.seeds.headline import Sentence
from harness.reporting.tables.grids import CellText, Grid


def markdown(sentences: Sequence[Sentence], grids: Sequence[Grid], footer: str) -> str:
    """The text of report.md."""
    parts = ["# Results"]
    for place, group in groupby(sentences, key=lambda sentence: sentence.place):
        parts += [f"**{escape(place)}**"] if place else []
        parts.append("\n".join(f"- {escape(sentence.text)}" for sentence in group))
    parts += [table(grid) for grid in grids]
    return "\n\n".join([*parts, "---", escape(footer)]) + "\n"


def table(grid: Grid) -> str:
    """A table with its title, notes and the commands for missing runs."""
    header = [escape(name) for name in ("where", *grid.heads, *grid.columns)]
    ruler = ["---"] * (1 + len(grid.heads)) + ["---:"] * len(grid.columns)
    lines = [_line(header), _line(ruler)]
    for section in grid.sections:
        for line in section.lines:
            heads = [escape(text) for text in (section.title, *line.heads)]
            lines.append(_line([*heads, *map(_cell, line.cells)]))
    notes = "\n".join(f"- {escape(note)}" for note in grid.notes)
    parts = [f"## {escape(grid.title)}", "\n".join(lines), notes]
    if grid.commands:
        parts.append("Still to run:\n\n" + "\n".join(f"    {command}" for command in grid.commands))
    return "\n\n".join(part for part in parts if part)


def escape(text: str) -> str:
    """Escape a text so that nothing in it becomes markup, ends a cell or starts a line."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", text)


def _cell(cell: CellText) -> str:
    """A cell; bold print covers the number and its spread, not its mark."""
    number = str(replace(cell, mark="", extra=""))
    return escape(str(cell)) if not cell.bold else f"**{escape(number)}**" + escape(str(cell).removeprefix(number))


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
