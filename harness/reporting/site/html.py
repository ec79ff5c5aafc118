"""Pages from the templates in reports/templates: no network, everything from a result escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.reporting.figures.curves import Chart
from harness.reporting.figures.svg import style, svg
from harness.reporting.files.latex import table as latex_table
from harness.reporting.site.names import slug
from harness.reporting.tables.grids import Grid

#: A word in a cell that judges -> how the badge around it looks.
BADGES = {
    "agrees": "good",
    "differs": "bad",
    "too few seeds to say": "open",
    "holds": "good",
    "the other way round": "bad",
    "not seen": "open",
    "fails": "bad",
    "within rounding": "open",
}


class Pages:
    """Writes pages below one folder, each by a template that is compiled once."""

    def __init__(self, folder: Path, **shared: Any) -> None:
        """`shared` is known to all templates."""
        self.folder = folder
        self._environment = Environment(
            loader=FileSystemLoader(str(files("harness_reports") / "templates")),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "badge": lambda text: BADGES.get(text, ""),
            "breaks": breaks,
            "latex": latex_table,
            "minus": minus,
            "slug": slug,
            "spreads": spreads,
            "svg": _svg,
            "swatch": style,
        }
        self._environment.globals |= shared

    def write(self, template: str, path: str, **content: Any) -> None:
        """One page at a path below the folder; it is written piece by piece, never held whole."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        stream = self._environment.get_template(template).stream(root="../" * path.count("/"), here=path, **content)
        stream.enable_buffering(200)
        stream.dump(str(target), encoding="utf-8")

    def put(self, path: str, content: bytes) -> None:
        """A file as it is, at a path below the folder."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def minus(text: str) -> str:
    """Numbers below zero with a true minus sign; a hyphen inside a name stays."""
    return re.sub(r"(?:^|(?<=\s))-(?=\d)", "\u2212", text)


def breaks(text: str) -> Markup:
    """A name, escaped, that may go on in a new line before its options and after its separators."""
    return Markup("<wbr>").join(re.split(r"(?=\[)|(?<=[,=/+_])", text))


def spreads(grid: Grid) -> Sequence[bool]:
    """Whether any cell of a column has a spread: the others then keep its room, so that decimals stay aligned."""
    lines = [line.cells for section in grid.sections for line in section.lines]
    return [any(cells[index].spread for cells in lines) for index in range(len(grid.columns))]


def _svg(chart: Chart) -> Markup:
    # Safe: the element tree has escaped every text in it.
    return Markup(svg(chart))
