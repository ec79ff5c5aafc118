"""The audit of the papers' printed numbers: averages, stars and quotes of every table, then the papers' claims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import mean

from harness.formatting import fixed
from harness.metrics import AVERAGE, AuditVerdict
from harness.papers.audit.claims import Claim, check_claims, read_claims
from harness.papers.audit.numbers import (
    EPSILON,
    Finding,
    Flaw,
    Printed,
    contrast,
    equal,
    printed_numbers,
    significance,
)
from harness.papers.published import OWN, PublishedKey, PublishedNumbers, read_papers
from harness.stats import ALPHA, holm

#: paper -> the starred method and the one that it is tested against
STARRED = {"mcse": ("mcse", "simcse"), "kdmcse": ("kdmcse", "mcse")}


def audit(published: PublishedNumbers, claims: Sequence[Claim] | None = None) -> list[Finding]:
    """Recompute what the published numbers allow, sorted by paper; claims are by default those shipped.

    Raises UserError for a claim that matches no number.
    """
    cells = printed_numbers(published, read_papers())
    found = [*_averages(cells), *_stars(cells), *_quotes(cells)]
    found += check_claims(read_claims() if claims is None else claims, cells)
    order = {paper: index for index, paper in enumerate(dict.fromkeys(cell.key.paper for cell in cells))}
    return sorted(found, key=lambda finding: order.get(finding.paper, len(order)))


def _averages(cells: Sequence[Printed]) -> Iterator[Finding]:
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
        yield Finding(*where, "Each average is the mean of its tasks.", "averages", len(members), flaws)


def _wrong_average(row: Sequence[Printed]) -> Flaw | None:
    (average,) = (cell for cell in row if cell.key.task == AVERAGE)
    tasks = [cell.value for cell in row if cell.key.task != AVERAGE]
    if abs(average.value - mean(tasks)) <= average.unit + EPSILON:
        return None
    return Flaw(f"{average}, the mean of its {len(tasks)} tasks is {fixed(mean(tasks), 3)}")


def _stars(cells: Sequence[Printed]) -> Iterator[Finding]:
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
        (cell, other) for cell in members if cell.key.method == method for other in _rivals(cell, members, against)
    ]
    starred = [pair for pair in pairs if pair[0].number.star]
    plain = [pair for pair in pairs if not pair[0].number.star]
    claim = f"Each star: better than {against}, p < {ALPHA}."
    verdicts = [(pair, significance(*pair)) for pair in starred]
    flaws = [Flaw(_tested(*pair), verdict) for pair, verdict in verdicts if verdict is not AuditVerdict.HOLDS]
    yield Finding(*where, claim, "stars", len(starred), tuple(flaws))

    claim = f"Every number better than {against} with p < {ALPHA} has a star."
    tests = [(pair, contrast(*pair)) for pair in plain if significance(*pair) is AuditVerdict.HOLDS]
    flaws = [
        Flaw(_tested(*pair), AuditVerdict.FAILS if test and test.most < ALPHA else AuditVerdict.ROUNDING)
        for pair, test in tests
    ]
    yield Finding(*where, claim, "stars", len(plain), tuple(flaws))

    # a star on the row that the method is tested against: at least one model of the method must be worse
    reverse = [cell for cell in members if cell.key.method == against and cell.number.star]
    flaws = [
        Flaw(f"{cell} is not significantly better than any {method}")
        for cell in reverse
        if all(significance(cell, other) is AuditVerdict.FAILS for other in _rivals(cell, members, method))
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
            f"Each star is still significant after Holm's correction over the tests against one number (up to {most})."
        )
        flaws = [flaw for family in several for flaw in _lost(family)]
        checked = sum(cell.number.star for family in several for cell, _ in family)
        yield Finding(*where, claim, "holm", checked, tuple(flaws), claimed=False)


def _lost(family: Sequence[tuple[Printed, Printed]]) -> Iterator[Flaw]:
    adjusted = holm([found.p if (found := contrast(*pair)) else 1.0 for pair in family])
    for pair, p in zip(family, adjusted, strict=True):
        if pair[0].number.star and p >= ALPHA:
            yield Flaw(f"{_tested(*pair)}; after Holm {p:.2g}")


def _rivals(cell: Printed, cells: Sequence[Printed], method: str) -> list[Printed]:
    """Return another method's cells of the same encoder, setting, benchmark and task."""
    return [other for other in cells if other.key.method == method and other.key[4:8] == cell.key[4:8]]


def _tested(cell: Printed, other: Printed) -> str:
    return f"{cell} against {other.text}, {contrast(cell, other)}"


def _quotes(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check each quoted cell against its source, or, where that paper is not in published.csv, against other quotes."""
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
        claim = f"Numbers quoted from {source} equal " + ("their source." if known else "those quoted elsewhere.")
        if compared:
            yield Finding(paper, table, claim, "quotes", len(compared), flaws)


def _origins(cell: Printed, candidates: Sequence[Printed], known: bool) -> list[Printed]:
    source, paper = cell.key.source, cell.key.paper
    if known:
        return [other for other in candidates if (other.key.paper, other.key.source) == (source, OWN)]
    return [other for other in candidates if other.key.source == source and other.key.paper != paper]


def _misquoted(cell: Printed, origins: Sequence[Printed]) -> Flaw | None:
    for origin in origins:
        if equal(cell, origin) and (origin.key.source != OWN or cell.number.std == origin.number.std):
            return None
    there = ", ".join(f"{other.text} ({other.key.paper} {other.key.table})" for other in origins)
    return Flaw(f"{cell}, there {there}")
