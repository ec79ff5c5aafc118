"""`harness list` and `harness doctor`: the names that a command line can use, and the state of this
machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from harness.cli.options import options_of
from harness.cli.output import echo, plain_table
from harness.command_line import DEFAULT_PROFILE, Selection, harness_command
from harness.errors import PlugInError
from harness.formatting import count_of
from harness.registry import names, target
from harness.runs.execution import Device, describe_machine, pick_device, read_package_versions

if TYPE_CHECKING:
    from harness.fetching.downloads import FetchList
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
    "claims": ("claim", "what the paper says", "better", "than"),
}

#: the most missing inputs that a line names
SHOWN = 3


@click.command("list")
@click.argument("kind", metavar="KIND", type=click.Choice(list(_HEADS)))
@options_of(Selection, "profile")
def list_command(kind: str, profile: str) -> None:
    """List names by kind: methods, settings, tables and others.

    KIND is methods, settings, encoders, released (public weights), suites, profiles, papers, tables,
    figures or claims. The first column is the name to type. Tables and figures show how many runs they
    need under the profile; 0: it has no stand-in for any of them.
    """
    from harness.profiles import load_profile

    loaded = load_profile(profile)
    rows = _methods() if kind == "methods" else _of_papers(kind, loaded) or _named(kind, loaded)
    plain_table(_HEADS[kind], rows)


def _of_papers(kind: str, profile: Profile) -> list[tuple[str, ...]]:
    """Papers, tables, figures or claims; nothing for another kind."""
    if kind == "claims":
        from harness.papers.claims import list_claim_names

        return [(name, claim.text, claim.better, claim.worse) for name, claim in list_claim_names()]
    if kind not in ("papers", "tables", "figures"):
        return []
    from harness.papers.needed import StandIns, entry_runs
    from harness.papers.published import read_papers
    from harness.papers.schema import PaperTable

    papers = read_papers()
    names = StandIns.of(profile)
    if kind == "papers":
        return [
            (paper.name, paper.title, " ".join(paper.run_tables), " ".join(paper.figures))
            for paper in papers
        ]
    rows: list[tuple[str, ...]] = []
    for paper in papers:
        for name, entry in (paper.run_tables if kind == "tables" else paper.figures).items():
            runs = entry_runs(f"{paper.name}:{name}", entry, names)
            suites = entry.suites if isinstance(entry, PaperTable) else (entry.suite,)
            rows.append((f"{paper.name}:{name}", entry.title, ", ".join(suites), f"{len(runs):,}"))
    return rows


def _named(kind: str, profile: Profile) -> Iterator[tuple[str, ...]]:
    from harness.profiles import load_profile, shipped_profiles

    if kind == "profiles":
        yield from ((name, load_profile(name).description) for name in shipped_profiles())
    elif kind == "settings":
        yield from (
            (name, " + ".join(s.corpora), s.description) for name, s in profile.settings.items()
        )
    elif kind == "encoders":
        yield from (
            (name, str(e.hub or e.folder or e.registered), e.revision or "")
            for name, e in profile.encoders.items()
        )
    elif kind == "released":
        for name, weights in profile.released.items():
            tables = (table for rows in weights.rows for table in rows.tables)
            yield name, weights.revision or "", weights.pooling, ", ".join(dict.fromkeys(tables))
    else:
        yield from ((name, ", ".join(suite.tasks)) for name, suite in profile.suites.items())


def _methods() -> Iterator[tuple[str, ...]]:
    from harness.method.declared import declared_method

    for name in names("method"):
        try:
            method = declared_method(name)
        except PlugInError as error:
            yield name, "cannot be loaded", "", "", str(error)
            continue
        readings = " ".join(f"@{reading}" for reading in method.readings)
        yield (
            name,
            ", ".join(method.terms) or "none",
            readings,
            target("method", name),
            method.paper,
        )


@click.command()
@options_of(Selection, "results", "data_root")
@click.option(
    "--device",
    type=click.Choice(get_args(Device)),
    help="Try this device instead, in one to three minutes.",
)
def doctor(data_root: Path | None, results: Path, device: Device | None) -> None:
    """Show this machine, its data, and what each paper still needs.

    For each paper: the tables and figures that can be run now, and for the others what is missing
    and the command that downloads it. `harness data list` shows the files of a profile one by one.

    With --device cuda, compare what a GPU computes with the CPU (attention, every method's step, a
    resumed training, teachers), and time steps of BERT-base: a page to add to a report of a
    problem. With --device cpu, check less.
    """
    from harness.caches import cache_folder
    from harness.planning.missing import list_paper_needs
    from harness.profiles import load_profile, shipped_profiles
    from harness.sources import data_root as find_root
    from harness.store import Store

    root = find_root(data_root)
    if device:
        pick_device(device)
    plain_table(("package", "version"), read_package_versions().items())
    plain_table(("machine", ""), describe_machine().items())
    if device:
        _try(device)
        return
    folders = {
        "data": str(root or "not set; give --data-root DIR or set HARNESS_DATA"),
        "results": f"{results}: {len(Store(results).files())} files",
        "cache": str(cache_folder()),
    }
    plain_table(("folder", ""), folders.items())
    plain_table(("profile", "inputs"), [(name, _inputs(name, root)) for name in shipped_profiles()])
    papers: dict[str, dict[str, tuple[str, FetchList]]] = {}
    for option, name, needs in list_paper_needs(load_profile(DEFAULT_PROFILE), root):
        paper, _, entry = name.partition(":")
        papers.setdefault(paper, {})[entry] = (option, needs)
    for paper, entries in papers.items():
        _show_paper(paper, entries)


def _try(device: Device) -> None:
    """Print the checks of a device. Sets exit code 1 if one fails."""
    from harness.runs.device_check import DeviceCheck

    failed = 0
    for name, check in DeviceCheck(device).sections.items():
        checks = list(check())
        plain_table(
            (name, ""),
            [
                (check.check, check.result if check.ok else f"FAILED: {check.result}")
                for check in checks
            ],
        )
        failed += sum(not each.ok for each in checks)
    if failed:
        echo(f"{count_of(failed, 'check')} failed; please open an issue with this page")
        click.get_current_context().exit(1)


def _inputs(profile: str, root: Path | None) -> str:
    """How many inputs of a profile are found or missing, and the first missing ones."""
    from harness.planning.inventory import Inventory
    from harness.planning.missing import list_needs
    from harness.profiles import load_profile

    listed = list(list_needs(Inventory(load_profile(profile), root, {})))
    missing = [label.partition(" (")[0] for label, source in listed if source.missing(root)]
    if not missing:
        return f"all {len(listed)} found"
    command = harness_command("data", "list", profile=profile)
    return (
        f"{len(missing)} of {len(listed)} missing: {_first(missing)}; `{command}` lists the files"
    )


def _show_paper(paper: str, entries: Mapping[str, tuple[str, FetchList]]) -> None:
    """Print which tables and figures of a paper can be run, and the missing inputs of the others.

    `entries` has, by table or figure, the option that selects it and its missing inputs.
    """
    from harness.fetching.downloads import FetchList

    lists = {
        name: listed for name, (_, listed) in entries.items() if listed.items or listed.by_hand
    }
    ready = [name for name in entries if name not in lists]
    if not lists:
        echo(f"{paper}: all {len(entries)} tables and figures can be run")
        return
    items = {item.name: item for listed in lists.values() for item in listed.items}
    by_hand = {hand.what: hand for listed in lists.values() for hand in listed.by_hand}
    whole = FetchList(tuple(items.values()), tuple(by_hand.values()))
    head = f"{paper}: {len(ready)} of {len(entries)} tables and figures can be run{': ' if ready else ''}"
    echo(head + ", ".join(ready))
    same: dict[tuple[str, ...], list[str]] = {}
    for name, needs in lists.items():
        same.setdefault(
            (*(item.name for item in needs.items), *(hand.what for hand in needs.by_hand)), []
        ).append(name)
    rows = [
        (", ".join(group), _first(missing), _download(lists[group[0]]))
        for missing, group in same.items()
    ]
    plain_table((paper, "missing", "download"), rows)
    if whole.items:
        name = next(iter(lists))
        command = harness_command("fetch", **{entries[name][0]: f"{paper}:{name}"})
        echo(
            f"  `{command}` downloads for one, `{harness_command('fetch', paper=paper)}` for all: {whole.size_text}"
        )
    if by_hand:
        steps = harness_command("fetch", "--dry-run", paper=paper)
        echo(f"  by hand: {', '.join(by_hand)}; `{steps}` shows the steps")


def _download(listed: FetchList) -> str:
    """The size of a download, and what has to be downloaded by hand."""
    left = ", ".join(f"{item.what} by hand" for item in listed.by_hand)
    return "; ".join(filter(None, (listed.size_text if listed.items else "", left)))


def _first(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:SHOWN])} and {more} more"
