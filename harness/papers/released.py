"""The public weights of a profile: which rows of the papers' tables they should reproduce, and their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.errors import UserError
from harness.papers.needed import Runs, find_paper, find_table
from harness.papers.published import Paper, read_papers
from harness.papers.schema import NeighbourTable, PaperRow, PaperTable
from harness.profiles.schema import Profile, ReleasedTable
from harness.registry import suggest
from harness.spec import UNTRAINED, Place, RunSpec, Variant, parse_encoder


class RowKey(NamedTuple):
    """The key of a row of the papers' tables; `table` is PAPER:TABLE."""

    table: str
    encoder: str
    published: str
    setting: str
    source: str

    @classmethod
    def of(cls, paper: str, table: str, row: PaperRow, encoder: str) -> RowKey:
        """Return the key of a row for one of its encoders."""
        return cls(f"{paper}:{table}", encoder, row.published, row.setting, row.source)


def released_spec(name: str, weights: ReleasedTable) -> RunSpec:
    """Return the run of public weights, the same that `harness eval` makes of a model from outside."""
    variant = Variant.make(UNTRAINED, {"pooling": weights.pooling})
    return RunSpec(variant, Variant(UNTRAINED), parse_encoder(name), 0)


def released_places(profile: Profile) -> dict[RowKey, tuple[Place, ...]]:
    """Return the places of public weights by the rows that they should reproduce."""
    found: dict[RowKey, tuple[Place, ...]] = {}
    for name, weights in profile.released.items():
        spec = released_spec(name, weights)
        for key in _keys(weights):
            found[key] = (*found.get(key, ()), Place(str(spec.variant), str(spec.setting), spec.encoder))
    return found


def check_released(profile: Profile, papers: Sequence[Paper]) -> None:
    """Raise UserError for a row of public weights that the papers' tables do not have."""
    known = set(_rows(papers))
    for name, weights in profile.released.items():
        for key in _keys(weights):
            if key not in known:
                mine = sorted({one.published for one in known if one.table == key.table})
                raise UserError(
                    f"the profile {profile.name}, table [released.{name}]: {key.table} has no row {key.published} in "
                    f"{key.setting} for {key.encoder} with source {key.source}; {suggest(key.published, mine)}"
                )


def released_runs(profile: Profile, tables: Sequence[str], papers: Sequence[str]) -> dict[str, Runs]:
    """Return the runs of public weights by table, each on the table's suites.

    `tables` are PAPER:TABLE and `papers` whole papers, of which tables without public weights are left out. Raises
    UserError for an unknown name, and when there are no weights for anything that was asked for.
    """
    known = read_papers()
    check_released(profile, known)
    named_tables = dict(find_table(known, text) for text in tables)
    found = {name: _table_runs(profile, name, table) for name, table in named_tables.items()}
    for paper in (find_paper(known, text) for text in papers):
        named = ((f"{paper.name}:{name}", table) for name, table in paper.tables.items())
        found |= {text: runs for text, table in named if (runs := _table_runs(profile, text, table))}
    if not any(found.values()):
        have = sorted({key.table for weights in profile.released.values() for key in _keys(weights)})
        raise UserError(
            f"the profile {profile.name} has no public weights for {', '.join([*tables, *papers])}; "
            + (f"there are some for {', '.join(have)}" if have else "add some to its table [released]")
        )
    return found


def _table_runs(profile: Profile, name: str, table: PaperTable | NeighbourTable) -> Runs:
    if not isinstance(table, PaperTable):
        return {}
    return {
        released_spec(encoder, weights): table.suites
        for encoder, weights in profile.released.items()
        if any(key.table == name for key in _keys(weights))
    }


def _keys(weights: ReleasedTable) -> Iterator[RowKey]:
    for rows in weights.rows:
        for table in rows.tables:
            yield RowKey(table, weights.encoder, rows.published, rows.setting, rows.source)


def _rows(papers: Sequence[Paper]) -> Iterator[RowKey]:
    for paper in papers:
        for name, table in paper.tables.items():
            for encoder in table.encoders:
                yield from (RowKey.of(paper.name, name, row, encoder) for _, row in table.rows_of(encoder))
