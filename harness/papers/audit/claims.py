"""The statements of reports/claims.csv, decided by the checks that they name.

`claimed` is 'yes' for what the paper says and 'no' for what only should be so, such as that two tables agree.

The arguments of a claim are `field=value; a.field=value; b.field=value`. Fields are columns of published.csv; `|`
separates alternatives; `a.` and `b.` apply to one side of a comparison. Both sides share paper, table, encoder,
setting, benchmark and task unless one of them sets it. Any other argument is an option of the check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.papers.audit.checks import CHECKS, OF_CELLS, OF_OPTIONS, OF_PAIRS, Items
from harness.papers.audit.numbers import Finding, Printed
from harness.papers.published import REPORTS, PublishedKey, csv_rows

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
