"""What every table can be asked: averages against tasks, stars against numbers, quotes against their origin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import mean

from harness.formatting import fixed
from harness.metrics import AVERAGE
from harness.papers.audit.numbers import (
    EPSILON,
    Finding,
    Printed,
    contrast,
    equal,
    finding,
    number_text,
    significance,
)
from harness.stats import ALPHA, holm

#: paper -> the method that its stars are about and the one that it is compared with
STARRED = {"mcse": ("mcse", "simcse"), "kdmcse": ("kdmcse", "mcse")}
OWN = "own"


def averages(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Each printed average against the mean of its tasks, table by table; rounding of both is allowed for."""
    rows: dict[tuple[str, ...], list[Printed]] = defaultdict(list)
    for cell in cells:
        rows[tuple(value for name, value in cell.key._asdict().items() if name != "task")].append(cell)
    tables: dict[tuple[str, str], list[list[Printed]]] = defaultdict(list)
    for row in rows.values():
        if len(row) > 2 and any(cell.key.task == AVERAGE for cell in row):
            tables[row[0].key.paper, row[0].key.table].append(row)
    for where, members in tables.items():
        failed = [text for text in map(_wrong_average, members) if text]
        yield finding(where, "Each average is the mean of its tasks.", "averages", len(members), failed)


def _wrong_average(row: Sequence[Printed]) -> str | None:
    (average,) = (cell for cell in row if cell.key.task == AVERAGE)
    tasks = [cell.value for cell in row if cell.key.task != AVERAGE]
    if abs(average.value - mean(tasks)) <= average.unit + EPSILON:
        return None
    return f"{average}, the mean of its {len(tasks)} tasks is {fixed(mean(tasks), 3)}"


def stars(cells: Sequence[Printed]) -> Iterator[Finding]:
    """The stars of each table that prints any against the t-tests that its means and deviations allow."""
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
    states = [significance(*pair) for pair in starred]
    yield finding(
        where,
        f"Each star: better than {against}, p < {ALPHA}.",
        "stars",
        len(starred),
        [_contrasted(*pair) for pair, state in zip(starred, states, strict=True) if state == "no"],
        [_contrasted(*pair) for pair, state in zip(starred, states, strict=True) if state == "within rounding"],
    )
    missing = [pair for pair in plain if significance(*pair) == "yes"]
    sure = [pair for pair in missing if _beyond_rounding(*pair)]
    yield finding(
        where,
        f"What is better than {against} with p < {ALPHA} has a star.",
        "stars",
        len(plain),
        [_contrasted(*pair) for pair in sure],
        [_contrasted(*pair) for pair in missing if pair not in sure],
    )
    yield from _reversed_stars(where, members, method, against)
    adjusted = holm([found.p if (found := contrast(*pair)) else 1.0 for pair in pairs])
    lost = [
        f"{_contrasted(*pair)}; after Holm {p:.2g}"
        for pair, p in zip(pairs, adjusted, strict=True)
        if pair[0].number.star and p >= ALPHA
    ]
    claim = f"Each star outlasts Holm's correction for the table's {len(pairs)} tests (not claimed)."
    yield finding(where, claim, "holm", len(starred), lost)


def _reversed_stars(where: tuple[str, str], members: Sequence[Printed], method: str, against: str) -> Iterator[Finding]:
    """Stars on the row that is compared with: a loss of at least one model of the method."""
    starred = [cell for cell in members if cell.key.method == against and cell.number.star]
    failed = [
        f"{cell} is not significantly better than any {method}"
        for cell in starred
        if all(significance(cell, other) == "no" for other in rivals(cell, members, method))
    ]
    if starred:
        yield finding(where, f"A star on {against}: {method} is worse, p < {ALPHA}.", "stars", len(starred), failed)


def rivals(cell: Printed, cells: Sequence[Printed], method: str) -> list[Printed]:
    """The cells of another method with the same encoder, setting and task, with a deviation."""
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
    return f"{cell} against {number_text(other)}, {contrast(cell, other)}"


def quotes(cells: Sequence[Printed]) -> Iterator[Finding]:
    """Each quoted cell against the paper it names; of papers not at hand, against what other papers quote of it."""
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
        failed = [
            _misquoted(cell, origins[cell]) for cell in compared if not any(_same(cell, o) for o in origins[cell])
        ]
        claim = f"What is quoted from {source} equals " + ("its origin." if known else "what another paper quotes.")
        if compared:
            yield finding((paper, table), claim, "quotes", len(compared), failed)


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


def _misquoted(cell: Printed, origins: Sequence[Printed]) -> str:
    there = ", ".join(f"{number_text(other)} ({other.key.paper} {other.key.table})" for other in origins)
    return f"{cell}, there {there}"
