"""Points of single runs: cosine against gold score (DALR Figure 4) and planes of t-SNE (DALR 3, KDMCSE 8 to 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.metrics import ArrayName, Score
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind
from harness.reporting.figures.look import MANY, mark, panels, plane_axes, size_of, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def scatter(data: FigureData) -> Drawing | str:
    """Cosine against gold score, one panel for each variant."""
    task, found = data.with_arrays("cosine")
    if not found:
        return _nothing(data)

    def on(figure: Figure) -> None:
        every = panels(figure, len(found), 2, share=True)
        for index, (axes, run) in enumerate(zip(every, found, strict=True)):
            gold, cosines = (run.arrays[ArrayName(task, what)] for what in ("gold", "cosine"))
            axes.scatter(
                gold, cosines, s=6, alpha=0.5, linewidths=0, rasterized=len(gold) > MANY, gid=f"points-{index}",
                **mark(index),
            )  # fmt: skip
            rank = run.scores.get(Score(data.spec.suite, task, "spearman"), {}).get(run.result.spec.seed)
            axes.set_title(run.label.variant + ("" if rank is None else f", Spearman {rank:.2f}"))
            axes.set_xlabel(f"gold score, 0 to 5 (n = {len(gold):,})")
            axes.set_ylabel("cosine")

    text = f"Cosine against gold score for all pairs of {task}, one seed for each panel."
    return Drawing(on, size_of(len(found), 2), text, found)


def t_sne(data: FigureData) -> Drawing | str:
    """Planes of t-SNE: repeated encodings of captions if the figure's metric is `views`, else clusters of captions."""
    return _views(data) if data.spec.metric == "views" else _clusters(data)


def _clusters(data: FigureData) -> Drawing | str:
    """Captions in the plane, coloured by cluster, one panel for each variant."""
    task, found = data.with_arrays("tsne")
    if not found:
        return _nothing(data)
    points = [run.arrays[ArrayName(task, "tsne")] for run in found]
    clusters = [run.arrays[ArrayName(task, "clusters")] for run in found]
    n, count = len(points[0]), max(int(one.max()) for one in clusters) + 1

    def on(figure: Figure) -> None:
        every = panels(figure, len(found), 2)
        for axes, run, xy, cluster_of in zip(every, found, points, clusters, strict=True):
            for cluster in range(int(cluster_of.max()) + 1):
                x, y = xy[cluster_of == cluster].T
                axes.scatter(x, y, s=9, linewidths=0, rasterized=n > MANY, gid=f"cluster-{cluster}", **mark(cluster))
            axes.set_title(run.label.variant)
            plane_axes(axes)

    text = (
        f"t-SNE of {n:,} captions of {task}, the same in every panel. Colours and marks: {count} clusters of K-means "
        "on the vectors; their order differs between panels."
    )
    return Drawing(on, size_of(len(found), 2), text, found)


def _views(data: FigureData) -> Drawing | str:
    """Three captions encoded repeatedly under dropout, one panel for each variant."""
    task, found = data.with_arrays("views")
    if not found:
        return _nothing(data)
    views = [run.arrays[ArrayName(task, "views")][data.index] for run in found]
    texts = [str(text) for text in found[0].arrays[ArrayName(task, "triples")][data.index]]

    def on(figure: Figure) -> None:
        every = panels(figure, len(found), 2)
        for axes, run, encodings in zip(every, found, views, strict=True):
            for index, xy in enumerate(encodings):
                axes.scatter(xy[:, 0], xy[:, 1], s=14, linewidths=0, gid=f"caption-{index}", **mark(index))
            axes.set_title(run.label.variant)
            plane_axes(axes)
        handles: list[Any] = [every[0].scatter([], [], **mark(index)) for index in range(len(texts))]
        figure.legend(handles, wrapped(texts, 80), loc="outside lower center", ncols=1)

    text = (
        f"t-SNE of {views[0].shape[1]} encodings under dropout of each of three captions of {task}: two similar and "
        "a different one. Every panel has its own plane."
    )
    return Drawing(on, size_of(len(found), 2, 0.8), text, found)


def _nothing(data: FigureData) -> str:
    return f"no run has been evaluated on {data.spec.suite} yet"


SCATTER = FigureKind(scatter)
T_SNE = FigureKind(t_sne)
