"""Figures from arrays stored beside results.

Histograms of ranks and of similarities of images and captions (KDMCSE Figures 5 and 6), cosine against gold score
(DALR 4) and planes of t-SNE (DALR 3, KDMCSE 8 to 12).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.metrics import ArrayName, Score
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.figures.look import COLOURS, HATCHES, MANY, legend_below, mark, panels, printed_lines, size_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Largest number of bins of a histogram of ranks.
BINS = 50
#: Spaces in which captions and images are compared; the first that a run has is shown.
SPACES = {"teacher": "the frozen teacher's space", "own": "the method's own shared space"}


def histogram(data: FigureData) -> Drawing | str:
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
        (axes,) = panels(figure, 1)
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
    axes.set(xlabel=f"rank of the last true caption among {captions:,} captions", ylabel="images")
    axes.set_yscale("symlog", linthresh=1)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _similarities(axes: Axes, true: np.ndarray, other: np.ndarray, edges: np.ndarray) -> None:
    """Shares of true and other pairs by cosine: counts (n,) between edges (n + 1,), without empty bins at the ends."""
    keep = np.flatnonzero(true + other)
    low, high = int(keep[0]), int(keep[-1]) + 1
    for index, (counts, name) in enumerate(((other, "other pairs"), (true, "true pairs"))):
        share = 100 * counts[low:high] / max(1, counts.sum())
        _steps(axes, share, edges[low : high + 1], index, f"{name}, n = {int(counts.sum()):,}")
    axes.set(xlabel="cosine of image and caption", ylabel=f"% of pairs, bins of {edges[1] - edges[0]:.2f}")


def _steps(axes: Axes, heights: np.ndarray, edges: np.ndarray, index: int, name: str) -> None:
    filled: dict[str, Any] = {"fill": True, "alpha": 0.35, "hatch": HATCHES[index]}
    axes.stairs(heights, edges, color=COLOURS[index], gid=f"histogram-{index}", label=name, **filled)
    axes.stairs(heights, edges, color=COLOURS[index], linewidth=1)


def scatter(data: FigureData) -> Drawing | str:
    """Cosine against gold score, one panel for each variant."""
    task, found = data.with_arrays("cosine")
    if not found:
        return data.unevaluated

    def on(figure: Figure) -> None:
        for at, (axes, run) in enumerate(zip(panels(figure, len(found), 2, share=True), found, strict=True)):
            gold, cosines = (run.arrays[ArrayName(task, what)] for what in ("gold", "cosine"))
            n, rank = len(gold), run.scores.get(Score(data.spec.suite, task, "spearman"), {}).get(run.result.spec.seed)
            axes.scatter(
                gold, cosines, s=6, alpha=0.5, linewidths=0, rasterized=n > MANY, gid=f"points-{at}", **mark(at)
            )
            axes.set_title(run.label.variant + ("" if rank is None else f", Spearman {rank:.2f}"))
            axes.set_xlabel(f"gold score, 0 to 5 (n = {n:,})")
            axes.set_ylabel("cosine")

    text = f"Cosine against gold score for all pairs of {task}, one seed for each panel."
    return Drawing(on, size_of(len(found), 2), text, found)


def t_sne(data: FigureData) -> Drawing | str:
    """Planes of t-SNE: repeated encodings of captions if the figure's metric is `views`, else clusters of captions."""
    return _views(data) if data.spec.metric == "views" else _clusters(data)


def _clusters(data: FigureData) -> Drawing | str:
    """Captions in the plane, coloured by cluster."""
    task, found = data.with_arrays("tsne")
    if not found:
        return data.unevaluated
    arrays = [(run.arrays[ArrayName(task, "tsne")], run.arrays[ArrayName(task, "clusters")]) for run in found]
    clouds = [[xy[cluster_of == one] for one in range(int(cluster_of.max()) + 1)] for xy, cluster_of in arrays]
    text = (
        f"t-SNE of {len(arrays[0][0]):,} captions of {task}, the same in every panel. Colours and marks: "
        f"{max(map(len, clouds))} clusters of K-means on the vectors; their order differs between panels."
    )
    return Drawing(partial(_planes, found, clouds, "cluster", 9), size_of(len(found), 2), text, found)


def _views(data: FigureData) -> Drawing | str:
    """Three captions encoded repeatedly under dropout."""
    task, found = data.with_arrays("views")
    if not found:
        return data.unevaluated
    clouds = [run.arrays[ArrayName(task, "views")][data.index] for run in found]
    captions = [str(text) for text in found[0].arrays[ArrayName(task, "triples")][data.index]]
    text = (
        f"t-SNE of {clouds[0].shape[1]} encodings under dropout of each of three captions of {task}: two similar and "
        "a different one. Every panel has its own plane."
    )
    draw = partial(_planes, found, clouds, "caption", 14, names=captions)
    return Drawing(draw, size_of(len(found), 2, 0.8), text, found)


def _planes(
    runs: Sequence[FigureRun],
    clouds: Sequence[Iterable[np.ndarray]],
    what: str,
    size: int,
    figure: Figure,
    names: Sequence[str] = (),
) -> None:
    """One panel for each run with its clouds of points, each (n, 2). `names` of the clouds go into a legend."""
    every = panels(figure, len(runs), 2)
    for axes, run, mine in zip(every, runs, clouds, strict=True):
        pixels = sum(map(len, mine)) > MANY
        for at, xy in enumerate(mine):
            x, y = xy.T
            axes.scatter(x, y, s=size, linewidths=0, rasterized=pixels, gid=f"{what}-{at}", **mark(at))
        axes.set_title(run.label.variant)
        axes.set(xticks=[], yticks=[], xlabel="first t-SNE dimension", ylabel="second t-SNE dimension")
    if names:
        handles: list[Any] = [every[0].scatter([], [], **mark(at)) for at in range(len(names))]
        figure.legend(handles, [textwrap.fill(name, 80) for name in names], loc="outside lower center", ncols=1)


HISTOGRAM = FigureKind(histogram)
SCATTER = FigureKind(scatter)
T_SNE = FigureKind(t_sne)
