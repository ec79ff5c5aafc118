"""Printed numbers with the size of their last digit, and tests between them that allow for rounding."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.formatting import fixed, p_value
from harness.metrics import AuditVerdict
from harness.papers.published import Paper, Published, PublishedKey, PublishedNumbers
from harness.stats import ALPHA, Summary, t_test_from_summaries

#: Smaller differences come from binary arithmetic, not from the printed decimals.
EPSILON = 1e-9
#: the word for a statement that its paper does not make
NOT_CLAIMED = "not claimed"


@dataclass(frozen=True)
class Printed:
    """A published number with the unit of its last printed digit and that of its deviation."""

    key: PublishedKey
    number: Published
    unit: float
    std_unit: float
    larger_is_better: bool = True

    @property
    def value(self) -> float:
        return self.number.value

    @property
    def text(self) -> str:
        """`81.8±1.3`, with the decimals of the table."""
        text, std = fixed(self.value, round(-math.log10(self.unit))), self.number.std
        return text if std is None else f"{text}±{fixed(std, round(-math.log10(self.std_unit)))}"

    def __str__(self) -> str:
        key = self.key
        benchmark = "" if key.benchmark == "sts" else key.benchmark
        words = (key.method, key.variant, key.encoder, key.setting, benchmark, key.task, self.text)
        return " ".join(word for word in words if word)


class Flaw(NamedTuple):
    """The description of an item that contradicts a statement: surely, or only as printed, within rounding."""

    text: str
    verdict: AuditVerdict = AuditVerdict.FAILS


@dataclass(frozen=True)
class Finding:
    """The result of a check of one statement: how many items were checked, and those that contradict it.

    `claimed` tells what the paper claims, or implies by printing it, from what it does not claim.
    """

    paper: str
    where: str
    claim: str
    check: str
    checked: int
    flaws: tuple[Flaw, ...]
    claimed: bool = True

    @property
    def failed(self) -> int:
        """How many items surely contradict the statement."""
        return sum(flaw.verdict is AuditVerdict.FAILS for flaw in self.flaws)

    @property
    def within(self) -> int:
        """How many more contradict it as printed, but not for all values that round to the printed digits."""
        return len(self.flaws) - self.failed

    @property
    def details(self) -> list[str]:
        """Descriptions of the exceptions, the certain ones first."""
        rounding = [f"{text} ({verdict})" for text, verdict in self.flaws if verdict is AuditVerdict.ROUNDING]
        return [text for text, verdict in self.flaws if verdict is not AuditVerdict.ROUNDING] + rounding

    @property
    def verdict(self) -> AuditVerdict:
        if self.failed:
            return AuditVerdict.FAILS
        return AuditVerdict.ROUNDING if self.flaws else AuditVerdict.HOLDS

    @property
    def word(self) -> str:
        return str(self.verdict) if self.claimed else f"{NOT_CLAIMED}, {self.verdict}"


def tally(findings: Iterable[Finding]) -> dict[str, int]:
    """Count the claims by verdict, and apart from them the statements that no paper claims."""
    counts = Counter(str(one.verdict) if one.claimed else NOT_CLAIMED for one in findings)
    return {name: counts[name] for name in (*map(str, AuditVerdict), NOT_CLAIMED)}


class Contrast(NamedTuple):
    """p of a two-sided pooled t-test of two printed numbers.

    `p` is for the numbers as printed, with the deviation read as the sample form; `least` and `most` are over all
    values that round to the printed digits and both forms of the deviation (sample, population).
    """

    p: float
    least: float
    most: float

    def __str__(self) -> str:
        least, most = ("<0.0001" if p < 0.0001 else f"{p:.2g}" for p in (self.least, self.most))
        return f"{p_value(self.p)} ({least} to {most} over rounding and forms of the deviation)"


def printed_numbers(published: PublishedNumbers, papers: Sequence[Paper]) -> list[Printed]:
    """Return all published numbers; the unit is that of the most precise number of the same table and benchmark."""
    places: dict[tuple[str, str, str], int] = defaultdict(int)
    std_places: dict[tuple[str, str, str], int] = defaultdict(int)
    for key, number in published.items():
        at = (key.paper, key.table, key.benchmark)
        places[at] = max(places[at], _decimals(number.value))
        std_places[at] = max(std_places[at], _decimals(number.std or 0.0))
    lower = {
        (paper.name, name, column.benchmark, column.printed)
        for paper in papers
        for name, table in paper.tables.items()
        for column in table.columns
        if column.better == "lower"
    }
    return [
        Printed(key, number, 10.0 ** -places[at], 10.0 ** -std_places[at], (*at, key.task) not in lower)
        for key, number in published.items()
        for at in [(key.paper, key.table, key.benchmark)]
    ]


def gain(a: Printed, b: Printed) -> float:
    """Return by how much a is better than b; negative if it is worse."""
    return a.value - b.value if a.larger_is_better else b.value - a.value


def equal(a: Printed, b: Printed) -> bool:
    """Whether two numbers, and their deviations where both have one, may round from the same."""
    std, other = a.number.std, b.number.std
    same_std = std is None or other is None or abs(std - other) <= _slack(a.std_unit, b.std_unit)
    return same_std and abs(a.value - b.value) <= _slack(a.unit, b.unit)


def contrast(a: Printed, b: Printed) -> Contrast | None:
    """Test a against b; None if a number of seeds or a deviation is not printed."""
    first, second = a.number.summary, b.number.summary
    if not first or not second or first.std is None or second.std is None or min(first.n, second.n) < 2:
        return None
    stds, units, counts = (first.std, second.std), (a.std_unit, b.std_unit), (first.n, second.n)
    low = [max(0.0, std - unit / 2) for std, unit in zip(stds, units, strict=True)]
    high = [(std + unit / 2) * math.sqrt(n / (n - 1)) for std, unit, n in zip(stds, units, counts, strict=True)]
    reach, away = (a.unit + b.unit) / 2, abs(a.value - b.value)
    cases = ((away, stds), (away + reach, low), (max(0.0, away - reach), high))
    return Contrast(*(_p_of(distance, spread, counts) for distance, spread in cases))


def significance(a: Printed, b: Printed, sides: int = 2) -> AuditVerdict:
    """Judge the statement 'a is better than b, p < 0.05'."""
    found = contrast(a, b)
    if found is None or gain(a, b) <= -(a.unit + b.unit) / 2:
        return AuditVerdict.FAILS
    threshold = ALPHA * (3 - sides)
    if found.p < threshold and gain(a, b) > 0:
        return AuditVerdict.HOLDS
    return AuditVerdict.ROUNDING if found.least < threshold else AuditVerdict.FAILS


def _p_of(away: float, stds: Sequence[float], counts: Sequence[int]) -> float:
    test = t_test_from_summaries(*map(Summary, (away, 0.0), stds, counts))
    return 1.0 if test is None else test.p


def _slack(one: float, other: float) -> float:
    """Return how far two roundings of one number can differ; those of equal units are equal."""
    return EPSILON if one == other else (one + other) / 2 + EPSILON


def _decimals(value: float) -> int:
    text = repr(value).partition(".")[2]
    return 0 if text == "0" else len(text)
