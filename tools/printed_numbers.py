"""Printed numbers with the size of their last digit, tests between them that allow for rounding,
and checks of tables.

Every table is checked for its averages, its stars and the numbers that it quotes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import NamedTuple

from harness.formatting import fixed, p_value
from harness.metrics import AVERAGE, AuditVerdict
from harness.papers.audit import find_verdict
from harness.papers.published import OWN, Paper, Published, PublishedKey, PublishedNumbers
from harness.stats import ALPHA, CORRECTION, Summary, t_test_from_summaries

#: Smaller differences come from binary arithmetic, not from the printed decimals.
EPSILON = 1e-9
#: paper -> the starred method and the one that it is tested against
STARRED = {"mcse": ("mcse", "simcse"), "kdmcse": ("kdmcse", "mcse")}


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
        text = fixed(self.value, round(-math.log10(self.unit)))
        std = self.number.std
        return text if std is None else f"{text}±{fixed(std, round(-math.log10(self.std_unit)))}"

    def __str__(self) -> str:
        key = self.key
        benchmark = "" if key.benchmark == "sts" else key.benchmark
        words = (key.method, key.variant, key.encoder, key.setting, benchmark, key.task, self.text)
        return " ".join(word for word in words if word)


class Flaw(NamedTuple):
    """An item that contradicts a statement, and whether surely or only as printed, within rounding."""

    text: str
    verdict: AuditVerdict = AuditVerdict.FAILS


@dataclass(frozen=True)
class Finding:
    """The result of a check of one statement: how many items were checked, and those that
    contradict it.

    `claimed` is true for a statement that the paper makes, or implies by what it prints.
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
        """How many more contradict it as printed, but not for all values that round to the printed
        digits.
        """
        return len(self.flaws) - self.failed

    @property
    def details(self) -> list[str]:
        """Descriptions of the exceptions, the certain ones first."""
        rounding = [
            f"{text} ({verdict})"
            for text, verdict in self.flaws
            if verdict is AuditVerdict.ROUNDING
        ]
        return [
            text for text, verdict in self.flaws if verdict is not AuditVerdict.ROUNDING
        ] + rounding

    @property
    def verdict(self) -> AuditVerdict:
        return find_verdict(self.failed, self.within)


class Contrast(NamedTuple):
    """p of a two-sided pooled t-test of two printed numbers.

    `p` is for the numbers as printed, with the deviation read as the sample form; `least` and
    `most` are over all values that round to the printed digits and both forms of the deviation
    (sample, population).
    """

    p: float
    least: float
    most: float

    def __str__(self) -> str:
        least, most = ("<0.0001" if p < 0.0001 else f"{p:.2g}" for p in (self.least, self.most))
        return f"{p_value(self.p)} ({least} to {most} over rounding and forms of the deviation)"


def printed_numbers(published: PublishedNumbers, papers: Sequence[Paper]) -> list[Printed]:
    """Return all published numbers; the unit is that of the most precise number of the same table
    and benchmark.
    """
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
        Printed(
            key, number, 10.0 ** -places[at], 10.0 ** -std_places[at], (*at, key.task) not in lower
        )
        for key, number in published.items()
        for at in [(key.paper, key.table, key.benchmark)]
    ]


def gain(a: Printed, b: Printed) -> float:
    """Return by how much a is better than b; negative if it is worse."""
    return a.value - b.value if a.larger_is_better else b.value - a.value


def equal(a: Printed, b: Printed) -> bool:
    """Whether two numbers, and their deviations if both have one, can be roundings of the same
    number.
    """
    std = a.number.std
    other = b.number.std
    same_std = std is None or other is None or abs(std - other) <= _slack(a.std_unit, b.std_unit)
    return same_std and abs(a.value - b.value) <= _slack(a.unit, b.unit)


def contrast(a: Printed, b: Printed) -> Contrast | None:
    """Test a against b; None if a number of seeds or a deviation is not printed."""
    first = a.number.summary
    second = b.number.summary
    if (
        not first
        or not second
        or first.std is None
        or second.std is None
        or min(first.n, second.n) < 2
    ):
        return None
    stds = (first.std, second.std)
    units = (a.std_unit, b.std_unit)
    counts = (first.n, second.n)
    low = [max(0.0, std - unit / 2) for std, unit in zip(stds, units, strict=True)]
    high = [
        (std + unit / 2) * math.sqrt(n / (n - 1))
        for std, unit, n in zip(stds, units, counts, strict=True)
    ]
    reach = (a.unit + b.unit) / 2
    away = abs(a.value - b.value)
    cases = ((away, stds), (away + reach, low), (max(0.0, away - reach), high))
    return Contrast(*(_p_of(distance, spread, counts) for distance, spread in cases))


def significance(a: Printed, b: Printed, sides: int = 2) -> AuditVerdict:
    """Judge the statement 'a is better than b, p < 0.05'."""
    test = contrast(a, b)
    if test is None or gain(a, b) <= -(a.unit + b.unit) / 2:
        return AuditVerdict.FAILS
    threshold = ALPHA * (3 - sides)
    if test.p < threshold and gain(a, b) > 0:
        return AuditVerdict.HOLDS
    return AuditVerdict.ROUNDING if test.least < threshold else AuditVerdict.FAILS


def averages(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check each printed average against the mean of its tasks, allowing for the rounding of both."""
    rows: dict[tuple[str, ...], list[Printed]] = defaultdict(list)
    for cell in cells:
        rows[tuple(cell.key._replace(task=""))].append(cell)
    tables: dict[tuple[str, str], list[list[Printed]]] = defaultdict(list)
    for row in rows.values():
        if len(row) > 2 and any(cell.key.task == AVERAGE for cell in row):
            tables[row[0].key.paper, row[0].key.table].append(row)
    for where, members in tables.items():
        flaws = tuple(flaw for flaw in map(_wrong_average, members) if flaw)
        yield Finding(
            *where, "Each average is the mean of its tasks.", "averages", len(members), flaws
        )


def _wrong_average(row: Sequence[Printed]) -> Flaw | None:
    (average,) = (cell for cell in row if cell.key.task == AVERAGE)
    tasks = [cell.value for cell in row if cell.key.task != AVERAGE]
    if abs(average.value - mean(tasks)) <= average.unit + EPSILON:
        return None
    return Flaw(f"{average}, the mean of its {len(tasks)} tasks is {fixed(mean(tasks), 3)}")


def stars(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check the stars of each starred table against t-tests from its means and deviations."""
    tables: dict[tuple[str, str], list[Printed]] = defaultdict(list)
    for cell in cells:
        if cell.key.paper in STARRED and cell.number.std is not None:
            tables[cell.key.paper, cell.key.table].append(cell)
    for where, members in tables.items():
        if any(cell.number.star for cell in members):
            yield from _table_stars(where, members)


def _table_stars(where: tuple[str, str], members: Sequence[Printed]) -> Iterator[Finding]:
    method, against = STARRED[where[0]]
    pairs = [
        (cell, other)
        for cell in members
        if cell.key.method == method
        for other in _rivals(cell, members, against)
    ]
    starred = [pair for pair in pairs if pair[0].number.star]
    plain = [pair for pair in pairs if not pair[0].number.star]
    claim = f"Each star: better than {against}, p < {ALPHA}."
    verdicts = [(pair, significance(*pair)) for pair in starred]
    flaws = [
        Flaw(_tested(*pair), verdict)
        for pair, verdict in verdicts
        if verdict is not AuditVerdict.HOLDS
    ]
    yield Finding(*where, claim, "stars", len(starred), tuple(flaws))

    claim = f"Every number better than {against} with p < {ALPHA} has a star."
    tests = [(pair, contrast(*pair)) for pair in plain if significance(*pair) is AuditVerdict.HOLDS]
    flaws = [
        Flaw(
            _tested(*pair),
            AuditVerdict.FAILS if test and test.most < ALPHA else AuditVerdict.ROUNDING,
        )
        for pair, test in tests
    ]
    yield Finding(*where, claim, "stars", len(plain), tuple(flaws))

    # a star on the row that the method is tested against: at least one model of the method must be
    # worse
    reverse = [cell for cell in members if cell.key.method == against and cell.number.star]
    flaws = [
        Flaw(f"{cell} is not significantly better than any {method}")
        for cell in reverse
        if all(
            significance(cell, other) is AuditVerdict.FAILS
            for other in _rivals(cell, members, method)
        )
    ]
    if reverse:
        claim = f"A star on {against}: {method} is worse, p < {ALPHA}."
        yield Finding(*where, claim, "stars", len(reverse), tuple(flaws))

    families: dict[PublishedKey, list[tuple[Printed, Printed]]] = defaultdict(list)
    for cell, other in pairs:
        families[other.key].append((cell, other))
    several = [family for family in families.values() if len(family) > 1]
    if several:
        most = max(map(len, several))
        claim = (
            f"Each star is still significant after {CORRECTION.name} over the tests "
            f"against one number (up to {most})."
        )
        flaws = [flaw for family in several for flaw in _lost(family)]
        checked = sum(cell.number.star for family in several for cell, _ in family)
        yield Finding(*where, claim, "holm", checked, tuple(flaws), claimed=False)


def _lost(family: Sequence[tuple[Printed, Printed]]) -> Iterator[Flaw]:
    adjusted = CORRECTION.adjust([test.p if (test := contrast(*pair)) else 1.0 for pair in family])
    for pair, p in zip(family, adjusted, strict=True):
        if pair[0].number.star and p >= ALPHA:
            yield Flaw(f"{_tested(*pair)}; after {CORRECTION.short} {p:.2g}")


def _rivals(cell: Printed, cells: Sequence[Printed], method: str) -> list[Printed]:
    """Return another method's cells of the same encoder, setting, benchmark and task."""
    return [
        other for other in cells if other.key.method == method and other.key[4:8] == cell.key[4:8]
    ]


def _tested(cell: Printed, other: Printed) -> str:
    return f"{cell} against {other.text}, {contrast(cell, other)}"


def quotes(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check each quoted cell against its source, or, where that paper is not in published.csv,
    against other quotes.
    """
    papers = {cell.key.paper for cell in cells}
    # of one place: method, variant, encoder, setting, benchmark, task
    places: dict[tuple[str, ...], list[Printed]] = defaultdict(list)
    tables: dict[tuple[str, str, str], list[Printed]] = defaultdict(list)
    for cell in cells:
        places[cell.key[2:8]].append(cell)
        if cell.key.source != OWN:
            tables[cell.key.paper, cell.key.table, cell.key.source].append(cell)
    for (paper, table, source), quoted in tables.items():
        known = source in papers
        origins = [(cell, _origins(cell, places[cell.key[2:8]], known)) for cell in quoted]
        compared = [(cell, there) for cell, there in origins if there]
        flaws = tuple(flaw for pair in compared if (flaw := _misquoted(*pair)))
        claim = f"Numbers quoted from {source} equal " + (
            "their source." if known else "those quoted elsewhere."
        )
        if compared:
            yield Finding(paper, table, claim, "quotes", len(compared), flaws)


def _origins(cell: Printed, candidates: Sequence[Printed], known: bool) -> list[Printed]:
    source = cell.key.source
    paper = cell.key.paper
    if known:
        return [
            other for other in candidates if (other.key.paper, other.key.source) == (source, OWN)
        ]
    return [
        other for other in candidates if other.key.source == source and other.key.paper != paper
    ]


def _misquoted(cell: Printed, origins: Sequence[Printed]) -> Flaw | None:
    for origin in origins:
        if equal(cell, origin) and (
            origin.key.source != OWN or cell.number.std == origin.number.std
        ):
            return None
    there = ", ".join(f"{other.text} ({other.key.paper} {other.key.table})" for other in origins)
    return Flaw(f"{cell}, there {there}")


def _p_of(away: float, stds: Sequence[float], counts: Sequence[int]) -> float:
    sides = map(Summary, (away, 0.0), stds, counts)
    test = t_test_from_summaries(*sides, equal_variance=True)  # the papers' own test
    return 1.0 if test is None else test.p


def _slack(first: float, second: float) -> float:
    """Return how far two roundings of one number can differ; roundings to the same unit are equal."""
    return EPSILON if first == second else (first + second) / 2 + EPSILON


def _decimals(value: float) -> int:
    text = repr(value).partition(".")[2]
    return 0 if text == "0" else len(text)
