"""`harness list`: the names that a command line can use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from harness.cli.options import profile_option
from harness.cli.tables import plain_table
from harness.errors import PlugInError

if TYPE_CHECKING:
    from harness.profiles import Profile

_HEADS = {
    "methods": ("method", "loss terms", "readings", "where", "paper"),
    "settings": ("setting", "corpora", "description"),
    "encoders": ("encoder", "from", "revision"),
    "released": ("public weights", "revision", "pooling", "should reproduce"),
    "suites": ("suite", "tasks"),
    "profiles": ("profile", "description"),
    "papers": ("paper", "title", "tables", "figures"),
    "tables": ("table", "title", "suites", "runs"),
    "figures": ("figure", "title", "suites", "runs"),
}


@click.command("list")
@click.argument("kind", metavar="KIND", type=click.Choice(list(_HEADS)))
@profile_option
def list_command(kind: str, profile: str) -> None:
    """List names by kind: methods, settings, tables and others.

    KIND is methods, settings, encoders, released (public weights), suites, profiles, papers, tables or figures. The
    first column is the name to type. Tables and figures show how many runs they need under the profile; 0: it has no
    stand-in for any of them.
    """
    from harness.profiles import load_profile

    loaded = load_profile(profile)
    rows = _methods() if kind == "methods" else _of_papers(kind, loaded) or _named(kind, loaded)
    plain_table(_HEADS[kind], rows)


def _of_papers(kind: str, profile: Profile) -> list[tuple[str, ...]]:
    """Papers, tables or figures; nothing for another kind."""
    if kind not in ("papers", "tables", "figures"):
        return []
    from harness.papers.needed import entry_runs
    from harness.papers.published import read_papers
    from harness.papers.schema import PaperTable
    from harness.papers.standins import StandIns

    papers, names = read_papers(), StandIns.of(profile)
    if kind == "papers":
        return [(one.name, one.title, " ".join(one.run_tables), " ".join(one.figures)) for one in papers]
    rows: list[tuple[str, ...]] = []
    for paper in papers:
        for name, entry in (paper.run_tables if kind == "tables" else paper.figures).items():
            runs = entry_runs(entry, names)
            suites = entry.suites if isinstance(entry, PaperTable) else (entry.suite,)
            rows.append((f"{paper.name}:{name}", entry.title, ", ".join(suites), f"{len(runs):,}"))
    return rows


def _named(kind: str, profile: Profile) -> Iterator[tuple[str, ...]]:
    from harness.profiles import load_profile, shipped_profiles

    if kind == "profiles":
        yield from ((name, load_profile(name).description) for name in shipped_profiles())
    elif kind == "settings":
        yield from ((name, " + ".join(s.corpora), s.description) for name, s in profile.settings.items())
    elif kind == "encoders":
        yield from (
            (name, str(e.hub or e.folder or e.registered), e.revision or "") for name, e in profile.encoders.items()
        )
    elif kind == "released":
        for name, weights in profile.released.items():
            tables = (table for rows in weights.rows for table in rows.tables)
            yield name, weights.revision or "", weights.pooling, ", ".join(dict.fromkeys(tables))
    else:
        yield from ((name, ", ".join(suite.tasks)) for name, suite in profile.suites.items())


def _methods() -> Iterator[tuple[str, ...]]:
    from harness.method import method_named
    from harness.registry import names, target

    for name in names("method"):
        try:
            method = method_named(name)
        except PlugInError as error:
            yield name, "cannot be loaded", "", "", str(error)
            continue
        readings = " ".join(f"@{reading}" for reading in method.readings)
        yield name, ", ".join(method.terms) or "none", readings, target("method", name), method.paper
