"""The look of figures, and their rendering as SVG and PDF with matplotlib, byte for byte reproducible.

Colours are those of Okabe and Ito (2008), which colour-blind readers can distinguish; marks and dashes differ too, so
that figures can be read in grey. Figures have a white background on light and dark pages.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from harness.plaintext import visible
from harness.stats import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "\\\\", "xx")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (8, 2, 2, 2)))
PRINTED, INK, GRID = "#6b6b6b", "#222222", "#dddddd"
#: Panels with more marks than this are drawn as pixels, since thousands of SVG shapes are slow to show.
MANY = 1500
#: Size of a panel in inches.
PANEL = (3.6, 3.0)
_RC: dict[str, Any] = {
    **{"svg.fonttype": "none", "pdf.fonttype": 42, "text.parse_math": False},  # dollar signs in names are no formulas
    **{"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9, "axes.titlesize": 9},
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True},
    **{"grid.color": GRID, "grid.linewidth": 0.6, "hatch.linewidth": 0.5},
    **{"legend.frameon": False, "legend.fontsize": 8},
}
_TAG = re.compile(r"<[^>]*>")
_NAMED = re.compile(r"(\bid=\"|href=\"#|url\(#)")


def drawn(key: str, title: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> tuple[str, bytes]:
    """Render a figure of `size` inches as an SVG element and a PDF file.

    The ids of the SVG begin with `key`, so that one page can hold many figures.
    """
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **_RC, "svg.hashsalt": key}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        figure.suptitle(textwrap.fill(title, int(size[0] * 11)), fontsize=10, fontweight="bold")
        draw(figure)
        # laid out twice: the first layout moves what the second measures
        figure.draw_without_rendering()
        svg, pdf = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", dpi=200, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        figure.savefig(pdf, format="pdf", dpi=200, metadata=dict.fromkeys(("CreationDate", "Creator", "Producer")))
    return _element(visible(svg.getvalue().decode()), key, title), pdf.getvalue()


def panels(figure: Figure, count: int, columns: int = 1, *, share: bool = False) -> list[Axes]:
    """`count` panels in rows of at most `columns`; `share` gives all of them one vertical scale."""
    rows, columns = _layout(count, columns)
    every = list(figure.subplots(rows, columns, squeeze=False, sharey=share).flat)
    for axes in every[count:]:
        axes.set_axis_off()
    return every[:count]


def size_of(count: int, columns: int, below: float = 0.0) -> tuple[float, float]:
    """Size in inches of a figure with `count` panels in rows of at most `columns`, and `below` more inches."""
    rows, columns = _layout(count, columns)
    return max(PANEL[0] * columns, 5.4), PANEL[1] * rows + 0.5 + below


def legend_below(figure: Figure, columns: int) -> None:
    """Add one legend for all panels, with every name once."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=columns)


def style(index: int) -> dict[str, Any]:
    """Arguments for the colour, mark and dash of a line."""
    return {**mark(index), "linestyle": DASHES[index % len(DASHES)], "markersize": 5}


def mark(index: int) -> dict[str, Any]:
    """Arguments for the colour and mark of a point; the pairs repeat after 49."""
    turn = index // len(COLOURS)
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[(index + turn) % len(MARKERS)]}


def n_of(summaries: Iterable[Summary]) -> str:
    """The number of seeds of some means: `n = 5`, or `n = 2 to 5` if it differs."""
    counts = sorted({summary.n for summary in summaries})
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"


def printed_lines(axes: Axes, lines: Iterable[tuple[str, float, float]]) -> None:
    """Draw printed numbers as grey vertical lines, given their names, values and places on the axis."""
    for index, (name, value, place) in enumerate(lines):
        dash = (0, (2 + 2 * index, 2))
        axes.axvline(place, color=PRINTED, linewidth=1, linestyle=dash, label=f"printed: {name}, {value:g}")


def _layout(count: int, columns: int) -> tuple[int, int]:
    """Rows and columns of `count` panels in rows of at most `columns`."""
    columns = min(columns, count)
    return -(-count // columns), columns


def _element(svg: str, key: str, title: str) -> str:
    """Turn an SVG file into an element for a page, with a title and unique ids."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", key)
    svg = _TAG.sub(lambda tag: _NAMED.sub(rf"\g<1>{name}-", tag.group()), svg[svg.index("<svg") :])
    head, end, rest = svg.partition(">")
    return f'{head} role="img"{end}<title>{escape(visible(title))}</title>{rest}'
