"""The checks that a claim can name: each compares printed numbers and yields those that contradict the claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.formatting import fixed, signed
from harness.papers.audit.numbers import EPSILON, Flaw, Printed, contrast, equal, gain, significance
from harness.papers.published import OWN
from harness.stats import t_test_from_summaries
from harness.verdicts import AuditVerdict


@dataclass(frozen=True)
class Items:
    """The input of a check: cells, or pairs of cells, and the options of its claim."""

    cells: tuple[Printed, ...]
    pairs: tuple[tuple[Printed, Printed], ...]
    options: Mapping[str, str]

    def number(self, name: str) -> float:
        """Read an option as a number. Raises KeyError and ValueError."""
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
