"""`harness data`: list, fetch, import and verify the papers' data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.completion import completer, data_sets
from harness.cli.options import FOLDER, data_option, profile_option

if TYPE_CHECKING:
    from harness.catalogue import Entry, Watch
    from harness.profiles import Profile

_STATES = {"unchecked": "present, not fetched by the catalogue", "note": ""}
_NAMES = completer(data_sets)


@click.group("data")
def data() -> None:
    """List, fetch, verify and import the papers' data."""


@data.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=_NAMES)
@profile_option
@data_option
def list_data(names: tuple[str, ...], profile: str, data_root: Path | None) -> None:
    """Show which data a profile needs, what is present, and how to get the rest.

    With NAMEs, show the details of those entries.
    """
    from harness import catalogue
    from harness.cli.tables import plain_table
    from harness.profiles import load_profile
    from harness.sources import data_root as find_root

    root = find_root(data_root)
    if names:
        for name in names:
            _details(catalogue.entry(name), root)
        return
    loaded = load_profile(profile)
    click.echo(f"profile {loaded.name}, data root {root or 'none; give --data-root or HARNESS_DATA'}")
    plain_table(("for", "files", "state", "entry"), _needs(loaded, root))
    head = ("entry", "state", "to fetch", "how", "what", "licence")
    plain_table(head, [_row(entry, root) for entry in catalogue.entries().values()])
    click.echo("`harness data list NAME` shows an entry's sources, pinned revisions, checksums and counts")


@data.command("fetch")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_NAMES)
@click.option("--offline", is_flag=True, help="Use the local hub cache only, as HF_HUB_OFFLINE=1 does.")
@data_option
def fetch(names: tuple[str, ...], offline: bool, data_root: Path | None) -> None:
    """Download entries into the data root; an interrupted download resumes."""
    from harness import catalogue

    root = _root(data_root)
    wanted = [catalogue.entry(name) for name in names]
    with _watching() as watch:
        for entry in wanted:
            catalogue.fetch(root, entry, _say, watch, offline)


@data.command("import")
@click.argument("name", shell_complete=_NAMES)
@click.argument("folder", type=FOLDER)
@click.option("--link", is_flag=True, help="Link the files instead of copying them.")
@data_option
def import_data(name: str, folder: Path, link: bool, data_root: Path | None) -> None:
    """Check files of NAME that were downloaded by hand to FOLDER, and install them below the data root."""
    from harness import catalogue

    with _watching() as watch:
        catalogue.import_folder(_root(data_root), catalogue.entry(name), folder.expanduser(), link, _say, watch)


@data.command("verify")
@click.argument("name", required=False, shell_complete=_NAMES)
@data_option
@click.pass_context
def verify(context: click.Context, name: str | None, data_root: Path | None) -> None:
    """Check hashes and counts of NAME, or of every entry present; exit code 1 if one differs."""
    from harness import catalogue
    from harness.errors import MissingData

    root = _root(data_root)
    asked = [catalogue.entry(name)] if name else list(catalogue.entries().values())
    there = [entry for entry in asked if catalogue.state(root, entry).word in ("present", "unchecked", "part")]
    if not there:
        raise MissingData(f"{name or 'no entry'} is present below {root}; `harness data list` shows how to get it")
    failed = False
    for entry in there:
        wrong = catalogue.verify(root, entry)
        failed = failed or bool(wrong)
        click.echo(f"{entry.name}: {'; '.join(wrong) or 'OK'}")
    context.exit(int(failed))


@data.command("path")
@click.argument("name", shell_complete=_NAMES)
@data_option
def path(name: str, data_root: Path | None) -> None:
    """Print the paths of the files of NAME, one a line."""
    from harness import catalogue
    from harness.errors import MissingData, UserError

    root, entry = _root(data_root), catalogue.entry(name)
    if not entry.outputs:
        raise UserError(f"{name} has no files of its own: {entry.note}")
    absent = catalogue.state(root, entry).absent
    if absent:
        raise MissingData(f"{name}: {', '.join(absent)} missing below {root}; {_how(entry)}")
    for output in entry.outputs:
        click.echo(root / output.path)


def _root(given: Path | None) -> Path:
    from harness.errors import UserError
    from harness.sources import data_root as find_root

    root = find_root(given)
    if root is None:
        raise UserError("there is no data root; give --data-root DIR or set HARNESS_DATA")
    return root


def _say(line: str) -> None:
    click.echo(line, err=True)


@contextmanager
def _watching() -> Iterator[Watch]:
    """Show progress bars on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:

        def watch(name: str) -> Callable[[int, int | None], None]:
            task = bars.add_task(name, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield watch


def _how(entry: Entry) -> str:
    if not entry.origins:
        return "see its note"
    if entry.by_hand:
        return f"by hand, then `harness data import {entry.name} FOLDER`"
    return f"`harness data fetch {entry.name}`"


def _row(entry: Entry, root: Path | None) -> tuple[str, ...]:
    from harness import catalogue

    word = catalogue.state(root, entry).word
    size = "" if entry.by_hand or not entry.origins else catalogue.readable(entry.about)
    how = entry.note if not entry.origins else "by hand, import" if entry.by_hand else "fetch"
    return entry.name, _STATES.get(word, word), size, how, entry.title, entry.licence


def _details(entry: Entry, root: Path | None) -> None:
    from harness import catalogue
    from harness.cli.tables import plain_table

    click.echo(f"{entry.name}: {entry.title}")
    word = catalogue.state(root, entry).word
    rows = [
        ("licence", entry.licence),
        ("state", _STATES.get(word, word)),
        ("to fetch", catalogue.readable(entry.about) if entry.origins else ""),
        ("how", _how(entry)),
        ("note", entry.note),
    ]
    plain_table(("", ""), [row for row in rows if row[1]])
    if not entry.origins:
        return
    origins = [
        (o.file, o.hub or o.url or str(o.hand), o.revision or "", o.checksum or "unknown") for o in entry.origins
    ]
    plain_table(("source file", "from", "revision", "checksum"), origins)
    outputs = [(out.path, str(out.rows or out.files or "unknown")) for out in entry.outputs]
    plain_table(("below the data root", "rows or files"), outputs)


def _needs(profile: Profile, root: Path | None) -> Iterator[tuple[str, str, str, str]]:
    """The files that corpora and suites of a profile read; one row for the files of one entry and state."""
    from harness import catalogue
    from harness.execution.inventory import Inventory
    from harness.execution.needs import data_needs

    for need in data_needs(Inventory(profile, root, {})):
        missing = {item.what for item in need.source.missing(root)}
        rows: dict[tuple[str, str], list[str]] = {}
        for item in need.source.missing(None):
            absent = item.what in missing
            names = ", ".join(entry.name for entry in catalogue.providers(item.what))
            text = f"{item.what}: {item.how}" if absent and not names else item.what
            rows.setdefault(("missing" if absent else "found", names), []).append(text)
        for (state, names), files in rows.items():
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            yield need.label, f"{files[0]}{more}", state, names
