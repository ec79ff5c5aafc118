"""The runs that `--table`, `--figure` and `--paper` name."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import UserError
from harness.papers.needed import (
    Names,
    Runs,
    entry_runs,
    find_figure,
    find_paper,
    find_table,
    paper_runs,
    table_runs,
)
from harness.papers.published import read_papers
from harness.papers.schema import PaperTable
from harness.profiles import Profile
from harness.spec import split


def wanted_runs(
    profile: Profile, tables: str | None, figures: str | None, papers: str | None, seeds: Sequence[int] | None
) -> dict[str, Runs]:
    """Runs by entry. Raises UserError for a wrong name and where nothing has a stand-in in the profile."""
    known, names = read_papers(), Names.of(profile)
    found: dict[str, Runs] = {}
    for text in _listed(papers):
        found |= paper_runs(find_paper(known, text), names, seeds)
    for text in _listed(tables):
        entry = find_table(known, text)
        if isinstance(entry, PaperTable):
            found[text] = table_runs(entry, names, seeds)
        else:
            found[text] = entry_runs(entry, names, seeds)
    for text in _listed(figures):
        found[text] = entry_runs(find_figure(known, text), names, seeds)
    if not any(found.values()):
        what = ", ".join(found)
        raise UserError(
            f"nothing of {what} has a stand-in in the profile {profile.name}; see its table [stands_for], or take "
            "--profile paper"
        )
    return found


def _listed(text: str | None) -> list[str]:
    return [part for part in split(text or "") if part]
