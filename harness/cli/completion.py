"""Shell completion of names. Reads entry points and TOML files; imports no method, suite or model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import click
from click.shell_completion import CompletionItem

from harness.command_line import DEFAULT_PROFILE
from harness.errors import UserError

#: names to offer, from the profile on the command line
NameSource = Callable[[str], Iterable[str]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completer(names: NameSource) -> Completer:
    """A `shell_complete` callback that completes the last item of a comma-separated list."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        before, comma, last = typed.rpartition(",")
        try:
            found = names(context.params.get("profile") or DEFAULT_PROFILE)
            return [CompletionItem(f"{before}{comma}{name}") for name in found if name.startswith(last)]
        except UserError:  # such as a profile that is only half typed
            return []

    return complete


def registered(kind: str) -> NameSource:
    """NameSource of one kind from the registry, as `harness.registry.names` lists them."""

    def names(_: str) -> Iterable[str]:
        from harness.registry import names as registered_names

        return registered_names(kind)

    return names


def from_profile(table: Literal["settings", "encoders", "suites"]) -> NameSource:
    """NameSource in one table of the profile."""

    def names(profile: str) -> Iterable[str]:
        from harness.profiles import load_profile

        loaded = load_profile(profile)
        tables: dict[str, Iterable[str]] = {
            "settings": loaded.settings,
            "encoders": loaded.encoders,
            "suites": loaded.suites,
        }
        return tables[table]

    return names


def papers(_: str) -> Iterable[str]:
    """Keys of the papers."""
    from harness.papers.published import read_papers

    return [paper.name for paper in read_papers()]


def tables(_: str) -> Iterable[str]:
    """Tables that have runs, as PAPER:TABLE."""
    from harness.papers.published import read_papers

    return [f"{paper.name}:{table}" for paper in read_papers() for table in (*paper.tables, *paper.neighbours)]


def figures(_: str) -> Iterable[str]:
    """Figures, as PAPER:FIGURE."""
    from harness.papers.published import read_papers

    return [f"{paper.name}:{figure}" for paper in read_papers() for figure in paper.figures]


def data_sets(_: str) -> Iterable[str]:
    """Data sets of the catalogue."""
    from harness.catalogue import entries

    return entries()


def complete_profile(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Shipped profiles by name, or files once a path is being typed."""
    from harness.profiles import shipped_profiles

    if "/" in typed or typed.startswith("."):
        return [CompletionItem(typed, type="file")]
    return [CompletionItem(name) for name in shipped_profiles() if name.startswith(typed)]
