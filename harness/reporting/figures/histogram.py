"""Histograms of ranks and of similarities of images and captions (KDMCSE Figures 5 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.metrics import ArrayName
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.figures.look import COLOURS, HATCHES, legend_below, panels, printed_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Largest number of bins of a histogram of ranks.
BINS = 50
#: Spaces in which captions and images are compared; the first that a run has is shown.
SPACES = {"teacher": "the frozen teacher's space", "own": "the method's own shared space"}


def draw(data: FigureData) -> Drawing | str:
    """The ranks of each image's last true caption, or the similarities of images and captions, of the first run."""
    for space in SPACES:
        task, found = data.with_arrays("worst_rank", space)
        if found:
            return _histogram(data, found[0], task, space)
    return f"no run with a space of captions and images has been evaluated on {data.spec.suite} yet"


def _histogram(data: FigureData, run: FigureRun, task: str, space: str) -> Drawing:
    whats = ("worst_rank", "similarity_true", "similarity_other", "similarity_edges")
    ranks, true, other, edges = (run.arrays[ArrayName(task, what, space)] for what in whats)

    def on(figure: Figure) -> None:
        (axes,) = panels(figure, 1, 1)
        if data.spec.metric == "worst_rank":
            _ranks(axes, ranks, int(true.sum()))
        else:
            _similarities(axes, true, other, edges)
        printed_lines(axes, [(name, value, value) for name, value in data.printed])
        legend_below(figure, 2)

    return Drawing(on, (5.8, 4.2), f"{run.label.variant}, {len(ranks):,} images, in {SPACES[space]}.", [run])


def _ranks(axes: Axes, ranks: np.ndarray, captions: int) -> None:
    """Counts of whole ranks (m,), in at most BINS bins of equal width."""
    width = -(-int(ranks.max()) // BINS)
    counts, bins = np.histogram(ranks, np.arange(0.5, ranks.max() + width + 0.5, width))
    _steps(axes, counts, bins, 0, f"{len(ranks):,} images")
    axes.set_xlabel(f"rank of the last true caption among {captions:,} captions")
    axes.set_ylabel("images")
    axes.set_yscale("symlog", linthresh=1)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _similarities(axes: Axes, true: np.ndarray, other: np.ndarray, edges: np.ndarray) -> None:
    """Shares of true and other pairs by cosine: counts (n,) between edges (n + 1,), without empty bins at the ends."""
    keep = np.flatnonzero(true + other)
    low, high = int(keep[0]), int(keep[-1]) + 1
    for index, (counts, name) in enumerate(((other, "other pairs"), (true, "true pairs"))):
        share = 100 * counts[low:high] / max(1, counts.sum())
        _steps(axes, share, edges[low : high + 1], index, f"{name}, n = {int(counts.sum()):,}")
    axes.set_xlabel("cosine of image and caption")
    axes.set_ylabel(f"% of pairs, bins of {edges[1] - edges[0]:.2f}")


def _steps(axes: Axes, heights: np.ndarray, edges: np.ndarray, index: int, name: str) -> None:
    colour = COLOURS[index]
    axes.stairs(
        heights, edges, color=colour, fill=True, alpha=0.35, gid=f"histogram-{index}", label=name, hatch=HATCHES[index]
    )
    axes.stairs(heights, edges, color=colour, linewidth=1)


KIND = FigureKind(draw)
