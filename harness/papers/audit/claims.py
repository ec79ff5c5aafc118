"""The papers' claims in reports/claims.csv, decided by the checks that they name.

The arguments of a claim are `field=value; a.field=value; b.field=value`. Fields are columns of published.csv; `|`
separates alternatives; `a.` and `b.` apply to one side of a comparison. Both sides share paper, table, encoder,
setting, benchmark and task unless one of them sets it. Any other argument is an option of the check.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from harness.errors import UserError
from harness.papers.audit.checks import CHECKS, Items
from harness.papers.audit.numbers import Finding, Printed
from harness.papers.published import PublishedKey

#: `paper` of a claim about several papers
BETWEEN = "between papers"
_MATCHED = ("paper", "table", "encoder", "setting", "benchmark", "task")
_FIELDS = (*PublishedKey._fields, "star")
_COLUMNS = ("paper", "where", "claim", "check", "arguments")


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, where it is printed, and the check that decides it."""

    paper: str
    where: str
    text: str
    check: str
    arguments: Mapping[str, str]
    line: str


def read_claims(path: Path | None = None) -> list[Claim]:
    """Read the claims of reports/claims.csv. Raises UserError naming the file and the line."""
    path = path or Path(str(files("harness_reports") / "claims.csv"))
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return [_claim(row, f"{path.name}, line {line}") for line, row in enumerate(csv.DictReader(stream), 2)]
    except OSError as error:
        raise UserError(f"the claims {path} cannot be read: {error.strerror}; check the path") from error


def check_claims(claims: Sequence[Claim], cells: Sequence[Printed]) -> Iterator[Finding]:
    """Check each claim. Raises UserError for one whose arguments match no number or whose options are wrong."""
    for claim in claims:
        check, wants = CHECKS[claim.check]
        options = {name: text for name, text in claim.arguments.items() if name.split(".")[-1] not in _FIELDS}
        selected = tuple(_selected(claim, cells, "")) if wants == "cells" else ()
        pairs = tuple(_pairs(claim, cells)) if wants == "pairs" else ()
        if wants != "nothing" and not (selected or pairs):
            raise UserError(f"{claim.line}: no published number matches the arguments; fix them")
        try:
            flaws = tuple(check(Items(selected, pairs, options)))
        except (KeyError, ValueError) as error:
            raise UserError(f"{claim.line}: invalid options for the check '{claim.check}' ({error})") from error
        checked = len(selected) + len(pairs) or 1
        yield Finding(claim.paper, claim.where, claim.text, claim.check, checked, flaws)


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
    return [cell for cell in cells if all(_field(cell, name) in values for name, values in allowed.items())]


def _field(cell: Printed, name: str) -> str:
    if name == "star":
        return "yes" if cell.number.star else "no"
    return str(getattr(cell.key, name))


def _claim(row: Mapping[str, str | None], line: str) -> Claim:
    values = {name: row.get(name) for name in _COLUMNS}
    if not all(isinstance(text, str) for text in values.values()) or len(row) != len(_COLUMNS):
        raise UserError(f"{line}: a claim has the columns {', '.join(_COLUMNS)}")
    paper, where, text, check, arguments = (str(value) for value in values.values())
    if check not in CHECKS:
        raise UserError(f"{line}: unknown check '{check}'; known: {', '.join(sorted(CHECKS))}")
    return Claim(paper, where, text, check, dict(_arguments(arguments, line)), line)


def _arguments(text: str, line: str) -> Iterator[tuple[str, str]]:
    for part in text.split(";"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UserError(f"{line}: '{part.strip()}' is not an argument; write name=value; name=value")
        yield name, value
