"""The audit of the papers' printed numbers: averages, stars and quotes of every table, then the papers' claims.

Claims are the statements of reports/claims.csv, decided by the checks that they name. `claimed` is 'yes' for what the
paper says and 'no' for what only should be so, such as that two tables agree.

The arguments of a claim are `field=value; a.field=value; b.field=value`. Fields are columns of published.csv; `|`
separates alternatives; `a.` and `b.` apply to one side of a comparison. Both sides share paper, table, encoder,
setting, benchmark and task unless one of them sets it. Any other argument is an option of the check.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from harness.errors import UserError
from harness.formatting import fixed, signed
from harness.metrics import AVERAGE
from harness.papers.printed import (
    EPSILON,
    Finding,
    Flaw,
    Printed,
    contrast,
    equal,
    gain,
    printed_numbers,
    significance,
)
from harness.papers.published import OWN, REPORTS, PublishedKey, PublishedNumbers, csv_rows, read_papers
from harness.stats import ALPHA, holm, t_test_from_summaries
from harness.verdicts import AuditVerdict

#: `paper` of a claim about several papers
BETWEEN = "between papers"
_MATCHED = ("paper", "table", "encoder", "setting", "benchmark", "task")
_FIELDS = (*PublishedKey._fields, "star")
_COLUMNS = ("paper", "where", "claim", "claimed", "check", "arguments")


@dataclass(frozen=True)
class Claim:
    """A statement about a paper, the place that it is about, and the check that decides it."""

    paper: str
    where: str
    text: str
    check: str
    arguments: Mapping[str, str]
    line: str
    claimed: bool = True


def read_claims(path: Path = REPORTS / "claims.csv") -> list[Claim]:
    """Read the claims of reports/claims.csv. Raises UserError naming the file and the line."""
    return [_claim(row, line) for line, row in csv_rows(path)]


def check_claims(claims: Sequence[Claim], cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check each claim. Raises UserError for one whose arguments match no number or whose options are wrong."""
    for claim in claims:
        options = {name: text for name, text in claim.arguments.items() if name.split(".")[-1] not in _FIELDS}
        selected = tuple(_selected(claim, cells, "")) if claim.check in OF_CELLS else ()
        pairs = tuple(_pairs(claim, cells)) if claim.check in OF_PAIRS else ()
        if not (selected or pairs or claim.check in OF_OPTIONS):
            raise UserError(f"{claim.line}: no published number matches the arguments; fix them")
        try:
            flaws = tuple(CHECKS[claim.check](Items(selected, pairs, options)))
        except (KeyError, ValueError) as error:
            raise UserError(f"{claim.line}: invalid options for the check '{claim.check}' ({error})") from error
        checked = len(selected) + len(pairs) or 1
        yield Finding(claim.paper, claim.where, claim.text, claim.check, checked, flaws, claim.claimed)


def _pairs(claim: Claim, cells: Sequence[Printed]) -> Iterator[tuple[Printed, Printed]]:
    apart = {name[2:] for name in claim.arguments if name[:2] in ("a.", "b.")}
    shared = [name for name in _MATCHED if name not in apart]
    others = _selected(claim, cells, "b.")
    for cell in _selected(claim, cells, "a."):
        wanted = [getattr(cell.key, name) for name in shared]
        for other in others:
            if other.key != cell.key and [getattr(other.key, name) for name in shared] == wanted:
                yield cell, other


def _selected(claim: Claim, cells: Sequence[Printed], side: str) -> list[Printed]:
    wanted = {} if claim.paper == BETWEEN else {"paper": claim.paper}
    for prefix in ("", side):
        wanted |= {
            name.removeprefix(prefix): text
            for name, text in claim.arguments.items()
            if name.startswith(prefix) and name.removeprefix(prefix) in _FIELDS
        }
    allowed = {name: text.split("|") for name, text in wanted.items()}
    fields = [(cell, {**cell.key._asdict(), "star": "yes" if cell.number.star else "no"}) for cell in cells]
    return [cell for cell, texts in fields if all(texts[name] in values for name, values in allowed.items())]


def _claim(row: Mapping[str, str], line: str) -> Claim:
    if tuple(row) != _COLUMNS or None in row.values():
        raise UserError(f"{line}: a claim has the columns {', '.join(_COLUMNS)}")
    paper, where, text, claimed, check, arguments = row.values()
    if claimed not in ("yes", "no"):
        raise UserError(f"{line}: 'claimed' is '{claimed}'; write yes or no")
    if check not in CHECKS:
        raise UserError(f"{line}: unknown check '{check}'; known: {', '.join(sorted(CHECKS))}")
    found = {}
    for part in arguments.split(";"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UserError(f"{line}: '{part.strip()}' is not an argument; write name=value; name=value")
        found[name] = value
    return Claim(paper, where, text, check, found, line, claimed == "yes")


# Each check compares printed numbers and yields those that contradict the claim.
@dataclass(frozen=True)
class Items:
    """The input of a check: cells, or pairs of cells, and the options of its claim."""

    cells: tuple[Printed, ...]
    pairs: tuple[tuple[Printed, Printed], ...]
    options: Mapping[str, str]

    def number(self, name: str) -> float:
        return float(self.options[name])


Check = Callable[[Items], Iterable[Flaw]]


def better(items: Items) -> Iterator[Flaw]:
    """Each a is better than its b, as printed."""
    return (Flaw(_beside(a, b)) for a, b in items.pairs if gain(a, b) <= EPSILON)


def significant(items: Items) -> Iterator[Flaw]:
    """Each a is better than its b with p < 0.05, from means and deviations; `sides=1` reads the test one-sided."""
    for a, b in items.pairs:
        verdict = significance(a, b, int(items.options.get("sides", "2")))
        if verdict is not AuditVerdict.HOLDS:
            test = contrast(a, b) or "no test: number of seeds or deviation not printed"
            yield Flaw(f"{_beside(a, b)}, {test}", verdict)


def difference(items: Items) -> Iterator[Flaw]:
    """Each a is better than its b by `value`, allowing for the rounding of both and of the value."""
    wanted, unit = items.number("value"), _unit(items.options["value"])
    for a, b in items.pairs:
        if abs(gain(a, b) - wanted) > (a.unit + b.unit + unit) / 2 + EPSILON:
            yield Flaw(f"{_beside(a, b)}: {signed(gain(a, b), 2)}")


def between(items: Items) -> Iterator[Flaw]:
    """The gains of a over b range from `low` to `high`, inclusive, as printed."""
    gains = [gain(a, b) for a, b in items.pairs]
    for found, said in ((min(gains), items.number("low")), (max(gains), items.number("high"))):
        if abs(found - said) > EPSILON:
            yield Flaw(f"{fixed(found, 2)}, not {fixed(said, 2)}")


def same(items: Items) -> Iterator[Flaw]:
    """Each a equals its b in value, and in deviation where both have one, within rounding."""
    return (Flaw(_beside(a, b)) for a, b in items.pairs if not equal(a, b))


def distinct(items: Items) -> Iterator[Flaw]:
    """No a repeats its b in value and deviation."""
    return (Flaw(_beside(a, b)) for a, b in items.pairs if (a.value, a.number.std) == (b.value, b.number.std))


def same_star(items: Items) -> Iterator[Flaw]:
    """Both cells of a pair are starred, or neither."""
    for a, b in items.pairs:
        if a.number.star != b.number.star:
            words = [f"{'' if cell.number.star else 'not '}starred in {cell.key.table}" for cell in (a, b)]
            yield Flaw(f"{a}: {', '.join(words)}")


def agree(items: Items) -> Iterator[Flaw]:
    """All cells may round from one number."""
    first, *rest = items.cells
    return (Flaw(f"{_placed(cell)} against {_placed(first)}") for cell in rest if not equal(cell, first))


def value(items: Items) -> Iterator[Flaw]:
    """Each cell is `value`, within `tolerance`."""
    wanted, tolerance = items.number("value"), float(items.options.get("tolerance", "0"))
    return (Flaw(str(cell)) for cell in items.cells if abs(cell.value - wanted) > tolerance + EPSILON)


def p_of_test(items: Items) -> Iterator[Flaw]:
    """The t-test of each pair gives p = `value`, or p below `below`; `welch=yes` takes unequal variances."""
    for a, b in items.pairs:
        first, second = a.number.summary, b.number.summary
        equal_variance = items.options.get("welch") != "yes"
        test = t_test_from_summaries(first, second, equal_variance=equal_variance) if first and second else None
        if test is None:
            raise ValueError(f"{_beside(a, b)}: seeds or deviation not printed")
        p = test.p
        if "below" in items.options:
            fits = p < items.number("below")
        else:
            fits = abs(p - items.number("value")) <= _unit(items.options["value"]) / 2 + EPSILON
        if not fits:
            yield Flaw(f"{_beside(a, b)}: p = {p:.3g}")


def multiples(items: Items) -> Iterator[Flaw]:
    """Each percentage is a whole number of answers out of `size`, averaged over `seeds` models (one by default)."""
    whole = items.number("size") * float(items.options.get("seeds", "1"))
    for cell in items.cells:
        nearest = 100 * round(cell.value * whole / 100) / whole
        if abs(cell.value - nearest) > cell.unit / 2 + EPSILON:
            yield Flaw(f"{cell}, nearest {fixed(nearest, 3)}")


def class_mates(items: Items) -> Iterator[Flaw]:
    """A batch of `batch` examples has fewer than `most` pairs of one class on average.

    Batches are drawn without replacement from `classes` classes of `each` examples.
    """
    batch, classes, each = (int(items.number(name)) for name in ("batch", "classes", "each"))
    pairs = math.comb(batch, 2) * (each - 1) / (classes * each - 1)
    partnered = 1 - math.comb(classes * each - each, batch - 1) / math.comb(classes * each - 1, batch - 1)
    if pairs >= items.number("most"):
        share = f"{fixed(100 * partnered, 0)}% of the examples have a partner"
        yield Flaw(f"{fixed(pairs, 1)} pairs a batch on average; {share}")


def mixing_cycle(items: Items) -> Iterator[Flaw]:
    """One paired batch every ceil(sentences / pairs) steps equals one after floor(sentences / pairs) text batches."""
    sentences, pairs = int(items.number("sentences")), int(items.number("pairs"))
    every, after = -(-sentences // pairs), sentences // pairs + 1
    if not every == after == items.number("cycle"):
        yield Flaw(f"a cycle of {every} and one of {after} batches")


def _by_name(*checks: Check) -> dict[str, Check]:
    return {check.__name__.replace("_", "-"): check for check in checks}


#: name -> check, by what a check compares: pairs of cells, cells, or its options alone
OF_PAIRS = _by_name(better, significant, difference, between, same, distinct, same_star, p_of_test)
OF_CELLS = _by_name(agree, value, multiples)
OF_OPTIONS = _by_name(class_mates, mixing_cycle)
CHECKS = OF_PAIRS | OF_CELLS | OF_OPTIONS


def _beside(a: Printed, b: Printed) -> str:
    """Describe cell a in full, and b by what differs from a: by its source if nothing else does."""
    mine, theirs = a.key._asdict(), b.key._asdict()
    fields = ("paper", "table", "method", "variant", "encoder", "setting", "task")
    words = [theirs[name] for name in fields if theirs[name] not in ("", mine[name])]
    return " ".join([f"{a} against", *(words or [f"quoted from {b.key.source}"]), b.text])


def _placed(cell: Printed) -> str:
    quoted = "" if cell.key.source == OWN else f", quoted from {cell.key.source}"
    return f"{cell.text} ({cell.key.paper} {cell.key.table}{quoted})"


def _unit(text: str) -> float:
    return 10.0 ** -len(text.partition(".")[2])


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
