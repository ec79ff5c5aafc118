"""Render the templates in reports/templates. Texts from results are escaped; pages load nothing from the network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.formatting import count_of, duration
from harness.reporting.figures.curves import Chart
from harness.reporting.figures.svg import style, svg
from harness.reporting.files.latex import table as latex_table
from harness.reporting.site.names import slug
from harness.reporting.tables.grids import Grid
from harness.store import overrides_text
from harness.verdicts import tone

#: The folder of templates, style sheet and script.
TEMPLATES = Path(str(files("harness_reports") / "templates"))


class Pages:
    """A writer of pages below one folder."""

    def __init__(self, folder: Path, **shared: object) -> None:
        """Compile templates on first use; all of them see the `shared` values."""
        self.folder = folder
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "breaks": breaks,
            "count": count_of,
            "duration": duration,
            "latex": latex_table,
            "minus": minus,
            "overrides": overrides_text,
            "slug": slug,
            "spreads": spreads,
            "svg": _svg,
            "swatch": style,
            "tone": tone,
        }
        self._environment.globals |= shared

    def write(self, template: str, path: str, **content: object) -> None:
        """Write a page at a path below the folder, piece by piece to save memory."""
        stream = self._environment.get_template(template).stream(root="../" * path.count("/"), here=path, **content)
        stream.enable_buffering(200)
        stream.dump(str(self._target(path)), encoding="utf-8")

    def put(self, path: str, content: bytes) -> None:
        """Write a file at a path below the folder."""
        self._target(path).write_bytes(content)

    def _target(self, path: str) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


def minus(text: str) -> str:
    """Give negative numbers a true minus sign; hyphens within names stay."""
    return re.sub(r"(?:^|(?<=\s))-(?=\d)", "\u2212", text)


def breaks(text: str) -> Markup:
    """Escape a name and let it break before its options and after separators."""
    return Markup("<wbr>").join(re.split(r"(?=\[)|(?<=[,=/+_])", text))


def spreads(grid: Grid) -> Sequence[bool]:
    """Whether any cell of a column has a spread; the other cells then leave space for it to keep decimals aligned."""
    lines = [line.cells for section in grid.sections for line in section.lines]
    return [any(cells[index].spread for cells in lines) for index in range(len(grid.columns))]


def _svg(chart: Chart) -> Markup:
    return Markup(svg(chart))  # safe: the element tree escapes all texts
