"""`harness list`: the names that a command line can use."""

from __future__ import annotations

from collections.abc import Iterator

import click

from harness.cli.options import profile_option

KINDS = ("methods", "settings", "encoders", "suites", "profiles")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@profile_option
def list_command(kind: str, profile: str) -> None:
    """List methods, settings, encoders, suites or profiles by name."""
    from harness.cli.tables import plain_table
    from harness.profiles import load_profile, shipped_profiles

    if kind == "methods":
        plain_table(("method", "loss terms", "readings", "where", "paper"), _methods())
    elif kind == "profiles":
        plain_table(("profile", "description"), [(name, load_profile(name).description) for name in shipped_profiles()])
    elif kind == "settings":
        settings = load_profile(profile).settings.items()
        plain_table(
            ("setting", "corpora", "description"),
            [(name, " + ".join(s.corpora), s.description) for name, s in settings],
        )
    elif kind == "encoders":
        encoders = load_profile(profile).encoders.items()
        rows = [(name, str(e.hub or e.folder or e.registered), e.revision or "") for name, e in encoders]
        plain_table(("encoder", "from", "revision"), rows)
    else:
        plain_table(
            ("suite", "tasks"), [(name, ", ".join(s.tasks)) for name, s in load_profile(profile).suites.items()]
        )


def _methods() -> Iterator[tuple[str, ...]]:
    from harness.errors import PlugInError
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
