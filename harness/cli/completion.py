"""Shell completion of names, from entry points and TOML files. Imports no method, suite or model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import click
from click.shell_completion import CompletionItem

from harness.command_line import DEFAULT_PROFILE, DEFAULT_RESULTS
from harness.errors import UserError

#: names to offer, given the profile on the command line
Offer = Callable[[str], Iterable[str]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completer(offer: Offer) -> Completer:
    """A `shell_complete` callback that completes the last item of a comma-separated list."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        before, comma, last = typed.rpartition(",")
        try:
            found = offer(context.params.get("profile") or DEFAULT_PROFILE)
            return [CompletionItem(f"{before}{comma}{name}") for name in found if name.startswith(last)]
        except UserError:  # such as a profile that is only half typed
            return []

    return complete


def registered(kind: str) -> Offer:
    """Registered names of a kind."""

    def offer(_: str) -> Iterable[str]:
        from harness.registry import names

        return names(kind)

    return offer


def tasks_of_profile(profile: str) -> Iterable[str]:
    """Tasks of the suites of a profile."""
    from harness.profiles import load_profile

    return dict.fromkeys(task for suite in load_profile(profile).suites.values() for task in suite.tasks)


def from_profile(table: Literal["settings", "encoders", "suites"]) -> Offer:
    """Names in a table of the profile."""

    def offer(profile: str) -> Iterable[str]:
        from harness.profiles import load_profile

        return list(getattr(load_profile(profile), table))

    return offer


def from_papers(*kinds: Literal["tables", "neighbours", "figures"]) -> Offer:
    """Tables or figures as PAPER:NAME; without a kind, the papers."""

    def offer(_: str) -> Iterable[str]:
        from harness.papers.published import read_papers

        papers = read_papers()
        named = [f"{paper.name}:{name}" for paper in papers for kind in kinds for name in getattr(paper, kind)]
        return named if kinds else [paper.name for paper in papers]

    return offer


def data_sets(_: str) -> Iterable[str]:
    """Data sets of the catalogue."""
    from harness.fetching import entries

    return entries()


def complete_groups(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Groups of runs in the folder of results."""
    from pathlib import Path

    from harness.store import Store

    results = Store(Path(context.params.get("results") or DEFAULT_RESULTS)).indexed()
    named = dict.fromkeys(f"{one.spec.key.rpartition('/')[0]}#{one.group[:8]}" for one in results)
    return [CompletionItem(name) for name in named if name.startswith(typed)]


def complete_profile(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Shipped profiles by name, or files once a path is being typed."""
    from harness.profiles import shipped_profiles

    if "/" in typed or typed.startswith("."):
        return [CompletionItem(typed, type="file")]
    return [CompletionItem(name) for name in shipped_profiles() if name.startswith(typed)]
