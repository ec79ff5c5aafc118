"""`harness doctor`: what this machine has for a run."""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli.options import data_option, results_option


@click.command()
@data_option
@results_option
def doctor(data_root: Path | None, results: Path) -> None:
    """Show versions, devices, memory and the data found."""
    from harness.cli.tables import plain_table
    from harness.execution.environment import package_versions, processor
    from harness.processors import cores

    plain_table(("package", "version"), package_versions().items())
    plain_table(("machine", ""), [("processor", processor()), ("cores", str(cores())), *_memory(), *_devices()])
    plain_table(("folder", ""), _folders(data_root, results))
    plain_table(("profile", "needs", "state"), _data(data_root))


def _memory() -> list[tuple[str, str]]:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
    except (ValueError, OSError):
        return []
    return [("memory", f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free")]


def _devices() -> list[tuple[str, str]]:
    import torch

    if not torch.cuda.is_available():
        return [("cuda", "none; runs use the CPU")]
    return [
        (
            f"cuda:{index}",
            f"{torch.cuda.get_device_name(index)}, "
            f"{torch.cuda.get_device_properties(index).total_memory / 2**30:.0f} GiB",
        )
        for index in range(torch.cuda.device_count())
    ]


def _folders(given: Path | None, results: Path) -> list[tuple[str, str]]:
    from harness.sources import cache_folder, data_root
    from harness.store import Store

    root = data_root(given)
    return [
        ("data", str(root) if root else "none; give --data-root or HARNESS_DATA"),
        ("results", f"{results}: {len(Store(results).files())} files"),
        ("cache", str(cache_folder())),
    ]


def _data(given: Path | None) -> list[tuple[str, str, str]]:
    """Each source of each shipped profile, present or missing."""
    from harness.execution.inventory import Inventory
    from harness.profiles import load_profile, shipped_profiles
    from harness.sources import data_root

    rows, root = [], data_root(given)
    for profile in map(load_profile, shipped_profiles()):
        inventory = Inventory(profile, root, {})
        needed = {f"encoder {name}": inventory.encoder(name).missing for name in profile.encoders}
        for name, corpus in inventory.corpora.items():
            needed[f"corpus {name}"] = corpus.plain.missing
            needed |= {f"{teacher} features of {name}": file.missing for teacher, file in corpus.stored.items()}
        needed |= {f"suite {name}": tuple(suite.missing(root)) for name, suite in inventory.suites.items()}
        rows += [
            (profile.name, what, f"missing {missing[0]}" if missing else "found") for what, missing in needed.items()
        ]
    return rows
