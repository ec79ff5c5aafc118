"""Checks of every printed table: averages against tasks, stars against numbers, quotes against their origin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import mean

from harness.formatting import fixed
from harness.metrics import AVERAGE
from harness.papers.audit.numbers import EPSILON, Finding, Flaw, Printed, contrast, equal, significance
from harness.papers.published import OWN
from harness.stats import ALPHA, holm
from harness.verdicts import AuditVerdict

#: paper -> the starred method and the one that it is tested against
STARRED = {"mcse": ("mcse", "simcse"), "kdmcse": ("kdmcse", "mcse")}


def averages(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check each printed average against the mean of its tasks, allowing for the rounding of both."""
    rows: dict[tuple[str, ...], list[Printed]] = defaultdict(list)
    for cell in cells:
        rows[tuple(value for name, value in cell.key._asdict().items() if name != "task")].append(cell)
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


def stars(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check the stars of each starred table against t-tests from its means and deviations."""
    tables: dict[tuple[str, str], list[Printed]] = defaultdict(list)
    for cell in cells:
        if cell.key.paper in STARRED and cell.number.std is not None:
            tables[cell.key.paper, cell.key.table].append(cell)
    for where, members in tables.items():
        if any(cell.number.star for cell in members):
            yield from _stars(where, members)


def _stars(where: tuple[str, str], members: Sequence[Printed]) -> Iterator[Finding]:
    method, against = STARRED[where[0]]
    pairs = [(cell, other) for cell in members if cell.key.method == method for other in rivals(cell, members, against)]
    starred = [pair for pair in pairs if pair[0].number.star]
    plain = [pair for pair in pairs if not pair[0].number.star]
    claim = f"Each star: better than {against}, p < {ALPHA}."
    flaws = [
        Flaw(_contrasted(*pair), verdict)
        for pair in starred
        if (verdict := significance(*pair)) is not AuditVerdict.HOLDS
    ]
    yield Finding(*where, claim, "stars", len(starred), tuple(flaws))
    claim = f"Every number better than {against} with p < {ALPHA} has a star."
    flaws = [
        Flaw(_contrasted(*pair), AuditVerdict.FAILS if _beyond_rounding(*pair) else AuditVerdict.ROUNDING)
        for pair in plain
        if significance(*pair) is AuditVerdict.HOLDS
    ]
    yield Finding(*where, claim, "stars", len(plain), tuple(flaws))
    yield from _reversed_stars(where, members, method, against)
    adjusted = holm([found.p if (found := contrast(*pair)) else 1.0 for pair in pairs])
    claim = f"Each star is still significant after Holm's correction over {len(pairs)} tests (not claimed)."
    flaws = [
        Flaw(f"{_contrasted(*pair)}; after Holm {p:.2g}")
        for pair, p in zip(pairs, adjusted, strict=True)
        if pair[0].number.star and p >= ALPHA
    ]
    yield Finding(*where, claim, "holm", len(starred), tuple(flaws))


def _reversed_stars(where: tuple[str, str], members: Sequence[Printed], method: str, against: str) -> Iterator[Finding]:
    """Check stars on the row that the method is tested against: at least one model of the method must be worse."""
    starred = [cell for cell in members if cell.key.method == against and cell.number.star]
    flaws = [
        Flaw(f"{cell} is not significantly better than any {method}")
        for cell in starred
        if all(significance(cell, other) is AuditVerdict.FAILS for other in rivals(cell, members, method))
    ]
    if starred:
        claim = f"A star on {against}: {method} is worse, p < {ALPHA}."
        yield Finding(*where, claim, "stars", len(starred), tuple(flaws))


def rivals(cell: Printed, cells: Sequence[Printed], method: str) -> list[Printed]:
    """Return another method's cells of the same encoder, setting and task that print a deviation."""
    wanted = cell.key[4:8]
    return [
        other
        for other in cells
        if other.key.method == method and other.key[4:8] == wanted and other.number.std is not None
    ]


def _beyond_rounding(cell: Printed, other: Printed) -> bool:
    found = contrast(cell, other)
    return found is not None and found.most < ALPHA


def _contrasted(cell: Printed, other: Printed) -> str:
    return f"{cell} against {other.text}, {contrast(cell, other)}"


def quotes(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check each quoted cell against its source, or, where that paper is not in published.csv, against other quotes."""
    papers = {cell.key.paper for cell in cells}
    places: dict[tuple[str, ...], list[Printed]] = defaultdict(list)
    tables: dict[tuple[str, str, str], list[Printed]] = defaultdict(list)
    for cell in cells:
        places[_place(cell)].append(cell)
        if cell.key.source != OWN:
            tables[cell.key.paper, cell.key.table, cell.key.source].append(cell)
    for (paper, table, source), quoted in tables.items():
        known = source in papers
        origins = {cell: _origins(cell, places[_place(cell)], known) for cell in quoted}
        compared = [cell for cell in quoted if origins[cell]]
        flaws = [_misquoted(cell, origins[cell]) for cell in compared if not any(_same(cell, o) for o in origins[cell])]
        claim = f"Numbers quoted from {source} equal " + ("their source." if known else "those quoted elsewhere.")
        if compared:
            yield Finding(paper, table, claim, "quotes", len(compared), tuple(flaws))


def _place(cell: Printed) -> tuple[str, ...]:
    key = cell.key
    return key.method, key.variant, key.encoder, key.setting, key.benchmark, key.task


def _origins(cell: Printed, candidates: Sequence[Printed], known: bool) -> list[Printed]:
    source, paper = cell.key.source, cell.key.paper
    if known:
        return [other for other in candidates if (other.key.paper, other.key.source) == (source, OWN)]
    return [other for other in candidates if other.key.source == source and other.key.paper != paper]


def _same(cell: Printed, origin: Printed) -> bool:
    return equal(cell, origin) and (origin.key.source != OWN or cell.number.std == origin.number.std)


def _misquoted(cell: Printed, origins: Sequence[Printed]) -> Flaw:
    there = ", ".join(f"{other.text} ({other.key.paper} {other.key.table})" for other in origins)
    return Flaw(f"{cell}, there {there}")
