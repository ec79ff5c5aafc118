"""Figures from arrays stored beside results.

Histograms of ranks and of similarities of images and captions (KDMCSE Figures 5 and 6), cosine
against gold score (DALR 4) and planes of t-SNE (DALR 3, KDMCSE 8 to 12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
#: heights and edges of the bars of each series, and the axes
Histograms = tuple[dict[str, tuple[np.ndarray, np.ndarray]], look.ChartSpec, look.ChartSpec]
#: clouds of points of each run, what they are, and the names of the clouds
Clouds = tuple[Sequence[Iterable[np.ndarray]], str, Sequence[str]]


def draw_histogram(data: FigureData) -> Drawing | str:
    """The ranks of each image's last true caption, or the similarities of images and captions, of
    the first run.
    """
    for space in SPACES:
        task, arrays = data.with_arrays("worst_rank", space)
        if arrays:
            return _draw_run_histogram(data, arrays[0], task, space)
    return f"no run with a space of captions and images has been evaluated on {data.spec.suite} yet"


def _draw_run_histogram(data: FigureData, run: FigureRun, task: str, space: str) -> Drawing:
    ranks = run.arrays[ArrayName(task, "worst_rank", space)]

    lines = [look.LineAcross(f"printed: {name}, {value:g}", value) for name, value in data.printed]
    draw = _count_ranks if data.spec.metric == "worst_rank" else _count_similarities
    series, x, y = draw(run, task, space)
    looks = look.encode_series(
        [look.choose_series_look(at, name) for at, name in enumerate(series)]
    )
    layers = [_draw_bars(name, *bars, x, y, looks["color"]) for name, bars in series.items()]
    layers += look.draw_lines("x", lines)
    text = f"{run.label.name}, {len(ranks):,} images, in {SPACES[space]}."
    return Drawing(
        look.join_panels([{"height": 150 + 9 * len(lines), "layer": layers}]), text, [run]
    )


def _count_ranks(run: FigureRun, task: str, space: str) -> Histograms:
    """Counts of whole ranks (m,), in at most BINS bins of equal width."""
    ranks, true = (
        run.arrays[ArrayName(task, what, space)] for what in ("worst_rank", "similarity_true")
    )
    width = -(-int(ranks.max()) // BINS)
    bars = np.histogram(ranks, np.arange(0.5, ranks.max() + width + 0.5, width))
    ticks = {"values": [0, *(10**power for power in range(8))]}
    x = look.encode_axis("low", f"rank of the last true caption among {int(true.sum()):,} captions")
    y = look.encode_axis("height", "images", scale={"type": "symlog"}, axis=ticks)
    return {f"{len(ranks):,} images": bars}, x, y


def _count_similarities(run: FigureRun, task: str, space: str) -> Histograms:
    """Shares of true and other pairs by cosine: counts (n,) between edges (n + 1,), without empty
    bins at the ends.
    """
    whats = ("similarity_true", "similarity_other", "similarity_edges")
    true, other, edges = (run.arrays[ArrayName(task, what, space)] for what in whats)
    keep = np.flatnonzero(true + other)
    low = int(keep[0])
    high = int(keep[-1]) + 1
    series = {
        f"{name}, n = {int(counts.sum()):,}": (
            100 * counts[low:high] / max(1, counts.sum()),
            edges[low : high + 1],
        )
        for counts, name in ((other, "other pairs"), (true, "true pairs"))
    }
    unit = f"% of pairs, bins of {edges[1] - edges[0]:.2f}"
    return (
        series,
        look.encode_axis("low", "cosine of image and caption"),
        look.encode_axis("height", unit),
    )


def _draw_bars(
    name: str,
    heights: np.ndarray,
    edges: np.ndarray,
    x: look.ChartSpec,
    y: look.ChartSpec,
    colour: look.ChartSpec,
) -> look.ChartSpec:
    bars = zip(heights.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    values = [
        {"series": name, "height": height, "low": low, "high": high} for height, low, high in bars
    ]
    encoding = {"x": x, "x2": {"field": "high"}, "y": y, "y2": {"datum": 0}, "color": colour}
    return {**look.make_data(values), **look.make_layer("rect", encoding, opacity=0.55)}


def draw_scatter(data: FigureData) -> Drawing | str:
    """Cosine against gold score, one panel for each variant."""
    task, arrays = data.with_arrays("cosine")
    if not arrays:
        return data.unevaluated

    panels = []
    names = name_labels([run.label for run in arrays])
    for at, (run, name) in enumerate(zip(arrays, names, strict=True)):
        gold, cosines = (run.arrays[ArrayName(task, what)] for what in ("gold", "cosine"))
        ranks = run.cell(Score(data.spec.suite, task, "spearman"))
        rank = ranks.by_seed.get(run.result.spec.seed) if ranks else None
        x = look.encode_axis("x", f"gold score, 0 to 5 (n = {len(gold):,})")
        y = look.encode_axis("y", "cosine")
        title = name if rank is None else f"{name}, Spearman {rank:.2f}"
        points = np.stack([gold, cosines], 1)
        cloud = _draw_cloud(points, look.choose_series_look(at, ""), x, y, 3)
        panels.append({"title": title, **cloud})
    text = f"Cosine against gold score for all pairs of {task}, one seed for each panel."
    return Drawing(look.join_panels(panels, share=True), text, arrays)


def _draw_cloud(
    xy: np.ndarray, shown: look.Look, x: look.ChartSpec, y: look.ChartSpec, size: int
) -> look.ChartSpec:
    """The layer of a cloud: points (n, 2) of one look."""
    looks = {
        "filled": True,
        "strokeWidth": 0,
        "size": size,
        "color": shown.colour,
        "shape": shown.shape,
        "opacity": 1,
    }
    values = [{"x": float(f"{x:.5g}"), "y": float(f"{y:.5g}")} for x, y in xy.tolist()]
    return {**look.make_data(values), **look.make_layer("point", {"x": x, "y": y}, **looks)}


def draw_t_sne(data: FigureData) -> Drawing | str:
    """Planes of t-SNE: repeated encodings of captions if the figure's metric is `views`, else
    clusters of captions.
    """
    is_of_views = data.spec.metric == "views"
    task, runs = data.with_arrays("views" if is_of_views else "tsne")
    if not runs:
        return data.unevaluated

    if is_of_views:
        size = 8
        clouds, text, names = _read_views(data, task, runs)
    else:
        size = 5
        clouds, text, names = _read_clusters(data, task, runs)
    return Drawing(look.join_panels(_draw_planes(runs, clouds, size, names)), text, runs)


def _read_clusters(data: FigureData, task: str, runs: Sequence[FigureRun]) -> Clouds:
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
    return clouds, text, ()


def _read_views(data: FigureData, task: str, runs: Sequence[FigureRun]) -> Clouds:
    clouds = [run.arrays[ArrayName(task, "views")][data.index] for run in runs]
    captions = [str(text) for text in runs[0].arrays[ArrayName(task, "triples")][data.index]]
    text = (
        f"t-SNE of {clouds[0].shape[1]} encodings under dropout of each of three captions of {task}: two similar and "
        "a different one. Every panel has its own plane."
    )
    return clouds, text, captions


def _draw_planes(
    runs: Sequence[FigureRun],
    clouds: Sequence[Iterable[np.ndarray]],
    size: int,
    names: Sequence[str],
) -> list[look.ChartSpec]:
    """One panel for each run with its clouds of points, each (n, 2). `names` of the clouds go into
    a legend.
    """
    x = look.encode_axis("x", "first t-SNE dimension", axis=_BARE)
    y = look.encode_axis("y", "second t-SNE dimension", axis=_BARE)
    panels: list[look.ChartSpec] = []
    titles = name_labels([run.label for run in runs])
    for title, own_clouds in zip(titles, clouds, strict=True):
        layers = [
            _draw_cloud(xy, look.choose_series_look(at, ""), x, y, size)
            for at, xy in enumerate(own_clouds)
        ]
        panels.append({"title": title, "layer": layers})
    if names:
        looks = look.encode_series(
            [look.choose_series_look(at, name) for at, name in enumerate(names)]
        )
        shown = {"color": looks["color"], "shape": looks["shape"], "opacity": {"value": 0}}
        legend = look.make_layer("point", shown, filled=True)
        panels[0]["layer"].append({**look.make_data({"series": name} for name in names), **legend})
    return panels


HISTOGRAM = FigureKind(draw_histogram)
SCATTER = FigureKind(draw_scatter)
T_SNE = FigureKind(draw_t_sne)
