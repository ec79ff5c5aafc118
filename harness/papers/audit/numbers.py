"""Printed numbers with the size of their last digit, and what an audit finds out about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.formatting import fixed, p_value
from harness.papers.published import Published, PublishedKey
from harness.reporting.seeds.summary import SMALLER_IS_BETTER
from harness.stats import ALPHA, Summary, t_test_from_summaries

#: Differences below this are the arithmetic of decimals, not a difference of what is printed.
EPSILON = 1e-9


@dataclass(frozen=True)
class Printed:
    """A published number with the unit of its last printed digit and that of its deviation."""

    key: PublishedKey
    number: Published
    unit: float
    std_unit: float

    @property
    def value(self) -> float:
        """The number itself."""
        return self.number.value

    def __str__(self) -> str:
        key = self.key
        benchmark = "" if key.benchmark == "sts" else key.benchmark
        words = (key.method, key.variant, key.encoder, key.setting, benchmark, key.task, number_text(self))
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Finding:
    """What a check says of one statement.

    `failed` of the `checked` items contradict it, `within` more do as printed but not for every value that rounds
    to the printed digits. `details` name the items of both kinds.
    """

    paper: str
    where: str
    claim: str
    check: str
    checked: int
    failed: int
    within: int
    details: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`holds`, `within rounding` or `fails`."""
        return "fails" if self.failed else "within rounding" if self.within else "holds"


@dataclass(frozen=True)
class Contrast:
    """p of a two-sided pooled t-test of two printed numbers.

    `p` as printed with the deviation taken as the sample form; `least` and `most` over all values that round to
    the printed digits and over both forms of the deviation (sample, population).
    """

    p: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{p_value(self.p)} ({_p(self.least)} to {_p(self.most)} over rounding and forms of the deviation)"


def printed_numbers(published: Mapping[PublishedKey, Published]) -> list[Printed]:
    """All published numbers; the last digit is that of the finest number of the same table and benchmark."""
    places: dict[tuple[str, str, str], int] = {}
    std_places: dict[tuple[str, str, str], int] = {}
    for key, number in published.items():
        at = (key.paper, key.table, key.benchmark)
        places[at] = max(places.get(at, 0), _decimals(number.value))
        if number.std is not None:
            std_places[at] = max(std_places.get(at, 0), _decimals(number.std))
    return [
        Printed(key, number, 10.0 ** -places[at], 10.0 ** -std_places.get(at, 0))
        for key, number in published.items()
        for at in [(key.paper, key.table, key.benchmark)]
    ]


def number_text(cell: Printed) -> str:
    """`81.8±1.3`, with the decimals of the table."""
    text = fixed(cell.value, round(-math.log10(cell.unit)))
    if cell.number.std is None:
        return text
    return f"{text}±{fixed(cell.number.std, round(-math.log10(cell.std_unit)))}"


def gain(a: Printed, b: Printed) -> float:
    """How much better a is than b; below zero where it is worse."""
    smaller = {a.key.benchmark, a.key.task} & SMALLER_IS_BETTER
    return b.value - a.value if smaller else a.value - b.value


def equal(a: Printed, b: Printed) -> bool:
    """Whether two numbers, and their deviations where both have one, can be roundings of the same."""
    if abs(a.value - b.value) > _slack(a.unit, b.unit):
        return False
    if a.number.std is None or b.number.std is None:
        return True
    return abs(a.number.std - b.number.std) <= _slack(a.std_unit, b.std_unit)


def contrast(a: Printed, b: Printed) -> Contrast | None:
    """The test of a against b; None where a number of seeds or a deviation is not printed."""
    first, second = a.number.summary, b.number.summary
    if first is None or second is None or first.std is None or second.std is None:
        return None
    sides = ((first, a.std_unit), (second, b.std_unit))
    reach = (a.unit + b.unit) / 2
    away = abs(first.mean - second.mean)
    low = [max(0.0, (side.std or 0.0) - unit / 2) for side, unit in sides]
    high = [((side.std or 0.0) + unit / 2) * math.sqrt(side.n / (side.n - 1)) for side, unit in sides if side.n > 1]
    if len(high) < 2:
        return None
    counts = (first.n, second.n)
    return Contrast(
        _p_of(away, (first.std, second.std), counts),
        _p_of(away + reach, low, counts),
        _p_of(max(0.0, away - reach), high, counts),
    )


def significance(a: Printed, b: Printed, sides: int = 2) -> str:
    """Whether a is better than b at 0.05: `yes`, `within rounding` (not as printed, but possible) or `no`."""
    found = contrast(a, b)
    if found is None or gain(a, b) <= -(a.unit + b.unit) / 2:
        return "no"
    threshold = ALPHA * (3 - sides)
    if found.p < threshold and gain(a, b) > 0:
        return "yes"
    return "within rounding" if found.least < threshold else "no"


def finding(
    where: tuple[str, str], claim: str, check: str, checked: int, failed: Sequence[str], within: Iterable[str] = ()
) -> Finding:
    """A finding from its exceptions in words."""
    rounding = [f"{text} (within rounding)" for text in within]
    return Finding(*where, claim, check, checked, len(failed), len(rounding), (*failed, *rounding))


def _p_of(away: float, stds: Sequence[float], counts: tuple[int, int]) -> float:
    test = t_test_from_summaries(Summary(away, stds[0], counts[0]), Summary(0.0, stds[1], counts[1]))
    return 1.0 if test is None else test.p


def _slack(one: float, other: float) -> float:
    """Two roundings of one number differ by no more; of equal units they do not differ at all."""
    return EPSILON if one == other else (one + other) / 2 + EPSILON


def _decimals(value: float) -> int:
    text = repr(value).partition(".")[2]
    return 0 if text == "0" else len(text)


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.2g}"
