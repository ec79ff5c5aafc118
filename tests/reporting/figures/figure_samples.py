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
from harness.reporting.figures.drawn import Material, ReportFigure
from harness.reporting.figures.kinds import Drawing, FigureKind
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


def _material(
    name: str,
    results: Sequence[Result],
    arrays: Arrays | None,
    profile: str,
    figures: Mapping[str, FigureSpec],
) -> tuple[Material, Paper, str]:
    """The runs, the paper and the figure's own name of PAPER-FIGURE."""
    key, _, short = name.partition("-")
    paper = PAPERS[key].model_copy(update={"figures": figures}) if figures else PAPERS[key]
    contents = Contents(ArraysStore(arrays or {}), results)
    vars(contents)["papers"] = [paper]  # in place of the shipped ones
    return Material(profile, contents), paper, short


def figure(
    name: str,
    results: Sequence[Result],
    arrays: Arrays | None = None,
    profile: str = "paper",
    **figures: FigureSpec,
) -> ReportFigure:
    """One figure by PAPER-FIGURE. Further `figures` are those of the paper by name instead of its
    own.
    """
    material, paper, short = _material(name, results, arrays, profile, figures)
    return material.draw_figure(paper, short)


def drawn(
    name: str, results: Sequence[Result], arrays: Arrays | None = None
) -> tuple[ReportFigure, list[list[dict[str, Any]]]]:
    """A figure of the paper profile, and the data of each of its layers."""
    material, paper, short = _material(name, results, arrays, "paper", {})
    drawing = get_instance("figure kind", paper.figures[short].kind, FigureKind).draw(
        material.collect_data(paper, short)
    )
    assert isinstance(drawing, Drawing)
    return material.draw_figure(paper, short), _rows_of(drawing.spec)


def _rows_of(spec: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """The data of a specification and of its panels and layers."""
    mine = [spec["data"]["values"]] if "data" in spec else []
    parts = [*spec.get("concat", ()), *spec.get("layer", ())]
    return [*mine, *(rows for part in parts for rows in _rows_of(part))]


def scored(
    variant: str, seed: int, suite: str, scores: dict[str, dict[str, float]], **more: Any
) -> Result:
    return result(variant, seed, {suite: scores}, **{**BERT, **more})


def averages(variant: str, setting: str, values: Sequence[float]) -> list[Result]:
    return [
        scored(variant, seed, "sts", {AVERAGE: {"spearman": value}}, setting=setting)
        for seed, value in enumerate(values)
    ]


def texts(figure: ReportFigure) -> list[str]:
    return [
        " ".join(element.itertext()) for element in Tree.fromstring(figure.svg).iter(f"{SVG}text")
    ]
