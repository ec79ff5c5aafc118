"""`harness list`: what there is to name."""

from __future__ import annotations

import click

from harness.cli.options import profile_option
from harness.cli.tables import plain_table
from harness.errors import PlugInError
from harness.profiles import load_profile, shipped_profiles
from harness.registry import names, target

KINDS = ("methods", "settings", "encoders", "suites", "profiles")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@profile_option
def list_command(kind: str, profile: str) -> None:
    """List methods, settings, encoders, suites or profiles by name."""
    if kind == "methods":
        _methods()
    elif kind == "profiles":
        plain_table(("profile", "what it is"), [(name, load_profile(name).description) for name in shipped_profiles()])
    else:
        _of_profile(kind, profile)


def _methods() -> None:
    from harness.method import method_named  # imports torch

    rows: list[tuple[str, ...]] = []
    for name in names("method"):
        try:
            method = method_named(name)
        except PlugInError as error:
            rows.append((name, "cannot be loaded", str(error)))
            continue
        readings = " ".join(f"@{reading}" for reading in method.readings)
        rows.append((name, ", ".join(method.terms) or "none", readings, target("method", name), method.paper))
    plain_table(("method", "loss terms", "readings", "where", "paper"), rows)


def _of_profile(kind: str, profile: str) -> None:
    loaded = load_profile(profile)
    if kind == "settings":
        rows = [(name, " + ".join(s.corpora), s.description) for name, s in loaded.settings.items()]
        plain_table(("setting", "corpora", "what it is"), rows)
    elif kind == "encoders":
        rows = [(name, str(e.hub or e.folder or e.registered), e.revision or "") for name, e in loaded.encoders.items()]
        plain_table(("encoder", "from", "revision"), rows)
    else:
        plain_table(("suite", "tasks"), [(name, ", ".join(s.tasks)) for name, s in loaded.suites.items()])
