"""Material for figures: made results in a store, and what an SVG shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import numpy as np
from builders import result

from harness.metrics import AVERAGE, ArrayName
from harness.papers.published import Paper, read_papers
from harness.papers.schema import FigureSpec
from harness.registry import get_instance
from harness.reporting.contents import Contents
from harness.reporting.figures.kinds import Drawing, FigureKind
from harness.reporting.figures.drawn import Material, ReportFigure
from harness.store import Result, Store

SVG = "{http://www.w3.org/2000/svg}"
BERT = {"encoder": "bert-base-uncased", "profile": "paper"}
PAPERS = {paper.name: paper for paper in read_papers()}
Arrays = Mapping[ArrayName, np.ndarray]


class ArraysStore(Store):
    """A store whose results all have the same arrays."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(Path("nowhere"))
        self.same = arrays

    def arrays(self, result: Result) -> Arrays:
        return self.same


def material(
    name: str, results: Sequence[Result], arrays: Arrays | None, profile: str, figures: Mapping[str, FigureSpec]
) -> tuple[Material, Paper, str]:
    """The runs, the paper and the figure's own name of PAPER-FIGURE."""
    key, _, short = name.partition("-")
    paper = PAPERS[key].model_copy(update={"figures": figures}) if figures else PAPERS[key]
    contents = Contents(ArraysStore(arrays or {}), results)
    vars(contents)["papers"] = [paper]  # in place of the shipped ones
    return Material(profile, contents), paper, short


def figure(
    name: str, results: Sequence[Result], arrays: Arrays | None = None, profile: str = "paper", **figures: FigureSpec
) -> ReportFigure:
    """One figure by PAPER-FIGURE. Further `figures` are those of the paper by name instead of its own."""
    found, paper, short = material(name, results, arrays, profile, figures)
    return found.figure(paper, short)


def rows(name: str, results: Sequence[Result], arrays: Arrays | None = None) -> list[list[dict[str, Any]]]:
    """The data of each layer of a figure."""
    found, paper, short = material(name, results, arrays, "paper", {})
    kind = get_instance("figure kind", paper.figures[short].kind, FigureKind)
    drawing = kind.draw(found.data(paper, short))
    assert isinstance(drawing, Drawing)
    return rows_of(drawing.spec)


def rows_of(spec: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """The data of a specification and of its panels and layers."""
    mine = [spec["data"]["values"]] if "data" in spec else []
    parts = [*spec.get("concat", ()), *spec.get("layer", ())]
    return [*mine, *(found for part in parts for found in rows_of(part))]


def scored(variant: str, seed: int, suite: str, scores: dict[str, dict[str, float]], **more: Any) -> Result:
    return result(variant, seed, {suite: scores}, **{**BERT, **more})


def averages(variant: str, setting: str, values: Sequence[float]) -> list[Result]:
    return [
        scored(variant, seed, "sts", {AVERAGE: {"spearman": value}}, setting=setting)
        for seed, value in enumerate(values)
    ]


def texts(figure: ReportFigure) -> list[str]:
    return ["".join(one.itertext()) for one in Tree.fromstring(figure.svg).iter(f"{SVG}text")]


def geometry(variant: str, setting: str, seed: int, uniformity: float, alignment: float, sts: float) -> Result:
    tasks = {"STS-B-dev": {"alignment": alignment, "uniformity": uniformity}, "STS-B": {"alignment": 9.0}}
    return result(variant, seed, {"geometry": tasks, "sts": {AVERAGE: {"spearman": sts}}}, setting=setting, **BERT)


POINTS = [
    geometry("simcse", "flickr", 0, -2.0, 0.2, 70.0),
    geometry("simcse", "flickr", 1, -2.2, 0.4, 72.0),
    geometry("mcse", "flickr", 0, -1.1, 0.3, 75.0),
    geometry("mcse", "wiki+coco", 0, -3.1, 0.9, 74.0),
]


def arrays(task: str = "Flickr30k") -> dict[ArrayName, np.ndarray]:
    """The arrays of the suite `figures`, small."""
    rng = np.random.default_rng(0)
    true, other = np.zeros(200, dtype=int), np.zeros(200, dtype=int)
    true[150:153], other[100:110] = [1, 2, 1], 10
    return {
        ArrayName(task, "worst_rank", "teacher"): np.array([1, 1, 3, 9]),
        ArrayName(task, "similarity_true", "teacher"): true,
        ArrayName(task, "similarity_other", "teacher"): other,
        ArrayName(task, "similarity_edges", "teacher"): np.linspace(-1, 1, 201),
        ArrayName(task, "triples"): np.array([[f"{n} <b>first</b>", "second $x$", "third"] for n in range(5)]),
        ArrayName(task, "views"): rng.standard_normal((5, 3, 6, 2)).astype(np.float32),
        ArrayName("COCO", "tsne"): rng.standard_normal((30, 2)).astype(np.float32),
        ArrayName("COCO", "clusters"): np.arange(30) % 4,
        ArrayName("STS-B", "gold"): np.linspace(0, 5, 11),
        ArrayName("STS-B", "cosine"): np.linspace(-0.5, 1, 11),
    }


def with_arrays(variant: str) -> Result:
    """A run that the suite `figures` has evaluated."""
    tasks = {"STS-B": {"spearman": 77.7, "n": 11.0}, "Flickr30k": {"n_images": 4.0}}
    return scored(variant, 0, "figures", tasks, setting="wiki+flickr")
