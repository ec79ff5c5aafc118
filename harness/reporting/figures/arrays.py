"""Figures that are drawn from a run's arrays: histograms, planes of t-SNE, cosine against gold score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.metrics import ArrayName, Score
from harness.papers.schema import FigureSpec
from harness.reporting.figures.look import COLOURS, MANY, legend_below, mark, panels, plane_axes, size_of, wrapped
from harness.reporting.figures.runs import Material, Run
from harness.reporting.figures.scores import Drawing, vertical

Found = list[tuple[Run, Mapping[str, np.ndarray]]]
#: Bins of a histogram of ranks, at most.
BINS = 50
#: In whose space captions and images are compared: the first that a run has.
SPACES = {"teacher": "the frozen teacher's space", "own": "the method's own shared space"}


def histogram(
    spec: FigureSpec, runs: Sequence[Run], material: Material, lines: Sequence[tuple[str, float]]
) -> Drawing | str:
    """KDMCSE Figures 5 and 6: ranks of images' last true captions, or similarities of images and captions."""
    what = "worst_rank" if spec.metric == "worst_rank" else "similarity_true"
    for space in SPACES:
        for run, arrays in _with(what, spec, runs, material, space)[0]:
            return _histogram(spec, run, arrays, space, lines)
    return "no run with a space of captions and images has been evaluated by the suite figures yet"


def _histogram(
    spec: FigureSpec, run: Run, arrays: Mapping[str, np.ndarray], space: str, lines: Sequence[tuple[str, float]]
) -> Drawing:
    ranks = arrays["worst_rank"]
    true, other, edges = (arrays[f"similarity_{part}"] for part in ("true", "other", "edges"))

    def draw(figure: Figure) -> None:
        (axes,) = panels(figure, 1, 1)
        if spec.metric == "worst_rank":
            # of whole ranks, at most 50 bins
            width = -(-int(ranks.max()) // BINS)
            counts, bins = np.histogram(ranks, np.arange(0.5, ranks.max() + width + 0.5, width))
            _steps(axes, counts, bins, 0, f"{len(ranks):,} images")
            axes.set_xlabel(f"rank of the last true caption among {int(true.sum()):,} captions")
            axes.set_ylabel("images")
            axes.set_yscale("symlog", linthresh=1)
            axes.yaxis.set_major_formatter("{x:,.0f}")
        else:
            keep = np.flatnonzero(true + other)
            low, high = int(keep[0]), int(keep[-1]) + 1
            for index, (counts, name) in enumerate(((other, "other pairs"), (true, "true pairs"))):
                share = 100 * counts[low:high] / max(1, counts.sum())
                _steps(axes, share, edges[low : high + 1], index, f"{name}, n = {int(counts.sum()):,}")
            axes.set_xlabel("cosine of image and caption")
            axes.set_ylabel("percent of the pairs, by hundredths")
        vertical(axes, [(name, value, value) for name, value in lines])
        legend_below(figure, 2)

    text = f"{run.label.variant}, {len(ranks):,} images, in {SPACES[space]}."
    return Drawing(draw, (5.8, 4.2), text, [run])


def scatter(spec: FigureSpec, runs: Sequence[Run], material: Material) -> Drawing | str:
    """DALR Figure 4: cosine against gold score, a panel a variant."""
    found, task = _with("cosine", spec, runs, material)
    if not found:
        return "no run has been evaluated by the suite figures yet"

    def draw(figure: Figure) -> None:
        for index, (axes, (run, arrays)) in enumerate(
            zip(panels(figure, len(found), 2, share=True), found, strict=True)
        ):
            gold, cosines = arrays["gold"], arrays["cosine"]
            axes.scatter(
                gold,
                cosines,
                s=6,
                alpha=0.5,
                linewidths=0,
                rasterized=len(gold) > MANY,
                gid=f"points-{index}",
                **mark(index),
            )
            rank = run.scores.get(Score(spec.suite, task, "spearman"), {}).get(run.result.spec.seed)
            told = "" if rank is None else f", Spearman {rank:.2f}"
            axes.set_title(f"{run.label.variant}{told}")
            axes.set_xlabel(f"gold score, 0 to 5 (n = {len(gold):,})")
            axes.set_ylabel("cosine")

    text = f"Cosine against gold score of every pair of {task}; one seed a panel."
    return Drawing(draw, size_of(len(found), 2), text, [run for run, _ in found])


def captions(spec: FigureSpec, runs: Sequence[Run], material: Material) -> Drawing | str:
    """DALR Figure 3: captions in the plane, coloured by cluster, a panel a variant."""
    found, task = _with("tsne", spec, runs, material)
    if not found:
        return "no run has been evaluated by the suite figures yet"
    clusters = max(int(arrays["clusters"].max()) + 1 for _, arrays in found)
    n = len(found[0][1]["tsne"])

    def draw(figure: Figure) -> None:
        for axes, (run, arrays) in zip(panels(figure, len(found), 2), found, strict=True):
            for cluster in range(int(arrays["clusters"].max()) + 1):
                x, y = arrays["tsne"][arrays["clusters"] == cluster].T
                axes.scatter(x, y, s=9, linewidths=0, rasterized=n > MANY, gid=f"cluster-{cluster}", **mark(cluster))
            axes.set_title(run.label.variant)
            plane_axes(axes)

    text = (
        f"t-SNE of {n:,} captions of {task}, the same in each panel; colour and mark are one of {clusters} clusters of "
        "K-means on the vectors, numbered apart in each panel."
    )
    return Drawing(draw, size_of(len(found), 2), text, [run for run, _ in found])


def encodings(spec: FigureSpec, runs: Sequence[Run], material: Material, example: int) -> Drawing | str:
    """KDMCSE Figures 8 to 12: three captions encoded again and again under dropout, a panel a variant."""
    found, task = _with("views", spec, runs, material)
    if not found:
        return "no run has been evaluated by the suite figures yet"
    texts, n = [str(text) for text in found[0][1]["triples"][example]], found[0][1]["views"].shape[2]

    def draw(figure: Figure) -> None:
        every = panels(figure, len(found), 2)
        for axes, (run, arrays) in zip(every, found, strict=True):
            for index, views in enumerate(arrays["views"][example]):
                axes.scatter(views[:, 0], views[:, 1], s=14, linewidths=0, gid=f"caption-{index}", **mark(index))
            axes.set_title(run.label.variant)
            plane_axes(axes)
        handles: list[Any] = [every[0].scatter([], [], **mark(index)) for index in range(len(texts))]
        figure.legend(handles, wrapped(texts, 80), loc="outside lower center", ncols=1)

    text = (
        f"t-SNE of {n} encodings under dropout of each of three captions of {task}: two close, the third apart. "
        "Each panel is a plane of its own."
    )
    return Drawing(draw, size_of(len(found), 2, 0.8), text, [run for run, _ in found])


def _with(what: str, spec: FigureSpec, runs: Sequence[Run], material: Material, space: str = "") -> tuple[Found, str]:
    """The runs that have an array, their arrays of its task and space by what they hold, and that task."""
    task = spec.task if material.is_paper else None
    found: Found = []
    for run in runs:
        arrays = material.arrays(run.result)
        if task is None:
            task = next((name.task for name in arrays if (name.what, name.space) == (what, space)), None)
        if task is not None and ArrayName(task, what, space) in arrays:
            mine = {name.what: v for name, v in arrays.items() if (name.task, name.space) == (task, space)}
            found.append((run, mine))
    return found, task or spec.task


def _steps(axes: Axes, heights: np.ndarray, edges: np.ndarray, index: int, name: str) -> None:
    axes.stairs(
        heights, edges, color=COLOURS[index], fill=True, alpha=0.35, gid=f"histogram-{index}", label=name,
        hatch=("", "//")[index],
    )  # fmt: skip
    axes.stairs(heights, edges, color=COLOURS[index], linewidth=1)
