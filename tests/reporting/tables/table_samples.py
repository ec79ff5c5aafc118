"""Papers' tables filled with made results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from builders import result, sts

from harness.papers.published import read_papers
from harness.profiles import Profile, load_profile
from harness.reporting.tables.cells import FilledRow, FilledTable
from harness.reporting.tables.filled import fill_paper_tables
from harness.reporting.tables.grids import CellText, Grid, Line, Section, get_code
from harness.reporting.tables.paper_grids import make_paper_grid
from harness.store import Result

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
PAPERS = read_papers()
NASTY = r"a_b&c%d#e[f]{g}$h~i^j\k|l<m>n*"
PLACE: dict[str, Any] = {
    "profile": "paper",
    "setting": "wiki+flickr",
    "encoder": "bert-base-uncased",
}


def runs(variant: str, values: Sequence[float], **given: Any) -> list[Result]:
    """One run of the paper profile a value, which is its score on every task."""
    return [
        result(variant, seed, sts(**dict.fromkeys(TASKS, value)), **{**PLACE, **given})
        for seed, value in enumerate(values)
    ]


def weights(name: str, value: float, pooling: str = "cls", **given: Any) -> Result:
    """Public weights, with their score on every task."""
    (run,) = runs(
        f"none[pooling={pooling}]",
        [value],
        setting="none",
        encoder=name,
        dev=(),
        losses={},
        **given,
    )
    return run


def table(results: Sequence[Result], name: str = "mcse:T1") -> FilledTable:
    """A paper's table from the runs of the paper profile."""
    filled = fill_paper_tables(load_profile("paper"), PAPERS, results)
    return next(
        candidate for candidate in filled if f"{candidate.paper.name}:{candidate.name}" == name
    )


def stand_ins(results: Sequence[Result], profile: Profile | None = None) -> dict[str, FilledTable]:
    """The tables that the runs of a profile fill, by default those of `tiny`."""
    filled = fill_paper_tables(profile or load_profile("tiny"), PAPERS, results)
    return {f"{stand_in.paper.name}:{stand_in.name}": stand_in for stand_in in filled}


def row(
    filled: FilledTable,
    variant: str,
    setting: str = "wiki+flickr",
    encoder: str = "bert-base-uncased",
) -> FilledRow:
    """The row of a variant, not a quoted one."""
    key = (variant, setting, encoder)
    return next(
        candidate
        for candidate in filled.rows
        if candidate.own.label[1:4] == key and not candidate.row.published_only
    )


def lines(grid: Grid, variant: str, setting: str = "wiki+flickr") -> list[Line]:
    """The lines of a variant in the first section of a grid."""
    return [
        line
        for line in grid.sections[0].lines
        if tuple(map(get_code, line.heads[:2])) == (variant, setting)
    ]


def nasty(name: str = NASTY) -> Grid:
    """A table with every mark, whose texts are hard to escape."""
    cells = (CellText("-0.25", "0.10", "(*)", bold=True), CellText("71.00", "", "†", "n = 2"))
    lines = (
        Line((name, "[b]"), cells, "plain", 2),
        Line((name, "4"), (CellText("–"), CellText("1.00")), "plain", 0),
    )
    where = (Section(name, lines),)
    return Grid(
        "n/1",
        f"sts, {name}",
        ("variant", "seeds"),
        (name, "Avg"),
        (False, True),
        where,
        (name, "± † – -1"),
    )


@cache
def measured_grids() -> dict[str, Grid]:
    """All tables of the papers by key, some measured, and those of the toy world."""
    results = runs("simcse", [70.0, 71.0, 72.0]) + runs("mcse", [72.6, 73.6, 74.6])
    results += runs("simcse", [75.0, 75.3, 75.6], setting="wiki+coco")
    results += runs("mcse", [70.0, 70.3, 70.6], setting="wiki+coco")
    results += runs("simcse", [75.0, 76.0, 77.0], setting="flickr") + runs(
        "mcse", [72.3, 73.3, 74.3], setting="flickr"
    )
    results += [
        result(variant, seed)
        for variant in ("mcse[images=clip,text_teacher=clip]", "kdmcse")
        for seed in range(2)
    ]
    every = map(
        make_paper_grid,
        (*fill_paper_tables(load_profile("paper"), PAPERS, results), *stand_ins(results).values()),
    )
    return {grid.key: grid for grid in every}
