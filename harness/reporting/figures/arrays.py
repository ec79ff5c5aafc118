"""Figures from arrays stored beside results.

Histograms of ranks and of similarities of images and captions (KDMCSE Figures 5 and 6), cosine
against gold score (DALR 4) and planes of t-SNE (DALR 3, KDMCSE 8 to 12).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from harness.metrics import ArrayName, Score
from harness.reporting import look
from harness.reporting.figures.kinds import (
    Drawing,
    FigureData,
    FigureKind,
    FigureRun,
    name_labels,
)

#: Largest number of bins of a histogram of ranks.
BINS = 50
#: Spaces in which captions and images are compared; the first that a run has is shown.
SPACES = {"teacher": "the frozen teacher's space", "own": "the method's own shared space"}
#: an axis without numbers
_BARE = {"labels": False, "ticks": False, "grid": False}


class Bars(NamedTuple):
    """The bars of a series: n heights, and their n + 1 edges."""

    heights: np.ndarray
    edges: np.ndarray


class Histogram(NamedTuple):
    """The bars of each series by its name, and the axes."""

    series: Mapping[str, Bars]
    x: look.ChartSpec
    y: look.ChartSpec


class Planes(NamedTuple):
    """The clouds of points (n, 2) of each run, the size of a point, what they are in words, and the
    names of the clouds, if they have any.
    """

    clouds: Sequence[Iterable[np.ndarray]]
    size: int
    text: str
    names: Sequence[str] = ()


def draw_histogram(data: FigureData) -> Drawing | str:
    """The ranks of each image's last true caption, or the similarities of images and captions, of
    the first run.
    """
    for space in SPACES:
        task, runs = data.with_arrays("worst_rank", space)
        if runs:
            return _draw_run_histogram(data, runs[0], task, space)
    return f"no run with a space of captions and images has been evaluated on {data.spec.suite} yet"


def _draw_run_histogram(data: FigureData, run: FigureRun, task: str, space: str) -> Drawing:
    """Draw the ranks or similarities of a run, with printed values as lines."""
    if data.spec.metric == "worst_rank":
        histogram = _count_ranks(run, task, space)
    else:
        histogram = _count_similarities(run, task, space)
    printed = [
        look.LineAcross(f"printed: {name}, {value:g}", value) for name, value in data.printed
    ]

    colour = look.encode_series(look.choose_looks(histogram.series))["color"]
    layers = [_draw_bars(histogram, name, colour) for name in histogram.series]
    layers += look.draw_lines("x", printed)
    panel = {"height": 150 + 9 * len(printed), "layer": layers}

    images = len(run.arrays[ArrayName(task, "worst_rank", space)])
    text = f"{run.label.name}, {images:,} images, in {SPACES[space]}."
    return Drawing(look.join_panels([panel]), text, [run])


def _count_ranks(run: FigureRun, task: str, space: str) -> Histogram:
    """Counts of whole ranks (m,), in at most BINS bins of equal width."""
    ranks = run.arrays[ArrayName(task, "worst_rank", space)]
    captions = int(run.arrays[ArrayName(task, "similarity_true", space)].sum())

    width = math.ceil(int(ranks.max()) / BINS)
    edges = np.arange(0.5, ranks.max() + width + 0.5, width)
    bars = Bars(*np.histogram(ranks, edges))

    # counts are shown by their logarithm, in which 0 has a place
    ticks = {"values": [0, *(10**power for power in range(8))]}
    x = look.encode_axis("low", f"rank of the last true caption among {captions:,} captions")
    y = look.encode_axis("height", "images", scale={"type": "symlog"}, axis=ticks)
    return Histogram({f"{len(ranks):,} images": bars}, x, y)


def _count_similarities(run: FigureRun, task: str, space: str) -> Histogram:
    """Shares of true and other pairs by cosine, without empty bins at the ends."""
    true_counts = run.arrays[ArrayName(task, "similarity_true", space)]
    other_counts = run.arrays[ArrayName(task, "similarity_other", space)]
    edges = run.arrays[ArrayName(task, "similarity_edges", space)]

    filled_bins = np.flatnonzero(true_counts + other_counts)
    first = int(filled_bins[0])
    end = int(filled_bins[-1]) + 1
    series = {}
    for name, counts in (("other pairs", other_counts), ("true pairs", true_counts)):
        pairs = counts.sum()
        shares = 100 * counts[first:end] / max(1, pairs)
        series[f"{name}, n = {int(pairs):,}"] = Bars(shares, edges[first : end + 1])

    x = look.encode_axis("low", "cosine of image and caption")
    y = look.encode_axis("height", f"% of pairs, bins of {edges[1] - edges[0]:.2f}")
    return Histogram(series, x, y)


def _draw_bars(histogram: Histogram, name: str, colour: look.ChartSpec) -> look.ChartSpec:
    """The layer of the bars of one series."""
    bars = histogram.series[name]
    heights = bars.heights.tolist()
    edges = bars.edges.tolist()
    values = [
        {"series": name, "height": height, "low": low, "high": high}
        for height, low, high in zip(heights, edges[:-1], edges[1:], strict=True)
    ]
    encoding = {
        "x": histogram.x,
        "x2": {"field": "high"},
        "y": histogram.y,
        "y2": {"datum": 0},
        "color": colour,
    }
    return look.make_data_layer(values, "rect", encoding, opacity=0.55)


def draw_scatter(data: FigureData) -> Drawing | str:
    """Cosine against gold score, one panel for each variant."""
    task, runs = data.with_arrays("cosine")
    if not runs:
        return data.unevaluated

    names = name_labels([run.label for run in runs])
    looks = look.choose_looks(names)
    panels = []
    for run, drawn_as in zip(runs, looks, strict=True):
        gold = run.arrays[ArrayName(task, "gold")]
        points = np.stack([gold, run.arrays[ArrayName(task, "cosine")]], 1)
        x = look.encode_axis("x", f"gold score, 0 to 5 (n = {len(gold):,})")
        y = look.encode_axis("y", "cosine")
        cloud = _draw_cloud(points, drawn_as, x, y, 3)
        panels.append({"title": _name_scatter(data, run, task, drawn_as.name), **cloud})

    text = f"Cosine against gold score for all pairs of {task}, one seed for each panel."
    return Drawing(look.join_panels(panels, share=True), text, runs)


def _name_scatter(data: FigureData, run: FigureRun, task: str, name: str) -> str:
    """The name of a run, with the correlation of its seed if that is known."""
    correlations = run.cell(Score(data.spec.suite, task, "spearman"))
    correlation = correlations.by_seed.get(run.result.spec.seed) if correlations else None
    return name if correlation is None else f"{name}, Spearman {correlation:.2f}"


def _draw_cloud(
    points: np.ndarray, drawn_as: look.Look, x: look.ChartSpec, y: look.ChartSpec, size: int
) -> look.ChartSpec:
    """The layer of a cloud: points (n, 2) of one look."""
    mark = {
        "filled": True,
        "strokeWidth": 0,
        "size": size,
        "color": drawn_as.colour,
        "shape": drawn_as.shape,
        "opacity": 1,
    }
    values = [{"x": float(f"{x:.5g}"), "y": float(f"{y:.5g}")} for x, y in points.tolist()]
    return look.make_data_layer(values, "point", {"x": x, "y": y}, **mark)


def draw_t_sne(data: FigureData) -> Drawing | str:
    """Planes of t-SNE: repeated encodings of captions if the figure's metric is `views`, else
    clusters of captions.
    """
    is_of_views = data.spec.metric == "views"
    task, runs = data.with_arrays("views" if is_of_views else "tsne")
    if not runs:
        return data.unevaluated

    if is_of_views:
        planes = _read_views(data, task, runs)
    else:
        planes = _read_clusters(task, runs)
    return Drawing(look.join_panels(_draw_planes(runs, planes)), planes.text, runs)


def _read_clusters(task: str, runs: Sequence[FigureRun]) -> Planes:
    """The planes of captions, with a cloud for each of a run's clusters."""
    clouds = []
    for run in runs:
        points = run.arrays[ArrayName(task, "tsne")]
        cluster_of_point = run.arrays[ArrayName(task, "clusters")]
        clusters = range(int(cluster_of_point.max()) + 1)
        clouds.append([points[cluster_of_point == cluster] for cluster in clusters])

    captions = len(runs[0].arrays[ArrayName(task, "tsne")])
    text = (
        f"t-SNE of {captions:,} captions of {task}, the same in every panel. Colours and marks: "
        f"{max(map(len, clouds))} clusters of K-means on the vectors; their order differs between panels."
    )
    return Planes(clouds, 5, text)


def _read_views(data: FigureData, task: str, runs: Sequence[FigureRun]) -> Planes:
    """The planes of encodings of three captions, with a cloud for each caption."""
    clouds = [run.arrays[ArrayName(task, "views")][data.index] for run in runs]
    captions = runs[0].arrays[ArrayName(task, "triples")][data.index]
    text = (
        f"t-SNE of {clouds[0].shape[1]} encodings under dropout of each of three captions of {task}: two similar and "
        "a different one. Every panel has its own plane."
    )
    return Planes(clouds, 8, text, list(map(str, captions)))


def _draw_planes(runs: Sequence[FigureRun], planes: Planes) -> list[look.ChartSpec]:
    """One panel for each run with its clouds; the legend of their names stands in the first."""
    x = look.encode_axis("x", "first t-SNE dimension", axis=_BARE)
    y = look.encode_axis("y", "second t-SNE dimension", axis=_BARE)
    titles = name_labels([run.label for run in runs])
    panels: list[look.ChartSpec] = []
    for title, clouds in zip(titles, planes.clouds, strict=True):
        layers = []
        for at, points in enumerate(clouds):
            drawn_as = look.choose_series_look(at, "")
            layers.append(_draw_cloud(points, drawn_as, x, y, planes.size))
        panels.append({"title": title, "layer": layers})

    if planes.names:
        panels[0]["layer"].append(_draw_cloud_legend(planes.names))
    return panels


def _draw_cloud_legend(names: Sequence[str]) -> look.ChartSpec:
    """A layer of invisible points, which has a legend of names."""
    by = look.encode_series(look.choose_looks(names))
    encoding = {"color": by["color"], "shape": by["shape"], "opacity": {"value": 0}}
    values = [{"series": name} for name in names]
    return look.make_data_layer(values, "point", encoding, filled=True)


HISTOGRAM = FigureKind(draw_histogram)
SCATTER = FigureKind(draw_scatter)
T_SNE = FigureKind(draw_t_sne)
