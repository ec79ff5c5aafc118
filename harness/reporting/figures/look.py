"""How figures look, and how they become SVG and PDF: matplotlib's objects alone, the same bytes every time.

Colours are those of Okabe and Ito (2008), which colour-blind readers tell apart; marks and dashes differ too, so that
a figure can be read in grey. A figure stands on a white card, on light and dark pages alike.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (8, 2, 2, 2)))
PRINTED, INK, GRID = "#6b6b6b", "#222222", "#dddddd"
#: Marks in one panel above which they are drawn as pixels: a file of thousands of shapes is slow to show.
MANY = 1500
#: Inches of a panel.
PANEL = (3.6, 3.0)
_RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    # a name is shown as it is, whatever dollar signs it has
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.5,
}
_TAG = re.compile(r"<[^>]*>")
_NAMED = re.compile(r"(\bid=\"|href=\"#|url\(#)")


def drawn(key: str, title: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> tuple[str, bytes]:
    """What `draw` puts on a figure of `size` inches, as an SVG element and a PDF file.

    The ids of the SVG begin with `key`, so that many can stand on one page.
    """
    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **_RC, "svg.hashsalt": key}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        figure.suptitle("\n".join(textwrap.wrap(title, int(size[0] * 11))), fontsize=10, fontweight="bold")
        draw(figure)
        # twice, for the first layout moves what the second finds in place
        figure.draw_without_rendering()
        svg, pdf = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", dpi=200, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        figure.savefig(pdf, format="pdf", dpi=200, metadata=dict.fromkeys(("CreationDate", "Creator", "Producer")))
    return _element(svg.getvalue().decode(), key, title), pdf.getvalue()


def panels(figure: Figure, count: int, columns: int, *, share: bool = False) -> list[Axes]:
    """`count` panels in rows of `columns`, with one vertical scale where they share it."""
    rows = -(-count // columns)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share)
    every = [axes for row in grid for axes in row]
    for axes in every[count:]:
        axes.set_axis_off()
    return every[:count]


def legend_below(figure: Figure, columns: int) -> None:
    """One legend for all panels, each name once."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=columns)


def size_of(count: int, columns: int, below: float = 0.0) -> tuple[float, float]:
    """Inches of a figure with `count` panels in rows of `columns`, and some more below them."""
    rows = -(-count // columns)
    return max(PANEL[0] * min(count, columns), 5.4), PANEL[1] * rows + 0.5 + below


def style(index: int) -> dict[str, Any]:
    """Colour, mark and dash of a line."""
    return {**mark(index), "linestyle": DASHES[index % len(DASHES)], "markersize": 5}


def mark(index: int) -> dict[str, Any]:
    """Colour and mark of a point; colour and mark together repeat after 49."""
    turn = index // len(COLOURS)
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[(index + turn) % len(MARKERS)]}


def wrapped(texts: Sequence[str], width: int) -> list[str]:
    """Texts in lines of at most `width` signs."""
    return ["\n".join(textwrap.wrap(text, width)) or text for text in texts]


def plane_axes(axes: Axes) -> None:
    """A plane of t-SNE has no units."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("first t-SNE dimension")
    axes.set_ylabel("second t-SNE dimension")


def _element(svg: str, key: str, title: str) -> str:
    """An SVG file as an element to put into a page, with its title and ids of its own."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", key)
    svg = _TAG.sub(lambda tag: _NAMED.sub(rf"\g<1>{name}-", tag.group()), svg[svg.index("<svg") :])
    head, end, rest = svg.partition(">")
    return f'{head} role="img"{end}<title>{escape(title)}</title>{rest}'
