"""The audit of the papers' printed numbers, as the report's page shows it: `python
tools/audit_papers.py > reports/audit.csv`.

It checks averages, stars and quotes of every table of reports/published.csv, then the papers'
claims.

Claims are the statements of reports/claims.csv, decided by the checks that they name. `claimed` is
'yes' for what the paper states and 'no' for what merely ought to hold, such as that two tables
agree.

The arguments of a claim are `field=value; a.field=value; b.field=value`. Fields are columns of
published.csv; `|` separates alternatives; `a.` and `b.` apply to one side of a comparison. Both
sides share paper, table, encoder, setting, benchmark and task unless one of them sets it. Any other
argument is an option of the check.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from printed_numbers import (
    EPSILON,
    Finding,
    Flaw,
    Printed,
    averages,
    contrast,
    equal,
    gain,
    printed_numbers,
    quotes,
    significance,
    stars,
)

from harness.datarows import read_rows
from harness.errors import UserError
from harness.formatting import fixed, signed
from harness.metrics import AuditVerdict
from harness.papers.audit import COLUMNS, SEPARATOR
from harness.papers.published import (
    OWN,
    REPORTS,
    PublishedKey,
    PublishedNumbers,
    read_papers,
    read_published,
)
from harness.stats import t_test_from_summaries

#: `paper` of a claim about several papers
BETWEEN = "between papers"
_MATCHED = ("paper", "table", "encoder", "setting", "benchmark", "task")
_FIELDS = (*PublishedKey._fields, "star")
_COLUMNS = ("paper", "where", "claim", "claimed", "check", "arguments")


@dataclass(frozen=True)
class Claim:
    """A statement about a paper, the place in the paper, and the check that decides it."""

    paper: str
    where: str
    text: str
    check: str
    arguments: Mapping[str, str]
    line: str
    claimed: bool = True


def read_claims(path: Path = REPORTS / "claims.csv") -> list[Claim]:
    """Read the claims of reports/claims.csv. Raises UserError naming the file and the line."""
    return [_claim(*row) for row in read_rows(path, *_COLUMNS)]


def check_claims(claims: Sequence[Claim], cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check each claim. Raises UserError for one whose arguments match no number or whose options
    are wrong.
    """
    for claim in claims:
        options = {
            name: text
            for name, text in claim.arguments.items()
            if name.split(".")[-1] not in _FIELDS
        }
        selected = tuple(_selected(claim, cells, "")) if claim.check in OF_CELLS else ()
        pairs = tuple(_pairs(claim, cells)) if claim.check in OF_PAIRS else ()
        if not (selected or pairs or claim.check in OF_OPTIONS):
            raise UserError(f"{claim.line}: no published number matches the arguments; fix them")
        try:
            flaws = tuple(CHECKS[claim.check](Items(selected, pairs, options)))
        except (KeyError, ValueError) as error:
            raise UserError(
                f"{claim.line}: invalid options for the check '{claim.check}' ({error})"
            ) from error
        checked = len(selected) + len(pairs) or 1
        yield Finding(
            claim.paper, claim.where, claim.text, claim.check, checked, flaws, claim.claimed
        )


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
    fields = [
        (cell, {**cell.key._asdict(), "star": "yes" if cell.number.star else "no"})
        for cell in cells
    ]
    return [
        cell
        for cell, texts in fields
        if all(texts[name] in values for name, values in allowed.items())
    ]


def _claim(line: str, row: Sequence[str]) -> Claim:
    paper, where, text, claimed, check, arguments = row
    if claimed not in ("yes", "no"):
        raise UserError(f"{line}: 'claimed' is '{claimed}'; write yes or no")
    if check not in CHECKS:
        raise UserError(f"{line}: unknown check '{check}'; known: {', '.join(sorted(CHECKS))}")
    results = {}
    for part in arguments.split(";"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UserError(
                f"{line}: '{part.strip()}' is not an argument; write name=value; name=value"
            )
        results[name] = value
    return Claim(paper, where, text, check, results, line, claimed == "yes")


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
    """Each a is better than its b with p < 0.05, from means and deviations; `sides=1` reads the
    test one-sided.
    """
    for a, b in items.pairs:
        verdict = significance(a, b, int(items.options.get("sides", "2")))
        if verdict is not AuditVerdict.HOLDS:
            test = contrast(a, b) or "no test: number of seeds or deviation not printed"
            yield Flaw(f"{_beside(a, b)}, {test}", verdict)


def difference(items: Items) -> Iterator[Flaw]:
    """Each a is better than its b by `value`, allowing for the rounding of both and of the value."""
    wanted = items.number("value")
    unit = _unit(items.options["value"])
    for a, b in items.pairs:
        if abs(gain(a, b) - wanted) > (a.unit + b.unit + unit) / 2 + EPSILON:
            yield Flaw(f"{_beside(a, b)}: {signed(gain(a, b), 2)}")


def between(items: Items) -> Iterator[Flaw]:
    """The gains of a over b range from `low` to `high`, inclusive, as printed."""
    gains = [gain(a, b) for a, b in items.pairs]
    for computed, said in ((min(gains), items.number("low")), (max(gains), items.number("high"))):
        if abs(computed - said) > EPSILON:
            yield Flaw(f"{fixed(computed, 2)}, not {fixed(said, 2)}")


def same(items: Items) -> Iterator[Flaw]:
    """Each a equals its b in value, and in deviation where both have one, within rounding."""
    return (Flaw(_beside(a, b)) for a, b in items.pairs if not equal(a, b))


def distinct(items: Items) -> Iterator[Flaw]:
    """No a repeats its b in value and deviation."""
    return (
        Flaw(_beside(a, b))
        for a, b in items.pairs
        if (a.value, a.number.std) == (b.value, b.number.std)
    )


def same_star(items: Items) -> Iterator[Flaw]:
    """Both cells of a pair are starred, or neither."""
    for a, b in items.pairs:
        if a.number.star != b.number.star:
            words = [
                f"{'' if cell.number.star else 'not '}starred in {cell.key.table}"
                for cell in (a, b)
            ]
            yield Flaw(f"{a}: {', '.join(words)}")


def agree(items: Items) -> Iterator[Flaw]:
    """All cells can be roundings of one number."""
    first, *rest = items.cells
    return (
        Flaw(f"{_placed(cell)} against {_placed(first)}") for cell in rest if not equal(cell, first)
    )


def value(items: Items) -> Iterator[Flaw]:
    """Each cell is `value`, within `tolerance`."""
    wanted = items.number("value")
    tolerance = float(items.options.get("tolerance", "0"))
    return (
        Flaw(str(cell)) for cell in items.cells if abs(cell.value - wanted) > tolerance + EPSILON
    )


def p_of_test(items: Items) -> Iterator[Flaw]:
    """The t-test of each pair gives p = `value`, or p below `below`; `welch=yes` takes unequal
    variances.
    """
    for a, b in items.pairs:
        first = a.number.summary
        second = b.number.summary
        equal_variance = items.options.get("welch") != "yes"
        test = (
            t_test_from_summaries(first, second, equal_variance=equal_variance)
            if first and second
            else None
        )
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
    """Each percentage is a whole number of answers out of `size`, averaged over `seeds` models (one
    by default).
    """
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
    partnered = 1 - math.comb(classes * each - each, batch - 1) / math.comb(
        classes * each - 1, batch - 1
    )
    if pairs >= items.number("most"):
        share = f"{fixed(100 * partnered, 0)}% of the examples have a partner"
        yield Flaw(f"{fixed(pairs, 1)} pairs a batch on average; {share}")


def mixing_cycle(items: Items) -> Iterator[Flaw]:
    """One paired batch every ceil(sentences / pairs) steps equals one after floor(sentences /
    pairs) text batches.
    """
    sentences = int(items.number("sentences"))
    pairs = int(items.number("pairs"))
    every = -(-sentences // pairs)
    after = sentences // pairs + 1
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
    mine = a.key._asdict()
    theirs = b.key._asdict()
    fields = ("paper", "table", "method", "variant", "encoder", "setting", "task")
    words = [theirs[name] for name in fields if theirs[name] not in ("", mine[name])]
    return " ".join([f"{a} against", *(words or [f"quoted from {b.key.source}"]), b.text])


def _placed(cell: Printed) -> str:
    quoted = "" if cell.key.source == OWN else f", quoted from {cell.key.source}"
    return f"{cell.text} ({cell.key.paper} {cell.key.table}{quoted})"


def _unit(text: str) -> float:
    return 10.0 ** -len(text.partition(".")[2])


def audit(published: PublishedNumbers, claims: Sequence[Claim] | None = None) -> list[Finding]:
    """Run every check that the published numbers allow; findings by paper. `claims` default to the
    shipped ones.

    Raises UserError for a claim that matches no number.
    """
    cells = printed_numbers(published, read_papers())
    findings = [*averages(cells), *stars(cells), *quotes(cells)]
    findings += check_claims(read_claims() if claims is None else claims, cells)
    order = {
        paper: index for index, paper in enumerate(dict.fromkeys(cell.key.paper for cell in cells))
    }
    return sorted(findings, key=lambda finding: order.get(finding.paper, len(order)))


@click.command(help=__doc__)
def main() -> None:
    """Print the findings as CSV."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    for finding in audit(read_published()):
        claimed = "yes" if finding.claimed else "no"
        counts = finding.checked, finding.failed, finding.within
        exceptions = SEPARATOR.join(finding.details)
        table.writerow(
            [
                finding.paper,
                finding.where,
                finding.claim,
                claimed,
                finding.check,
                *counts,
                exceptions,
            ]
        )


if __name__ == "__main__":
    main()
