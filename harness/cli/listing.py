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
}


@click.command("list")
@click.argument("kind", type=click.Choice(list(_HEADS)))
@profile_option
def list_command(kind: str, profile: str) -> None:
    """List methods, settings, encoders, public weights, suites or profiles by name."""
    from harness.profiles import load_profile

    plain_table(_HEADS[kind], _methods() if kind == "methods" else _named(kind, load_profile(profile)))


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
