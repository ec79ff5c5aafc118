"""Papers' tables filled with made results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builders import result, sts

from harness.papers.published import read_papers, read_published
from harness.profiles import Profile, load_profile
from harness.reporting.tables.cells import FilledRow, FilledTable
from harness.reporting.tables.filled import paper_tables, stand_in_tables
from harness.reporting.tables.grids import Grid, Line, code_of
from harness.store import Result

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
PAPERS, PUBLISHED = read_papers(), read_published()
PLACE: dict[str, Any] = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}


def runs(variant: str, values: Sequence[float], **given: Any) -> list[Result]:
    """One run of the paper profile a value, which is its score on every task."""
    return [
        result(variant, seed, sts(**dict.fromkeys(TASKS, value)), **{**PLACE, **given})
        for seed, value in enumerate(values)
    ]


def weights(name: str, value: float, pooling: str = "cls", **given: Any) -> Result:
    """Public weights, with their score on every task."""
    (run,) = runs(f"none[pooling={pooling}]", [value], setting="none", encoder=name, dev=(), losses={}, **given)
    return run


def table(results: Sequence[Result], name: str = "mcse:T1") -> FilledTable:
    """A paper's table from the runs of the paper profile."""
    filled = paper_tables(PAPERS, PUBLISHED, results)
    return next(candidate for candidate in filled if f"{candidate.paper.name}:{candidate.name}" == name)


def stand_ins(results: Sequence[Result], profile: Profile | None = None) -> dict[str, FilledTable]:
    """The tables that the runs of a profile fill, by default those of `tiny`."""
    filled = stand_in_tables(PAPERS, results, [profile or load_profile("tiny"), load_profile("paper")])
    return {f"{stand_in.paper.name}:{stand_in.name}": stand_in for stand_in in filled}


def row(
    filled: FilledTable, variant: str, setting: str = "wiki+flickr", encoder: str = "bert-base-uncased"
) -> FilledRow:
    """The row of a variant, not a quoted one."""
    key = (variant, setting, encoder)
    return next(
        candidate for candidate in filled.rows if candidate.own.label[1:4] == key and not candidate.row.published_only
    )


def lines(grid: Grid, variant: str, setting: str = "wiki+flickr") -> list[Line]:
    """The lines of a variant in the first section of a grid."""
    return [line for line in grid.sections[0].lines if tuple(map(code_of, line.heads[:2])) == (variant, setting)]
