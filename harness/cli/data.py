"""`harness fetch` and `harness data`: download, import and verify data and models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import (
    FOLDER,
    CommandGroup,
    accept_option,
    completer,
    new_data_option,
    options_of,
)
from harness.cli.output import echo, print_table
from harness.command_line import Selection
from harness.errors import MissingData, UserError
from harness.files import expand
from harness.formatting import count_of

if TYPE_CHECKING:
    from harness.fetching import Entry
    from harness.fetching.downloads import FetchList

_STATES = {"unchecked": "present, not fetched by the catalogue", "note": ""}
_NAMES = completer("data set")


@click.command()
@options_of(Selection, without=("redo", "data_root"))
@new_data_option
@accept_option
@click.option("--dry-run", is_flag=True, help="Print what would be downloaded and stop.")
@click.pass_context
def fetch(
    context: click.Context, /, accept_licences: list[str], dry_run: bool, **grid: Any
) -> None:
    """Download the missing data and models of a grid of runs.

    Runs are selected as in `harness run`. Sizes, free space, restrictive licences and manual steps
    are printed first. An interrupted download resumes. Proxies, HF_ENDPOINT (a mirror), HF_TOKEN
    and HF_HUB_OFFLINE work as in huggingface_hub.
    """
    from harness import api
    from harness.planning.missing import find_costly_suites

    root = grid["data_root"]
    if root and not dry_run:
        root.mkdir(parents=True, exist_ok=True)
    plan = api.plan(**grid)
    for line in find_costly_suites(plan):
        echo(f"download  {line}")
    if not bring(api.to_fetch(plan), accept_licences, dry_run):
        context.exit(1)


def bring(downloads: FetchList, accept_licences: list[str], dry_run: bool) -> bool:
    """Print what is to be fetched, fetch it, and print which downloads failed; False if any did."""
    from harness import api

    _show_downloads(downloads)
    if dry_run:
        return True

    failures = api.fetch(downloads, accept_licences=accept_licences, progress=True)
    for name, reason in failures.items():
        echo(f"failed    {name}: {reason}", err=True)
    if failures:
        echo(
            f"{len(failures)} of {len(downloads.items)} failed; run the same command again to retry",
            err=True,
        )
    elif downloads.items:
        echo(f"fetched   {count_of(len(downloads.items), 'item')}")
    return not failures


def _show_downloads(downloads: FetchList) -> None:
    from harness.fetching import format_size

    if downloads.items:
        echo(f"to fetch  {count_of(len(downloads.items), 'item')}, {downloads.size_text}")
        rows = [(item.name, item.size_text, item.what) for item in downloads.items]
        print_table(("name", "download", "what"), rows)
        for folder, needed, free in downloads.measure_room():
            echo(
                f"disk      {folder}: about {format_size(needed)} needed, {format_size(free)} free"
            )

    without_place = [item for item in downloads.items if item.place is None]
    if without_place:
        room = sum((item.size or 0) + item.copied + item.spare for item in without_place)
        echo(
            "data root not set; give --data-root DIR or set HARNESS_DATA: about "
            f"{format_size(room)} needed there"
        )

    restricted = [item for item in downloads.items if item.terms]
    for item in restricted:
        echo(f"licence   {item.name}: {item.terms}")
    if restricted:
        echo(f"consent   --accept-licences {','.join(item.name for item in restricted)}")

    for manual in downloads.by_hand:
        echo(f"by hand   {manual.what}: {manual.how}")
    if not downloads.items and downloads.by_hand:
        echo("nothing to download; the rest has to be got by hand")
    elif not downloads.items:
        echo("nothing to download: nothing is missing")


@click.group("data", cls=CommandGroup)
def data() -> None:
    """List, fetch, verify and import the papers' data."""


@data.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=_NAMES)
@options_of(Selection, "profile", "data_root")
def list_data(names: tuple[str, ...], profile: str, data_root: Path | None) -> None:
    """Show needed data, what is present and how to get it.

    With NAMEs, show the details of those data sets.
    """
    from harness import fetching
    from harness.planning.inventory import Inventory
    from harness.planning.missing import describe_disk_needs, list_needed_files
    from harness.profiles import load_profile
    from harness.sources import resolve_data_root as find_root

    root = find_root(data_root)
    if names:
        for name in names:
            _show_entry(fetching.find_entry(name), root)
        return

    loaded = load_profile(profile)
    place = root or "not set; give --data-root DIR or set HARNESS_DATA"
    echo(f"profile {loaded.name}, data root {place}")

    inventory = Inventory(loaded, root, {})
    print_table(("for", "files", "state", "entry"), list_needed_files(inventory))
    print_table(("disk space for", "about"), describe_disk_needs(inventory))

    heads = ("entry", "state", "to fetch", "how", "what", "licence")
    print_table(heads, [_make_entry_row(entry, root) for entry in fetching.entries().values()])
    echo(
        "`harness data list NAME` shows an entry's sources, pinned revisions, checksums and counts"
    )


@data.command("fetch")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_NAMES)
@accept_option
@click.option(
    "--offline", is_flag=True, help="Use only the local hub cache, as with HF_HUB_OFFLINE=1."
)
@new_data_option
def fetch_data(
    names: tuple[str, ...], accept_licences: list[str], offline: bool, data_root: Path | None
) -> None:
    """Download data sets; an interrupted download resumes."""
    from harness import fetching

    root = _require_root(data_root)
    entries = [fetching.find_entry(name) for name in names]
    fetching.require_consent(fetching.find_terms(root, entries), accept_licences)
    with fetching.show_downloads() as (say, watch):
        for entry in entries:
            fetching.fetch(root, entry, say, watch, offline)


@data.command("import")
@click.argument("name", shell_complete=_NAMES)
@click.argument("folder", type=FOLDER)
@click.option("--link", is_flag=True, help="Link the files instead of copying them.")
@new_data_option
def import_data(name: str, folder: Path, link: bool, data_root: Path | None) -> None:
    """Install manually downloaded files of NAME from FOLDER.

    They are checked first, and then copied to the data root.
    """
    from harness import fetching

    with fetching.show_downloads() as (say, watch):
        root = _require_root(data_root)
        fetching.import_folder(root, fetching.find_entry(name), expand(folder), link, say, watch)


@data.command("verify")
@click.argument("name", required=False, shell_complete=_NAMES)
@options_of(Selection, "data_root")
@click.pass_context
def verify(context: click.Context, name: str | None, data_root: Path | None) -> None:
    """Check hashes and counts of NAME, or of all present data.

    Exit code 1 if one differs.
    """
    from harness import fetching

    root = _require_root(data_root)
    entries = [fetching.find_entry(name)] if name else list(fetching.entries().values())
    present = [
        entry
        for entry in entries
        if fetching.find_state(root, entry).word in ("present", "unchecked", "part")
    ]
    if not present:
        raise MissingData(
            f"nothing to verify: {name or 'every entry'} is missing below {root}; "
            "`harness data list` shows how to get it"
        )

    exit_code = 0
    for entry in present:
        faults = fetching.verify(root, entry)
        if faults:
            exit_code = 1
        echo(f"{entry.name}: {'; '.join(faults) or 'OK'}")
    context.exit(exit_code)


@data.command("path")
@click.argument("name", shell_complete=_NAMES)
@options_of(Selection, "data_root")
def path(name: str, data_root: Path | None) -> None:
    """Print the paths of the files of NAME, one a line."""
    from harness import fetching

    root = _require_root(data_root)
    entry = fetching.find_entry(name)
    if not entry.outputs:
        raise UserError(f"{name} has no files of its own: {entry.note}")
    absent = fetching.find_state(root, entry).absent
    if absent:
        raise MissingData(f"{name}: {', '.join(absent)} missing below {root}; {entry.how}")
    for output in entry.outputs:
        echo(root / output.path)


def _require_root(data_root: Path | None) -> Path:
    """The data root. Raises UserError where none is set."""
    from harness.sources import resolve_data_root as find_root

    root = find_root(data_root)
    if root is None:
        raise UserError("no data root is set; give --data-root DIR or set HARNESS_DATA")
    return root


def _make_entry_row(entry: Entry, root: Path | None) -> tuple[str, ...]:
    from harness import fetching

    word = fetching.find_state(root, entry).word
    size = fetching.format_size(entry.about) if entry.origins else ""
    return entry.name, _STATES.get(word, word), size, entry.how, entry.title, entry.licence


def _show_entry(entry: Entry, root: Path | None) -> None:
    _, state, size, how, title, licence = _make_entry_row(entry, root)
    echo(f"{entry.name}: {title}")
    facts = {"licence": licence, "state": state, "to fetch": size, "how": how}
    print_table(("", ""), [(name, text) for name, text in facts.items() if text])
    if not entry.origins:
        return

    if entry.note:
        echo(entry.note)
    origins = []
    for origin in entry.origins:
        source = origin.hub or origin.address or str(origin.hand)
        checksum = origin.checksum or "unknown"
        origins.append((origin.file, source, origin.revision or "", checksum))
    print_table(("source file", "from", "revision", "checksum"), origins)

    outputs = [
        (output.path, str(output.rows or output.files or "unknown")) for output in entry.outputs
    ]
    print_table(("below the data root", "rows or files"), outputs)
