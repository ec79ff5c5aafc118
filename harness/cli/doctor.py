"""`harness doctor`: versions, devices, memory and data of this machine, and what each paper lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import data_option, results_option
from harness.cli.output import echo
from harness.cli.tables import plain_table
from harness.command_line import DEFAULT_PROFILE, harness_command

if TYPE_CHECKING:
    from harness.fetching.fetch_list import FetchList
    from harness.planning.needs import Need

#: names of missing inputs that a line shows
SHOWN = 3


@click.command()
@data_option
@results_option
def doctor(data_root: Path | None, results: Path) -> None:
    """Show this machine, its data, and what each paper still needs.

    For each paper: the tables and figures that can be run now, and for the others what is missing and the command that
    downloads it. `harness data list` shows the files of a profile one by one.
    """
    from harness.caches import cache_folder
    from harness.planning.inventory import Inventory
    from harness.planning.lacking import paper_needs
    from harness.planning.needs import all_needs
    from harness.profiles import load_profile
    from harness.profiles import shipped_profiles as names
    from harness.runs.environment import machine, package_versions
    from harness.sources import data_root as find_root
    from harness.store import Store

    root = find_root(data_root)
    plain_table(("package", "version"), package_versions().items())
    plain_table(("machine", ""), machine().items())
    folders = {
        "data": str(root or "not set; give --data-root DIR or set HARNESS_DATA"),
        "results": f"{results}: {len(Store(results).files())} files",
        "cache": str(cache_folder()),
    }
    plain_table(("folder", ""), folders.items())
    profiles = [(name, _inputs(name, all_needs(Inventory(load_profile(name), root, {})), root)) for name in names()]
    plain_table(("profile", "inputs"), profiles)
    papers: dict[str, dict[str, tuple[str, FetchList]]] = {}
    for option, name, found in paper_needs(load_profile(DEFAULT_PROFILE), root):
        paper, _, entry = name.partition(":")
        papers.setdefault(paper, {})[entry] = (option, found)
    for paper, entries in papers.items():
        _show_paper(paper, entries)


def _inputs(profile: str, needs: Iterable[Need], root: Path | None) -> str:
    """How many inputs of a profile are found, and the first of those that are not."""
    listed = list(needs)
    missing = [need.label.partition(" (")[0] for need in listed if need.source.missing(root)]
    if not missing:
        return f"all {len(listed)} found"
    command = harness_command("data", "list", profile=profile)
    return f"{len(missing)} of {len(listed)} missing: {_first(missing)}; `{command}` lists the files"


def _show_paper(paper: str, entries: Mapping[str, tuple[str, FetchList]]) -> None:
    """Print which tables and figures of a paper can be run, and what the others lack.

    `entries` has the option that selects an entry, and what it lacks.
    """
    from harness.fetching.fetch_list import FetchList

    lists = {name: found for name, (_, found) in entries.items() if found.items or found.by_hand}
    ready = [name for name in entries if name not in lists]
    if not lists:
        echo(f"{paper}: all {len(entries)} tables and figures can be run")
        return
    items = {item.name: item for found in lists.values() for item in found.items}
    by_hand = {hand.name: hand for found in lists.values() for hand in found.by_hand}
    whole = FetchList(tuple(items.values()), tuple(by_hand.values()))
    head = f"{paper}: {len(ready)} of {len(entries)} tables and figures can be run{': ' if ready else ''}"
    echo(head + ", ".join(ready))
    same: dict[tuple[str, ...], list[str]] = {}
    for name, found in lists.items():
        same.setdefault((*(item.name for item in found.items), *(hand.name for hand in found.by_hand)), []).append(name)
    rows = [(", ".join(group), _first(missing), _download(lists[group[0]])) for missing, group in same.items()]
    plain_table((paper, "missing", "download"), rows)
    if whole.items:
        name = next(iter(lists))
        one = harness_command("fetch", **{entries[name][0]: f"{paper}:{name}"})
        echo(f"  `{one}` downloads for one, `{harness_command('fetch', paper=paper)}` for all: {whole.size_text}")
    if by_hand:
        steps = harness_command("fetch", "--dry-run", paper=paper)
        echo(f"  by hand: {', '.join(by_hand)}; `{steps}` shows the steps")


def _download(found: FetchList) -> str:
    """The size of a download, and what has to be got by hand."""
    left = ", ".join(f"{one.name} by hand" for one in found.by_hand)
    return "; ".join(filter(None, (found.size_text if found.items else "", left)))


def _first(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:SHOWN])} and {more} more"
