"""`harness fetch`: download the missing data and models of a plan; also for `harness run --fetch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import accept_option, fetch_grid_options
from harness.cli.output import echo
from harness.cli.tables import plain_table
from harness.formatting import count_of

if TYPE_CHECKING:
    from harness.fetching.fetch_list import FetchList


@click.command()
@fetch_grid_options
@accept_option
@click.option("--dry-run", is_flag=True, help="Print what would be downloaded and stop.")
@click.pass_context
def fetch(context: click.Context, /, accept_licences: list[str], dry_run: bool, **grid: Any) -> None:
    """Download the missing data and models of a grid of runs.

    Runs are selected as in `harness run`. Sizes, free space, restrictive licences and manual steps are printed first.
    An interrupted download resumes. Proxies, HF_ENDPOINT (a mirror), HF_TOKEN and HF_HUB_OFFLINE work as in
    huggingface_hub.
    """
    from harness import api

    if (root := grid["data_root"]) and not dry_run:
        root.mkdir(parents=True, exist_ok=True)
    if not bring(api.to_fetch(api.plan(**grid)), accept_licences, dry_run):
        context.exit(1)


def bring(found: FetchList, accept_licences: list[str], dry_run: bool) -> bool:
    """Print what is to be fetched, fetch it, and print what is left; False if something failed."""
    from harness import api

    _show(found)
    if dry_run:
        return True
    failed = api.fetch(found, accept_licences=accept_licences, progress=True)
    for name, why in failed.items():
        echo(f"failed    {name}: {why}", err=True)
    if failed:
        echo(f"{len(failed)} of {len(found.items)} failed; run the same command again to retry", err=True)
    elif found.items:
        echo(f"fetched   {count_of(len(found.items), 'item')}")
    return not failed


def _show(found: FetchList) -> None:
    from harness.fetching import readable

    if found.items:
        echo(f"to fetch  {count_of(len(found.items), 'item')}, {found.size_text}")
        rows = [(item.name, item.size_text, item.what) for item in found.items]
        plain_table(("name", "download", "what"), rows)
        for place, needed, free in found.room():
            echo(f"disk      {place}: about {readable(needed)} needed, {readable(free)} free")
    for item in found.items:
        if item.terms:
            echo(f"licence   {item.name}: {item.terms}")
    for one in found.by_hand:
        echo(f"by hand   {one.name}: {one.steps}")
    if not found.items:
        echo("nothing to download" + ("; the rest has to be got by hand" if found.by_hand else ": nothing is missing"))
