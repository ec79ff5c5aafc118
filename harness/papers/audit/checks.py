"""The checks that a claim can name: each compares printed numbers and lists those that contradict the claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.formatting import fixed, signed
from harness.papers.audit.numbers import (
    EPSILON,
    Printed,
    contrast,
    equal,
    gain,
    significance,
)
from harness.papers.published import OWN
from harness.stats import t_test_from_summaries
from harness.verdicts import AuditVerdict


@dataclass(frozen=True)
class Items:
    """The input of a check: cells, or pairs of cells, and the options of its claim."""

    cells: tuple[Printed, ...]
    pairs: tuple[tuple[Printed, Printed], ...]
    options: Mapping[str, str]

    def number(self, name: str) -> float:
        """Read an option as a number. Raises KeyError and ValueError."""
        return float(self.options[name])


@dataclass(frozen=True)
class Checked:
    """The number of checked items, and descriptions of those that fail, or fail only within rounding."""

    checked: int
    failed: Sequence[str]
    within: Sequence[str] = ()


def better(items: Items) -> Checked:
    """Each a is better than its b, as printed."""
    failed = [_beside(a, b) for a, b in items.pairs if gain(a, b) <= EPSILON]
    return Checked(len(items.pairs), failed)


def significant(items: Items) -> Checked:
    """Each a is better than its b with p < 0.05, from means and deviations; `sides=1` reads the test one-sided."""
    sides = int(items.options.get("sides", "2"))
    failed, within = (
        [
            f"{_beside(a, b)}, {contrast(a, b) or 'no test: seeds or deviation not printed'}"
            for a, b in items.pairs
            if significance(a, b, sides) is verdict
        ]
        for verdict in (AuditVerdict.FAILS, AuditVerdict.ROUNDING)
    )
    return Checked(len(items.pairs), failed, within)


def difference(items: Items) -> Checked:
    """Each a is better than its b by `value`, allowing for the rounding of both and of the value."""
    wanted, unit = items.number("value"), _unit(items.options["value"])
    failed = [
        f"{_beside(a, b)}: {signed(gain(a, b), 2)}"
        for a, b in items.pairs
        if abs(gain(a, b) - wanted) > (a.unit + b.unit + unit) / 2 + EPSILON
    ]
    return Checked(len(items.pairs), failed)


def between(items: Items) -> Checked:
    """The gains of a over b range from `low` to `high`, inclusive, as printed."""
    gains = [gain(a, b) for a, b in items.pairs]
    ends = ((min(gains), items.number("low")), (max(gains), items.number("high")))
    failed = [f"{fixed(found, 2)}, not {fixed(said, 2)}" for found, said in ends if abs(found - said) > EPSILON]
    return Checked(len(items.pairs), failed)


def same(items: Items) -> Checked:
    """Each a equals its b in value, and in deviation where both have one, within rounding."""
    return Checked(len(items.pairs), [_beside(a, b) for a, b in items.pairs if not equal(a, b)])


def distinct(items: Items) -> Checked:
    """No a repeats its b in value and deviation."""
    failed = [_beside(a, b) for a, b in items.pairs if (a.value, a.number.std) == (b.value, b.number.std)]
    return Checked(len(items.pairs), failed)


def same_star(items: Items) -> Checked:
    """Both cells of a pair are starred, or neither."""
    failed = [
        f"{a}: {_starred(a)} in {a.key.table}, {_starred(b)} in {b.key.table}"
        for a, b in items.pairs
        if a.number.star != b.number.star
    ]
    return Checked(len(items.pairs), failed)


def agree(items: Items) -> Checked:
    """All cells may round from one number."""
    first, *rest = items.cells
    failed = [f"{_placed(cell)} against {_placed(first)}" for cell in rest if not equal(cell, first)]
    return Checked(len(items.cells), failed)


def value(items: Items) -> Checked:
    """Each cell is `value`, within `tolerance`."""
    wanted, tolerance = items.number("value"), float(items.options.get("tolerance", "0"))
    failed = [f"{cell}" for cell in items.cells if abs(cell.value - wanted) > tolerance + EPSILON]
    return Checked(len(items.cells), failed)


def p_of_test(items: Items) -> Checked:
    """The t-test of each pair gives p = `value`, or p below `below`; `welch=yes` takes unequal variances."""
    failed = []
    for a, b in items.pairs:
        p = _p(a, b, items.options.get("welch") != "yes")
        if "below" in items.options:
            fits = p < items.number("below")
        else:
            fits = abs(p - items.number("value")) <= _unit(items.options["value"]) / 2 + EPSILON
        if not fits:
            failed.append(f"{_beside(a, b)}: p = {p:.3g}")
    return Checked(len(items.pairs), failed)


def multiples(items: Items) -> Checked:
    """Each percentage is a whole number of answers out of `size`, averaged over `seeds` models (one by default)."""
    whole = items.number("size") * float(items.options.get("seeds", "1"))
    failed = [
        f"{cell}, nearest {fixed(100 * round(cell.value * whole / 100) / whole, 3)}"
        for cell in items.cells
        if abs(cell.value - 100 * round(cell.value * whole / 100) / whole) > cell.unit / 2 + EPSILON
    ]
    return Checked(len(items.cells), failed)


def class_mates(items: Items) -> Checked:
    """A batch of `batch` examples has fewer than `most` pairs of one class on average.

    Batches are drawn without replacement from `classes` classes of `each` examples.
    """
    batch, classes, each = (int(items.number(name)) for name in ("batch", "classes", "each"))
    pairs = math.comb(batch, 2) * (each - 1) / (classes * each - 1)
    alone = 1 - math.comb(classes * each - each, batch - 1) / math.comb(classes * each - 1, batch - 1)
    failed = [f"{fixed(pairs, 1)} pairs a batch on average; {fixed(100 * alone, 0)}% of the examples have a partner"]
    return Checked(1, failed if pairs >= items.number("most") else [])


def mixing_cycle(items: Items) -> Checked:
    """One paired batch every ceil(sentences / pairs) steps equals one after floor(sentences / pairs) text batches."""
    sentences, pairs = int(items.number("sentences")), int(items.number("pairs"))
    every, after = -(-sentences // pairs), sentences // pairs + 1
    same_cycle = every == after == items.number("cycle")
    return Checked(1, [] if same_cycle else [f"a cycle of {every} and one of {after} batches"])


#: name -> the check and its input
CHECKS: dict[str, tuple[Callable[[Items], Checked], Literal["pairs", "cells", "nothing"]]] = {
    "better": (better, "pairs"),
    "significant": (significant, "pairs"),
    "difference": (difference, "pairs"),
    "between": (between, "pairs"),
    "same": (same, "pairs"),
    "distinct": (distinct, "pairs"),
    "same-star": (same_star, "pairs"),
    "p-of-test": (p_of_test, "pairs"),
    "agree": (agree, "cells"),
    "value": (value, "cells"),
    "multiples": (multiples, "cells"),
    "class-mates": (class_mates, "nothing"),
    "mixing-cycle": (mixing_cycle, "nothing"),
}


def _p(a: Printed, b: Printed, equal_variance: bool) -> float:
    first, second = a.number.summary, b.number.summary
    test = t_test_from_summaries(first, second, equal_variance=equal_variance) if first and second else None
    if test is None:
        raise ValueError(f"{_beside(a, b)}: seeds or deviation not printed")
    return test.p


def _beside(a: Printed, b: Printed) -> str:
    """Describe cell a in full, and b by what differs from a: by its source if nothing else does."""
    names = [theirs for mine, theirs in zip(_names(a), _names(b), strict=True) if theirs not in ("", mine)]
    names = names or [f"quoted from {b.key.source}"]
    return f"{a} against {' '.join([*names, b.text])}"


def _names(cell: Printed) -> Iterator[str]:
    key = cell.key
    yield from (key.paper, key.table, key.method, key.variant, key.encoder, key.setting, key.task)


def _placed(cell: Printed) -> str:
    quoted = "" if cell.key.source == OWN else f", quoted from {cell.key.source}"
    return f"{cell.text} ({cell.key.paper} {cell.key.table}{quoted})"


def _starred(cell: Printed) -> str:
    return "starred" if cell.number.star else "not starred"


def _unit(text: str) -> float:
    return 10.0 ** -len(text.partition(".")[2])
