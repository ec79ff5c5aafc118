"""Loss terms that a row lacks beside another one, and whether their part of the gradient could show anything."""

from __future__ import annotations

from harness.reporting.seeds.cells import Row

#: a loss term with a smaller share of the gradient in every batch cannot explain a difference
LEAST_SHARE = 0.01


def powerless(row: Row, other: Row) -> str:
    """`cannot show anything: cons carries 0.1 % of the gradient`, of two rows one of which lacks only such terms."""
    removed = removed_terms(row, other) or removed_terms(other, row)
    if not removed or max(removed.values()) >= LEAST_SHARE:
        return ""
    carried = (f"{term} carries {100 * share:.1g} %" for term, share in removed.items())
    return f"cannot show anything: {' and '.join(carried)} of the gradient"


def removed_terms(full: Row, other: Row) -> dict[str, float]:
    """The largest shares of the terms that another row lacks, if it differs in `without` and weights of 0 alone."""
    mine, theirs = full.label.parsed, other.label.parsed
    if not (mine and theirs) or (mine.name, mine.reading) != (theirs.name, theirs.reading):
        return {}
    options, changed = dict(mine.options), dict({*theirs.options} - {*mine.options})
    zeros = all(name == "without" or value == "0" for name, value in changed.items())
    whole = "without" not in options and options.keys() <= dict(theirs.options).keys()
    if not (whole and zeros) or full.label._replace(variant=other.label.variant) != other.label:
        return {}
    gone, left = changed.get("without", "").split("+"), other.spent.shares
    return {term: most for term, most in full.spent.shares.items() if term in gone or (left and not left.get(term))}
