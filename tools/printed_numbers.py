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


#: a number, and the one that it is compared with
NumberPair = tuple[Printed, Printed]


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
        return len([flaw for flaw in self.flaws if flaw.verdict is AuditVerdict.FAILS])

    @property
    def within(self) -> int:
        """How many more contradict it as printed, but not for all values that round to the printed
        digits.
        """
        return len(self.flaws) - self.failed

    @property
    def details(self) -> list[str]:
        """Descriptions of the exceptions, the certain ones first."""
        certain = []
        rounding = []
        for text, verdict in self.flaws:
            if verdict is AuditVerdict.ROUNDING:
                rounding.append(f"{text} ({verdict})")
            else:
                certain.append(text)
        return certain + rounding

    @property
    def verdict(self) -> AuditVerdict:
        return find_verdict(self.failed, self.within)


class Contrast(NamedTuple):
    """p of a two-sided pooled t-test of two printed numbers.

    `p` is for the numbers as printed, with the deviation read as the sample form; `lowest` and
    `highest` are over all values that round to the printed digits and both forms of the deviation
    (sample, population).
    """

    p: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        lowest = _format_p(self.lowest)
        highest = _format_p(self.highest)
        reason = "over rounding and forms of the deviation"
        return f"{p_value(self.p)} ({lowest} to {highest} {reason})"


def _format_p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.2g}"


def make_printed_numbers(published: PublishedNumbers, papers: Sequence[Paper]) -> list[Printed]:
    """Return all published numbers; the unit is that of the most precise number of the same table
    and benchmark.
    """
    decimals: dict[tuple[str, str, str], int] = defaultdict(int)
    std_decimals: dict[tuple[str, str, str], int] = defaultdict(int)
    for key, number in published.items():
        place = (key.paper, key.table, key.benchmark)
        decimals[place] = max(decimals[place], _count_decimals(number.value))
        std_decimals[place] = max(std_decimals[place], _count_decimals(number.std or 0.0))

    lower_is_better = set(_list_lower_is_better(papers))
    numbers = []
    for key, number in published.items():
        place = (key.paper, key.table, key.benchmark)
        numbers.append(
            Printed(
                key,
                number,
                unit=10.0 ** -decimals[place],
                std_unit=10.0 ** -std_decimals[place],
                larger_is_better=(*place, key.task) not in lower_is_better,
            )
        )
    return numbers


def _list_lower_is_better(papers: Sequence[Paper]) -> Iterator[tuple[str, str, str, str]]:
    """Paper, table, benchmark and task of each column in which less is better."""
    for paper in papers:
        for name, table in paper.tables.items():
            for column in table.columns:
                if column.better == "lower":
                    yield paper.name, name, column.benchmark, column.printed


def compute_gain(a: Printed, b: Printed) -> float:
    """Return by how much a is better than b; negative if it is worse."""
    difference = a.value - b.value
    return difference if a.larger_is_better else -difference


def can_be_equal(a: Printed, b: Printed) -> bool:
    """Whether two numbers, and their deviations if both have one, can be roundings of the same
    number.
    """
    is_same_value = abs(a.value - b.value) <= _compute_slack(a.unit, b.unit)
    a_std = a.number.std
    b_std = b.number.std
    if a_std is None or b_std is None:
        return is_same_value
    return is_same_value and abs(a_std - b_std) <= _compute_slack(a.std_unit, b.std_unit)


def compare(a: Printed, b: Printed) -> Contrast | None:
    """Test a against b; None if a number of seeds or a deviation is not printed."""
    first = a.number.summary
    second = b.number.summary
    if not first or not second or min(first.n, second.n) < 2:
        return None
    if first.std is None or second.std is None:
        return None

    counts = (first.n, second.n)
    stds = (first.std, second.std)
    low_stds = []
    high_stds = []
    for std, unit, n in zip(stds, (a.std_unit, b.std_unit), counts, strict=True):
        low_stds.append(max(0.0, std - unit / 2))
        # printed as the population form, a deviation is the smaller one
        high_stds.append((std + unit / 2) * math.sqrt(n / (n - 1)))

    distance = abs(a.value - b.value)
    rounding = (a.unit + b.unit) / 2
    return Contrast(
        p=_compute_p(distance, stds, counts),
        lowest=_compute_p(distance + rounding, low_stds, counts),
        highest=_compute_p(max(0.0, distance - rounding), high_stds, counts),
    )


def judge_better(a: Printed, b: Printed, sides: int = 2) -> AuditVerdict:
    """Judge the statement 'a is better than b, p < 0.05'."""
    test = compare(a, b)
    gain = compute_gain(a, b)
    if test is None or gain <= -(a.unit + b.unit) / 2:
        return AuditVerdict.FAILS

    # p is two-sided: twice the one-sided one, of a difference in the right direction
    threshold = ALPHA * (3 - sides)
    if test.p < threshold and gain > 0:
        return AuditVerdict.HOLDS
    return AuditVerdict.ROUNDING if test.lowest < threshold else AuditVerdict.FAILS


def check_averages(numbers: Sequence[Printed]) -> Iterator[Finding]:
    """Check each printed average against the mean of its tasks, allowing for the rounding of both."""
    rows: dict[PublishedKey, list[Printed]] = defaultdict(list)
    for number in numbers:
        rows[number.key._replace(task="")].append(number)

    rows_by_table: dict[tuple[str, str], list[list[Printed]]] = defaultdict(list)
    for key, row in rows.items():
        # the mean of one task would be that task
        if len(row) > 2 and any(number.key.task == AVERAGE for number in row):
            rows_by_table[key.paper, key.table].append(row)

    claim = "Each average is the mean of its tasks."
    for (paper, table), table_rows in rows_by_table.items():
        flaws = tuple(filter(None, map(_check_average, table_rows)))
        yield Finding(paper, table, claim, "averages", len(table_rows), flaws)


def _check_average(row: Sequence[Printed]) -> Flaw | None:
    (average,) = (number for number in row if number.key.task == AVERAGE)
    tasks = [number.value for number in row if number.key.task != AVERAGE]
    if abs(average.value - mean(tasks)) <= average.unit + EPSILON:
        return None
    return Flaw(f"{average}, the mean of its {len(tasks)} tasks is {fixed(mean(tasks), 3)}")


def check_stars(numbers: Sequence[Printed]) -> Iterator[Finding]:
    """Check the stars of each starred table against t-tests from its means and deviations."""
    tables: dict[tuple[str, str], list[Printed]] = defaultdict(list)
    for number in numbers:
        if number.key.paper in STARRED and number.number.std is not None:
            tables[number.key.paper, number.key.table].append(number)

    for (paper, table), members in tables.items():
        if any(number.number.star for number in members):
            yield from _check_table_stars(paper, table, members)


def _check_table_stars(paper: str, table: str, members: Sequence[Printed]) -> Iterator[Finding]:
    method, baseline = STARRED[paper]
    pairs = []
    for number in members:
        if number.key.method == method:
            pairs += [(number, rival) for rival in _find_rivals(number, members, baseline)]
    starred = [pair for pair in pairs if pair[0].number.star]
    unstarred = [pair for pair in pairs if not pair[0].number.star]

    flaws = tuple(_find_unearned_stars(starred))
    claim = f"Each star: better than {baseline}, p < {ALPHA}."
    yield Finding(paper, table, claim, "stars", len(starred), flaws)

    flaws = tuple(_find_missing_stars(unstarred))
    claim = f"Every number better than {baseline} with p < {ALPHA} has a star."
    yield Finding(paper, table, claim, "stars", len(unstarred), flaws)

    reverse = [number for number in members if number.key.method == baseline and number.number.star]
    if reverse:
        flaws = tuple(_find_unearned_reverse_stars(reverse, members, method))
        claim = f"A star on {baseline}: {method} is worse, p < {ALPHA}."
        yield Finding(paper, table, claim, "stars", len(reverse), flaws)

    yield from _check_corrected_stars(paper, table, pairs)


def _find_unearned_stars(starred: Sequence[NumberPair]) -> Iterator[Flaw]:
    for pair in starred:
        verdict = judge_better(*pair)
        if verdict is not AuditVerdict.HOLDS:
            yield Flaw(_describe_test(*pair), verdict)


def _find_missing_stars(unstarred: Sequence[NumberPair]) -> Iterator[Flaw]:
    for pair in unstarred:
        if judge_better(*pair) is not AuditVerdict.HOLDS:
            continue
        test = compare(*pair)
        is_sure = test is not None and test.highest < ALPHA
        verdict = AuditVerdict.FAILS if is_sure else AuditVerdict.ROUNDING
        yield Flaw(_describe_test(*pair), verdict)


def _find_unearned_reverse_stars(
    starred: Sequence[Printed], members: Sequence[Printed], method: str
) -> Iterator[Flaw]:
    """Stars on the row that the method is tested against: at least one model of the method must be
    worse.
    """
    for number in starred:
        verdicts = [judge_better(number, rival) for rival in _find_rivals(number, members, method)]
        if all(verdict is AuditVerdict.FAILS for verdict in verdicts):
            yield Flaw(f"{number} is not significantly better than any {method}")


def _check_corrected_stars(
    paper: str, table: str, pairs: Sequence[NumberPair]
) -> Iterator[Finding]:
    """Check the stars after a correction over the tests against one number, which the papers do not
    claim.
    """
    pairs_by_rival: dict[PublishedKey, list[NumberPair]] = defaultdict(list)
    for number, rival in pairs:
        pairs_by_rival[rival.key].append((number, rival))
    families = [family for family in pairs_by_rival.values() if len(family) > 1]
    if not families:
        return

    flaws: list[Flaw] = []
    checked = 0
    for family in families:
        flaws += _find_lost_stars(family)
        checked += len([number for number, _ in family if number.number.star])
    largest = max(map(len, families))
    claim = (
        f"Each star is still significant after {CORRECTION.name} over the tests "
        f"against one number (up to {largest})."
    )
    yield Finding(paper, table, claim, "holm", checked, tuple(flaws), claimed=False)


def _find_lost_stars(family: Sequence[NumberPair]) -> Iterator[Flaw]:
    ps = []
    for pair in family:
        test = compare(*pair)
        ps.append(test.p if test else 1.0)

    for (number, rival), p in zip(family, CORRECTION.adjust(ps), strict=True):
        if number.number.star and p >= ALPHA:
            yield Flaw(f"{_describe_test(number, rival)}; after {CORRECTION.short} {p:.2g}")


def _find_rivals(number: Printed, members: Sequence[Printed], method: str) -> list[Printed]:
    """Return another method's numbers of the same encoder, setting, benchmark and task."""
    place = number.key[4:8]
    return [rival for rival in members if rival.key.method == method and rival.key[4:8] == place]


def _describe_test(number: Printed, rival: Printed) -> str:
    return f"{number} against {rival.text}, {compare(number, rival)}"


def check_quotes(numbers: Sequence[Printed]) -> Iterator[Finding]:
    """Check each quoted number against its source, or, where that paper is not in published.csv,
    against other quotes.
    """
    papers = {number.key.paper for number in numbers}
    # of one place: method, variant, encoder, setting, benchmark, task
    numbers_by_place: dict[tuple[str, ...], list[Printed]] = defaultdict(list)
    quotes: dict[tuple[str, str, str], list[Printed]] = defaultdict(list)
    for number in numbers:
        key = number.key
        numbers_by_place[key[2:8]].append(number)
        if key.source != OWN:
            quotes[key.paper, key.table, key.source].append(number)

    for (paper, table, source), quoted in quotes.items():
        is_known = source in papers
        flaws = []
        compared = 0
        for quote in quoted:
            origins = _find_origins(quote, numbers_by_place[quote.key[2:8]], is_known)
            if not origins:
                continue
            compared += 1
            if not _is_quoted_right(quote, origins):
                flaws.append(Flaw(f"{quote}, there {_list_origins(origins)}"))

        if compared:
            place = "their source" if is_known else "those quoted elsewhere"
            claim = f"Numbers quoted from {source} equal {place}."
            yield Finding(paper, table, claim, "quotes", compared, tuple(flaws))


def _find_origins(quote: Printed, candidates: Sequence[Printed], is_known: bool) -> list[Printed]:
    """The numbers that a quote is compared with: the source's own, or other papers' quotes of it."""
    source = quote.key.source
    if is_known:
        return [
            number
            for number in candidates
            if (number.key.paper, number.key.source) == (source, OWN)
        ]
    return [
        number
        for number in candidates
        if number.key.source == source and number.key.paper != quote.key.paper
    ]


def _is_quoted_right(quote: Printed, origins: Sequence[Printed]) -> bool:
    for origin in origins:
        # of a source's own number, the deviation is quoted too
        has_std = origin.key.source != OWN or quote.number.std == origin.number.std
        if has_std and can_be_equal(quote, origin):
            return True
    return False


def _list_origins(origins: Sequence[Printed]) -> str:
    return ", ".join(f"{number.text} ({number.key.paper} {number.key.table})" for number in origins)


def _compute_p(distance: float, stds: Sequence[float], counts: Sequence[int]) -> float:
    first = Summary(distance, stds[0], counts[0])
    second = Summary(0.0, stds[1], counts[1])
    test = t_test_from_summaries(first, second, equal_variance=True)  # the papers' own test
    return 1.0 if test is None else test.p


def _compute_slack(first: float, second: float) -> float:
    """Return how far two roundings of one number can differ; roundings to the same unit are equal."""
    return EPSILON if first == second else (first + second) / 2 + EPSILON


def _count_decimals(value: float) -> int:
    text = repr(value).partition(".")[2]
    return 0 if text == "0" else len(text)
