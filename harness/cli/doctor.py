"""`harness doctor`: versions, devices, memory and data of this machine."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import data_option, results_option
from harness.cli.tables import plain_table


@click.command()
@data_option
@results_option
def doctor(data_root: Path | None, results: Path) -> None:
    """Show versions, devices, memory and the data that is found."""
    from harness.execution.environment import machine, package_versions
    from harness.execution.inventory import Inventory
    from harness.execution.needs import all_needs
    from harness.profiles import load_profile, shipped_profiles
    from harness.sources import cache_folder
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
            rows.append((name, need.label, f"missing {missing[0]}" if missing else "found"))
    plain_table(("profile", "needs", "state"), rows)
