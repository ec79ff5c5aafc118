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
from harness.cli.output import echo, plain_table
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

    if (root := grid["data_root"]) and not dry_run:
        root.mkdir(parents=True, exist_ok=True)
    plan = api.plan(**grid)
    for line in find_costly_suites(plan):
        echo(f"download  {line}")
    if not bring(api.to_fetch(plan), accept_licences, dry_run):
        context.exit(1)


def bring(listed: FetchList, accept_licences: list[str], dry_run: bool) -> bool:
    """Print what is to be fetched, fetch it, and print which downloads failed; False if any did."""
    from harness import api

    _show(listed)
    if dry_run:
        return True
    failed = api.fetch(listed, accept_licences=accept_licences, progress=True)
    for name, why in failed.items():
        echo(f"failed    {name}: {why}", err=True)
    if failed:
        echo(
            f"{len(failed)} of {len(listed.items)} failed; run the same command again to retry",
            err=True,
        )
    elif listed.items:
        echo(f"fetched   {count_of(len(listed.items), 'item')}")
    return not failed


def _show(listed: FetchList) -> None:
    from harness.fetching import format_size

    if listed.items:
        echo(f"to fetch  {count_of(len(listed.items), 'item')}, {listed.size_text}")
        rows = [(item.name, item.size_text, item.what) for item in listed.items]
        plain_table(("name", "download", "what"), rows)
        for folder, needed, free in listed.measure_room():
            echo(
                f"disk      {folder}: about {format_size(needed)} needed, {format_size(free)} free"
            )
    if lost := [item for item in listed.items if item.place is None]:
        size = format_size(sum((item.size or 0) + item.copied + item.spare for item in lost))
        echo(
            f"data root not set; give --data-root DIR or set HARNESS_DATA: about {size} needed there"
        )
    restricted = [item for item in listed.items if item.terms]
    for item in restricted:
        echo(f"licence   {item.name}: {item.terms}")
    if restricted:
        echo(f"consent   --accept-licences {','.join(item.name for item in restricted)}")
    for manual in listed.by_hand:
        echo(f"by hand   {manual.what}: {manual.how}")
    if not listed.items:
        echo(
            "nothing to download"
            + ("; the rest has to be got by hand" if listed.by_hand else ": nothing is missing")
        )


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
    from harness.sources import data_root as find_root

    root = find_root(data_root)
    if names:
        for name in names:
            _details(fetching.find_entry(name), root)
        return
    loaded = load_profile(profile)
    echo(
        f"profile {loaded.name}, data root {root or 'not set; give --data-root DIR or set HARNESS_DATA'}"
    )
    inventory = Inventory(loaded, root, {})
    plain_table(("for", "files", "state", "entry"), list_needed_files(inventory))
    plain_table(("disk space for", "about"), describe_disk_needs(inventory))
    head = ("entry", "state", "to fetch", "how", "what", "licence")
    plain_table(head, [_row(entry, root) for entry in fetching.entries().values()])
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

    root = _root(data_root)
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
        fetching.import_folder(
            _root(data_root), fetching.find_entry(name), expand(folder), link, say, watch
        )


@data.command("verify")
@click.argument("name", required=False, shell_complete=_NAMES)
@options_of(Selection, "data_root")
@click.pass_context
def verify(context: click.Context, name: str | None, data_root: Path | None) -> None:
    """Check hashes and counts of NAME, or of all present data.

    Exit code 1 if one differs.
    """
    from harness import fetching

    root = _root(data_root)
    asked = [fetching.find_entry(name)] if name else list(fetching.entries().values())
    there = [
        entry
        for entry in asked
        if fetching.find_state(root, entry).word in ("present", "unchecked", "part")
    ]
    if not there:
        raise MissingData(
            f"nothing to verify: {name or 'every entry'} is missing below {root}; "
            "`harness data list` shows how to get it"
        )
    failed = False
    for entry in there:
        wrong = fetching.verify(root, entry)
        failed = failed or bool(wrong)
        echo(f"{entry.name}: {'; '.join(wrong) or 'OK'}")
    context.exit(int(failed))


@data.command("path")
@click.argument("name", shell_complete=_NAMES)
@options_of(Selection, "data_root")
def path(name: str, data_root: Path | None) -> None:
    """Print the paths of the files of NAME, one a line."""
    from harness import fetching

    root = _root(data_root)
    entry = fetching.find_entry(name)
    if not entry.outputs:
        raise UserError(f"{name} has no files of its own: {entry.note}")
    absent = fetching.find_state(root, entry).absent
    if absent:
        raise MissingData(f"{name}: {', '.join(absent)} missing below {root}; {entry.how}")
    for output in entry.outputs:
        echo(root / output.path)


def _root(given: Path | None) -> Path:
    from harness.sources import data_root as find_root

    root = find_root(given)
    if root is None:
        raise UserError("no data root is set; give --data-root DIR or set HARNESS_DATA")
    return root


def _row(entry: Entry, root: Path | None) -> tuple[str, ...]:
    from harness import fetching

    word = fetching.find_state(root, entry).word
    size = fetching.format_size(entry.about) if entry.origins else ""
    return entry.name, _STATES.get(word, word), size, entry.how, entry.title, entry.licence


def _details(entry: Entry, root: Path | None) -> None:
    _, state, size, how, title, licence = _row(entry, root)
    echo(f"{entry.name}: {title}")
    rows = {"licence": licence, "state": state, "to fetch": size, "how": how}
    plain_table(("", ""), [row for row in rows.items() if row[1]])
    if not entry.origins:
        return
    if entry.note:
        echo(entry.note)
    origins = [
        (o.file, o.hub or o.address or str(o.hand), o.revision or "", o.checksum or "unknown")
        for o in entry.origins
    ]
    plain_table(("source file", "from", "revision", "checksum"), origins)
    outputs = [(out.path, str(out.rows or out.files or "unknown")) for out in entry.outputs]
    plain_table(("below the data root", "rows or files"), outputs)
