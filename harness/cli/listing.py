"""`harness list` and `harness doctor`: the names that a command line can use, and the state of this
machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from harness.cli.options import options_of
from harness.cli.output import echo, print_table
from harness.command_line import DEFAULT_PROFILE, Selection, harness_command
from harness.errors import PlugInError
from harness.formatting import count_of
from harness.registry import find_target, list_registered
from harness.runs.execution import Device, describe_machine, pick_device, read_package_versions

if TYPE_CHECKING:
    from harness.fetching.downloads import Fetchable, FetchList
    from harness.profiles import Profile
    from harness.sources import Missing

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
MOST_NAMED = 3


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
    if kind == "methods":
        rows = _list_methods()
    elif kind == "claims":
        rows = _list_claims()
    elif kind == "papers":
        rows = _list_papers()
    elif kind in ("tables", "figures"):
        rows = _list_entries(kind, loaded)
    else:
        rows = _list_profile_section(kind, loaded)
    print_table(_HEADS[kind], rows)


def _list_claims() -> Iterator[tuple[str, ...]]:
    from harness.papers.claims import list_claim_names

    for name, claim in list_claim_names():
        yield name, claim.text, claim.better, claim.worse


def _list_papers() -> Iterator[tuple[str, ...]]:
    from harness.papers.published import read_papers

    for paper in read_papers():
        yield paper.name, paper.title, " ".join(paper.run_tables), " ".join(paper.figures)


def _list_entries(kind: str, profile: Profile) -> Iterator[tuple[str, ...]]:
    """Tables or figures of papers, with the numbers of their runs under a profile."""
    from harness.papers.needed import StandIns, list_entry_runs
    from harness.papers.published import read_papers
    from harness.papers.schema import PaperTable

    stand_ins = StandIns.of(profile)
    for paper in read_papers():
        entries = paper.run_tables if kind == "tables" else paper.figures
        for name, entry in entries.items():
            full_name = f"{paper.name}:{name}"
            runs = list_entry_runs(full_name, entry, stand_ins)
            suites = entry.suites if isinstance(entry, PaperTable) else (entry.suite,)
            yield full_name, entry.title, ", ".join(suites), f"{len(runs):,}"


def _list_profile_section(kind: str, profile: Profile) -> Iterator[tuple[str, ...]]:
    """Profiles, or what a profile has: settings, encoders, public weights or suites."""
    from harness.profiles import load_profile, shipped_profiles

    if kind == "profiles":
        for name in shipped_profiles():
            yield name, load_profile(name).description
    elif kind == "settings":
        for name, setting in profile.settings.items():
            yield name, " + ".join(setting.corpora), setting.description
    elif kind == "encoders":
        for name, encoder in profile.encoders.items():
            source = encoder.hub or encoder.folder or encoder.registered
            yield name, str(source), encoder.revision or ""
    elif kind == "released":
        for name, weights in profile.released.items():
            tables = dict[str, None]()
            for row in weights.rows:
                tables |= dict.fromkeys(row.tables)
            yield name, weights.revision or "", weights.pooling, ", ".join(tables)
    else:
        for name, suite in profile.suites.items():
            yield name, ", ".join(suite.tasks)


def _list_methods() -> Iterator[tuple[str, ...]]:
    from harness.method.declared import get_declared_method

    for name in list_registered("method"):
        try:
            method = get_declared_method(name)
        except PlugInError as error:
            yield name, "cannot be loaded", "", "", str(error)
            continue

        terms = ", ".join(method.terms) or "none"
        readings = " ".join(f"@{reading}" for reading in method.readings)
        yield name, terms, readings, find_target("method", name), method.paper


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
    from harness.caches import get_cache_folder
    from harness.planning.missing import list_paper_needs
    from harness.profiles import load_profile, shipped_profiles
    from harness.sources import resolve_data_root as find_root
    from harness.store import Store

    root = find_root(data_root)
    if device:
        pick_device(device)
    print_table(("package", "version"), read_package_versions().items())
    print_table(("machine", ""), describe_machine().items())
    if device:
        _check_device(device)
        return

    folders = {
        "data": str(root or "not set; give --data-root DIR or set HARNESS_DATA"),
        "results": f"{results}: {len(Store(results).files())} files",
        "cache": str(get_cache_folder()),
    }
    print_table(("folder", ""), folders.items())
    inputs = [(name, _describe_inputs(name, root)) for name in shipped_profiles()]
    print_table(("profile", "inputs"), inputs)

    papers: dict[str, dict[str, tuple[str, FetchList]]] = {}
    for option, name, needs in list_paper_needs(load_profile(DEFAULT_PROFILE), root):
        paper, _, entry = name.partition(":")
        papers.setdefault(paper, {})[entry] = (option, needs)
    for paper, entries in papers.items():
        _show_paper(paper, entries)


def _check_device(device: Device) -> None:
    """Print the checks of a device. Sets exit code 1 if one fails."""
    from harness.runs.device_check import DeviceCheck

    failures = 0
    for name, check_section in DeviceCheck(device).sections.items():
        rows = []
        for check in check_section():
            failures += not check.ok
            rows.append((check.check, check.result if check.ok else f"FAILED: {check.result}"))
        print_table((name, ""), rows)

    if failures:
        echo(f"{count_of(failures, 'check')} failed; please open an issue with this page")
        click.get_current_context().exit(1)


def _describe_inputs(profile: str, root: Path | None) -> str:
    """How many inputs of a profile are found or missing, and the first missing ones."""
    from harness.planning.inventory import Inventory
    from harness.planning.missing import list_needs
    from harness.profiles import load_profile

    needs = list(list_needs(Inventory(load_profile(profile), root, {})))
    missing = [label.partition(" (")[0] for label, source in needs if source.missing(root)]
    if not missing:
        return f"all {len(needs)} found"

    command = harness_command("data", "list", profile=profile)
    return f"{len(missing)} of {len(needs)} missing: {_name_first(missing)}; `{command}` lists the files"


def _show_paper(paper: str, entries: Mapping[str, tuple[str, FetchList]]) -> None:
    """Print which tables and figures of a paper can be run, and the missing inputs of the others.

    `entries` has, by table or figure, the option that selects it and its missing inputs.
    """
    from harness.fetching.downloads import FetchList

    ready = []
    needs_by_entry = {}
    for name, (_, needs) in entries.items():
        if needs.items or needs.by_hand:
            needs_by_entry[name] = needs
        else:
            ready.append(name)
    if not needs_by_entry:
        echo(f"{paper}: all {len(entries)} tables and figures can be run")
        return

    line = f"{paper}: {len(ready)} of {len(entries)} tables and figures can be run"
    if ready:
        line += f": {', '.join(ready)}"
    echo(line)

    items: dict[str, Fetchable] = {}
    by_hand: dict[str, Missing] = {}
    entries_by_needs: dict[tuple[str, ...], list[str]] = {}
    for name, needs in needs_by_entry.items():
        items |= {item.name: item for item in needs.items}
        by_hand |= {item.what: item for item in needs.by_hand}
        key = (*(item.name for item in needs.items), *(item.what for item in needs.by_hand))
        entries_by_needs.setdefault(key, []).append(name)

    rows = []
    for missing, names_of_entries in entries_by_needs.items():
        download = _describe_download(needs_by_entry[names_of_entries[0]])
        rows.append((", ".join(names_of_entries), _name_first(missing), download))
    print_table((paper, "missing", "download"), rows)

    fetch_list = FetchList(tuple(items.values()), tuple(by_hand.values()))
    if fetch_list.items:
        name = next(iter(needs_by_entry))
        option, _ = entries[name]
        command = harness_command("fetch", **{option: f"{paper}:{name}"})
        command_for_all = harness_command("fetch", paper=paper)
        echo(
            f"  `{command}` downloads for one, `{command_for_all}` for all: {fetch_list.size_text}"
        )
    if by_hand:
        command = harness_command("fetch", "--dry-run", paper=paper)
        echo(f"  by hand: {', '.join(by_hand)}; `{command}` shows the steps")


def _describe_download(needs: FetchList) -> str:
    """The size of a download, and what has to be downloaded by hand."""
    parts = []
    if needs.items:
        parts.append(needs.size_text)
    if needs.by_hand:
        parts.append(", ".join(f"{item.what} by hand" for item in needs.by_hand))
    return "; ".join(parts)


def _name_first(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = len(names) - MOST_NAMED
    if more <= 1:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMED])} and {more} more"
