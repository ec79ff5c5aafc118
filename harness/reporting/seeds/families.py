"""Families: the comparisons that answer one question, and are therefore corrected together (docs/statistics.md)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from harness.metrics import AVERAGE, Column
from harness.reporting.seeds.groups import Cell, Corrected
from harness.spec import DEFAULT_READING, SpecError, Variant
from harness.stats import ALPHA, holm


class FamilyTest(NamedTuple):
    """A cell that was tested against its reference, in one column of one setting and encoder.

    `data` are all scores of both sides: comparisons of equal data are one test. `is_method` separates the methods from
    their variants, which are a family of their own.
    """

    cell: Cell
    data: Hashable
    is_method: bool = True


def is_method(variant: str, overrides: str) -> bool:
    """Whether runs are those of a method as its profile trains it: no option, no other reading, nothing from --set."""
    try:
        parsed = Variant.parse(variant)
    except SpecError:
        return False
    return not overrides and not parsed.options and parsed.reading == DEFAULT_READING


def primary_column(columns: Sequence[Column]) -> Column | None:
    """The column that decides: the only average, or else the only task. All others are secondary."""
    averages = [column for column in columns if column.task == AVERAGE]
    found = averages or columns
    return found[0] if len(found) == 1 else None


def corrected(comparisons: Sequence[FamilyTest], alpha: float = ALPHA) -> list[Cell]:
    """The cells of one column in one setting and encoder, with Holm's correction over each family.

    A variant with the data of a method is that method's test, not another one.
    """
    tested = [one for one in comparisons if one.cell.test]
    methods = {one.data: one.cell for one in tested if one.is_method}
    variants = {one.data: one.cell for one in tested if one.data not in methods}
    adjusted: dict[Hashable, Corrected] = {}
    for family in (methods, variants):
        ps = holm([cell.test.p for cell in family.values() if cell.test])
        adjusted |= {data: Corrected(p, len(family), alpha) for data, p in zip(family, ps, strict=True)}
    return [replace(one.cell, corrected=adjusted.get(one.data) if one.cell.test else None) for one in comparisons]
