"""`harness doctor`: versions, devices, memory and data of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import data_option, results_option
from harness.cli.output import echo
from harness.cli.tables import plain_table
from harness.command_line import DEFAULT_PROFILE, harness_command

if TYPE_CHECKING:
    from harness.execution.fetch import FetchList


@click.command()
@data_option
@results_option
def doctor(data_root: Path | None, results: Path) -> None:
    """Show versions, devices, memory, the data that is found, and what each table and figure of the papers lacks."""
    from harness.caches import cache_folder
    from harness.execution.environment import machine, package_versions
    from harness.execution.inventory import Inventory
    from harness.execution.lacking import paper_needs
    from harness.execution.needs import all_needs
    from harness.profiles import load_profile, shipped_profiles
    from harness.sources import data_root as find_root
    from harness.store import Store

    root = find_root(data_root)
    plain_table(("package", "version"), package_versions().items())
    plain_table(("machine", ""), machine().items())
    folders = {
        "data": str(root or "none; give --data-root or HARNESS_DATA"),
        "results": f"{results}: {len(Store(results).files())} files",
        "cache": str(cache_folder()),
    }
    plain_table(("folder", ""), folders.items())
    rows = []
    for name in shipped_profiles():
        for need in all_needs(Inventory(load_profile(name), root, {})):
            missing = need.source.missing(root)
            rows.append((name, need.label, f"missing {missing[0].what}" if missing else "found"))
    plain_table(("profile", "needs", "state"), rows)
    for option, name, found in paper_needs(load_profile(DEFAULT_PROFILE), root):
        echo(f"{name} - {_to_do(option, name, found)}")


def _to_do(option: str, name: str, found: FetchList) -> str:
    """What is missing for a table or figure, in one line."""
    left = ", ".join(one.name for one in found.by_hand)
    if not found.items:
        return f"{left} by hand" if left else "all there"
    command = harness_command("fetch", **{option: name})
    return f"{command}, {found.size_text}{f', and {left} by hand' if left else ''}"
