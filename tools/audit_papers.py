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
    NumberPair,
    Printed,
    can_be_equal,
    check_averages,
    check_quotes,
    check_stars,
    compare,
    compute_gain,
    judge_better,
    make_printed_numbers,
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
    return [_parse_claim(*row) for row in read_rows(path, *_COLUMNS)]


def check_claims(claims: Sequence[Claim], numbers: Sequence[Printed]) -> Iterator[Finding]:
    """Check each claim. Raises UserError for one whose arguments match no number or whose options
    are wrong.
    """
    for claim in claims:
        selected: tuple[Printed, ...] = ()
        pairs: tuple[NumberPair, ...] = ()
        if claim.check in OF_NUMBERS:
            selected = tuple(_select_numbers(claim, numbers, ""))
        elif claim.check in OF_PAIRS:
            pairs = tuple(_select_pairs(claim, numbers))
        if not selected and not pairs and claim.check not in OF_OPTIONS:
            raise UserError(f"{claim.line}: no published number matches the arguments; fix them")

        options = {
            name: text
            for name, text in claim.arguments.items()
            if name.split(".")[-1] not in _FIELDS
        }
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


def _select_pairs(claim: Claim, numbers: Sequence[Printed]) -> Iterator[NumberPair]:
    """The pairs of a claim's two sides, equal in all that neither side sets."""
    set_by_a_side = {name[2:] for name in claim.arguments if name[:2] in ("a.", "b.")}
    shared = [name for name in _MATCHED if name not in set_by_a_side]

    def read_place(number: Printed) -> list[str]:
        return [getattr(number.key, name) for name in shared]

    candidates = _select_numbers(claim, numbers, "b.")
    for number in _select_numbers(claim, numbers, "a."):
        place = read_place(number)
        for candidate in candidates:
            if candidate.key != number.key and read_place(candidate) == place:
                yield number, candidate


def _select_numbers(claim: Claim, numbers: Sequence[Printed], side: str) -> list[Printed]:
    """The numbers that a claim's arguments choose, with those of one side: `a.`, `b.` or none."""
    values_by_field = {}
    if claim.paper != BETWEEN:
        values_by_field["paper"] = [claim.paper]
    for prefix in ("", side):  # those of the side replace the common ones
        for name, text in claim.arguments.items():
            field = name.removeprefix(prefix)
            if name.startswith(prefix) and field in _FIELDS:
                values_by_field[field] = text.split("|")

    selected = []
    for number in numbers:
        texts = number.key._asdict()
        texts["star"] = "yes" if number.number.star else "no"
        if all(texts[field] in values for field, values in values_by_field.items()):
            selected.append(number)
    return selected


def _parse_claim(line: str, row: Sequence[str]) -> Claim:
    paper, place, text, claimed, check, arguments = row
    if claimed not in ("yes", "no"):
        raise UserError(f"{line}: 'claimed' is '{claimed}'; write yes or no")
    if check not in CHECKS:
        raise UserError(f"{line}: unknown check '{check}'; known: {', '.join(sorted(CHECKS))}")

    values = {}
    for part in arguments.split(";"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UserError(
                f"{line}: '{part.strip()}' is not an argument; write name=value; name=value"
            )
        values[name] = value
    return Claim(paper, place, text, check, values, line, claimed == "yes")


# Each check compares printed numbers and yields those that contradict the claim.
@dataclass(frozen=True)
class Items:
    """The input of a check: numbers, or pairs of numbers, and the options of its claim."""

    numbers: tuple[Printed, ...]
    pairs: tuple[NumberPair, ...]
    options: Mapping[str, str]

    def read_number(self, name: str) -> float:
        return float(self.options[name])


Check = Callable[[Items], Iterable[Flaw]]


def check_better(items: Items) -> Iterator[Flaw]:
    """Each a is better than its b, as printed."""
    for a, b in items.pairs:
        if compute_gain(a, b) <= EPSILON:
            yield Flaw(_describe_pair(a, b))


def check_significant(items: Items) -> Iterator[Flaw]:
    """Each a is better than its b with p < 0.05, from means and deviations; `sides=1` reads the
    test one-sided.
    """
    sides = int(items.options.get("sides", "2"))
    for a, b in items.pairs:
        verdict = judge_better(a, b, sides)
        if verdict is not AuditVerdict.HOLDS:
            test = compare(a, b) or "no test: number of seeds or deviation not printed"
            yield Flaw(f"{_describe_pair(a, b)}, {test}", verdict)


def check_difference(items: Items) -> Iterator[Flaw]:
    """Each a is better than its b by `value`, allowing for the rounding of both and of the value."""
    claimed = items.read_number("value")
    unit = _find_unit(items.options["value"])
    for a, b in items.pairs:
        gain = compute_gain(a, b)
        if abs(gain - claimed) > (a.unit + b.unit + unit) / 2 + EPSILON:
            yield Flaw(f"{_describe_pair(a, b)}: {signed(gain, 2)}")


def check_range(items: Items) -> Iterator[Flaw]:
    """The gains of a over b range from `low` to `high`, inclusive, as printed."""
    gains = [compute_gain(a, b) for a, b in items.pairs]
    ends = ((min(gains), items.read_number("low")), (max(gains), items.read_number("high")))
    for computed, claimed in ends:
        if abs(computed - claimed) > EPSILON:
            yield Flaw(f"{fixed(computed, 2)}, not {fixed(claimed, 2)}")


def check_same(items: Items) -> Iterator[Flaw]:
    """Each a equals its b in value, and in deviation where both have one, within rounding."""
    for a, b in items.pairs:
        if not can_be_equal(a, b):
            yield Flaw(_describe_pair(a, b))


def check_distinct(items: Items) -> Iterator[Flaw]:
    """No a repeats its b in value and deviation."""
    for a, b in items.pairs:
        if (a.value, a.number.std) == (b.value, b.number.std):
            yield Flaw(_describe_pair(a, b))


def check_same_star(items: Items) -> Iterator[Flaw]:
    """Both numbers of a pair are starred, or neither."""
    for a, b in items.pairs:
        if a.number.star != b.number.star:
            yield Flaw(f"{a}: {_describe_star(a)}, {_describe_star(b)}")


def _describe_star(number: Printed) -> str:
    starred = "starred" if number.number.star else "not starred"
    return f"{starred} in {number.key.table}"


def check_agreement(items: Items) -> Iterator[Flaw]:
    """All numbers can be roundings of one number."""
    first, *rest = items.numbers
    for number in rest:
        if not can_be_equal(number, first):
            yield Flaw(f"{_describe_place(number)} against {_describe_place(first)}")


def check_value(items: Items) -> Iterator[Flaw]:
    """Each number is `value`, within `tolerance`."""
    claimed = items.read_number("value")
    tolerance = float(items.options.get("tolerance", "0"))
    for number in items.numbers:
        if abs(number.value - claimed) > tolerance + EPSILON:
            yield Flaw(str(number))


def check_p_of_test(items: Items) -> Iterator[Flaw]:
    """The t-test of each pair gives p = `value`, or p below `below`; `welch=yes` takes unequal
    variances.
    """
    equal_variance = items.options.get("welch") != "yes"
    for a, b in items.pairs:
        first = a.number.summary
        second = b.number.summary
        test = None
        if first and second:
            test = t_test_from_summaries(first, second, equal_variance=equal_variance)
        if test is None:
            raise ValueError(f"{_describe_pair(a, b)}: seeds or deviation not printed")

        if "below" in items.options:
            holds = test.p < items.read_number("below")
        else:
            rounding = _find_unit(items.options["value"]) / 2
            holds = abs(test.p - items.read_number("value")) <= rounding + EPSILON
        if not holds:
            yield Flaw(f"{_describe_pair(a, b)}: p = {test.p:.3g}")


def check_multiples(items: Items) -> Iterator[Flaw]:
    """Each percentage is a whole number of answers out of `size`, averaged over `seeds` models (one
    by default).
    """
    answers = items.read_number("size") * float(items.options.get("seeds", "1"))
    for number in items.numbers:
        nearest = 100 * round(number.value * answers / 100) / answers
        if abs(number.value - nearest) > number.unit / 2 + EPSILON:
            yield Flaw(f"{number}, nearest {fixed(nearest, 3)}")


def check_class_mates(items: Items) -> Iterator[Flaw]:
    """A batch of `batch` examples has fewer than `most` pairs of one class on average.

    Batches are drawn without replacement from `classes` classes of `each` examples.
    """
    batch = int(items.read_number("batch"))
    class_size = int(items.read_number("each"))
    examples = int(items.read_number("classes")) * class_size

    pairs = math.comb(batch, 2) * (class_size - 1) / (examples - 1)
    # of the batches around an example, those that have none of its class
    batches_alone = math.comb(examples - class_size, batch - 1)
    share_paired = 1 - batches_alone / math.comb(examples - 1, batch - 1)
    if pairs >= items.read_number("most"):
        share = f"{fixed(100 * share_paired, 0)}% of the examples have a partner"
        yield Flaw(f"{fixed(pairs, 1)} pairs a batch on average; {share}")


def check_mixing_cycle(items: Items) -> Iterator[Flaw]:
    """One paired batch every ceil(sentences / pairs) steps equals one after floor(sentences /
    pairs) text batches.
    """
    sentences = int(items.read_number("sentences"))
    pairs = int(items.read_number("pairs"))
    cycle_by_ceiling = -(-sentences // pairs)
    cycle_by_floor = sentences // pairs + 1
    if not cycle_by_ceiling == cycle_by_floor == items.read_number("cycle"):
        yield Flaw(f"a cycle of {cycle_by_ceiling} and one of {cycle_by_floor} batches")


#: the checks by their names in the claims: of pairs of numbers, of numbers, of their options alone
OF_PAIRS: dict[str, Check] = {
    "better": check_better,
    "significant": check_significant,
    "difference": check_difference,
    "between": check_range,
    "same": check_same,
    "distinct": check_distinct,
    "same-star": check_same_star,
    "p-of-test": check_p_of_test,
}
OF_NUMBERS: dict[str, Check] = {
    "agree": check_agreement,
    "value": check_value,
    "multiples": check_multiples,
}
OF_OPTIONS: dict[str, Check] = {
    "class-mates": check_class_mates,
    "mixing-cycle": check_mixing_cycle,
}
CHECKS = OF_PAIRS | OF_NUMBERS | OF_OPTIONS


def _describe_pair(a: Printed, b: Printed) -> str:
    """Describe number a in full, and b by what differs from a: by its source if nothing else does."""
    a_key = a.key._asdict()
    b_key = b.key._asdict()
    fields = ("paper", "table", "method", "variant", "encoder", "setting", "task")
    words = [b_key[name] for name in fields if b_key[name] not in ("", a_key[name])]
    if not words:
        words = [f"quoted from {b.key.source}"]
    return " ".join([f"{a} against", *words, b.text])


def _describe_place(number: Printed) -> str:
    quoted = "" if number.key.source == OWN else f", quoted from {number.key.source}"
    return f"{number.text} ({number.key.paper} {number.key.table}{quoted})"


def _find_unit(text: str) -> float:
    return 10.0 ** -len(text.partition(".")[2])


def check_papers(
    published: PublishedNumbers, claims: Sequence[Claim] | None = None
) -> list[Finding]:
    """Run every check that the published numbers allow; findings by paper. `claims` default to the
    shipped ones.

    Raises UserError for a claim that matches no number.
    """
    numbers = make_printed_numbers(published, read_papers())
    if claims is None:
        claims = read_claims()
    findings = [*check_averages(numbers), *check_stars(numbers), *check_quotes(numbers)]
    findings += check_claims(claims, numbers)

    papers = list(dict.fromkeys(number.key.paper for number in numbers))

    def find_order(finding: Finding) -> int:
        return papers.index(finding.paper) if finding.paper in papers else len(papers)

    return sorted(findings, key=find_order)


@click.command(help=__doc__)
def main() -> None:
    """Print the findings as CSV."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for finding in check_papers(read_published()):
        writer.writerow(
            [
                finding.paper,
                finding.where,
                finding.claim,
                "yes" if finding.claimed else "no",
                finding.check,
                finding.checked,
                finding.failed,
                finding.within,
                SEPARATOR.join(finding.details),
            ]
        )


if __name__ == "__main__":
    main()
