"""`harness results`: groups of runs, and results of several folders in one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import (
    FOLDER,
    FOLDER_THERE,
    CommandGroup,
    any_profile_option,
    complete_groups,
    results_option,
)
from harness.cli.output import echo, print_keyed_table, read_results, warn
from harness.command_line import DEFAULT_RESULTS
from harness.errors import UserError
from harness.formatting import count_of

if TYPE_CHECKING:
    from harness.store.merging import MergeOutcome


@click.group("results", cls=CommandGroup)
def results_command() -> None:
    """List, drop and merge results."""


@results_command.command("list")
@any_profile_option
@results_option
def list_command(profile: str | None, results: Path) -> None:
    """List groups of runs that differ by their seeds alone.

    Groups of one name differ in code, data or values; the last column says which is the present
    one, as `harness status` computes it, and what has changed since the others. NAME#GROUP names
    one, in `harness compare` too.
    """
    from harness.profiles import load_profile
    from harness.reporting.seeds.lookup import list_groups
    from harness.store import frames_of

    frames = frames_of(read_results(results, profile).runs)
    if profile:
        frames = frames.where(profile=[load_profile(profile).name])
    rows = list_groups(frames)
    if not rows:
        of_profile = f" of profile {profile}" if profile else ""
        echo(f"no results in {results}{of_profile}")
        return
    print_keyed_table(("runs", "--set", "profile", "seeds", "finished", "state"), rows)


@results_command.command("drop")
@click.argument("runs", metavar="RUN ...", nargs=-1, required=True, shell_complete=complete_groups)
@results_option
def drop_command(runs: tuple[str, ...], results: Path) -> None:
    """Move results to RESULTS/.superseded.

    RUN is a run's key, or NAME#GROUP for a group of runs, as `harness results list` shows it.
    Nothing is deleted: files moved back are results again. A run in progress is refused.
    """
    from harness.reporting.seeds.lookup import find_named_runs
    from harness.store import Store
    from harness.store.folder import supersede

    loaded = read_results(results).runs
    selected = {}
    for text in runs:
        for result in find_named_runs(loaded, text):
            selected[result.fingerprint] = (result.profile, result.spec, result.fingerprint)

    folders = supersede(Store(results), list(selected.values()))
    for (_, spec, _), folder in zip(selected.values(), folders, strict=True):
        echo(f"{spec.key} moved to {folder}")


@results_command.command("merge")
@click.argument("folders", metavar="A B ...", nargs=-1, required=True, type=FOLDER_THERE)
@click.option(
    "--into",
    "results",
    default=DEFAULT_RESULTS,
    show_default=True,
    metavar="DIR",
    type=FOLDER,
    help="Folder of results.",
)
def merge_command(folders: tuple[Path, ...], results: Path) -> int:
    """Merge the results of several folders into one.

    Existing results do not change, and new ones are checked first. Of two trainings of one run, the
    one that was added first stays. An interrupted merge can be repeated. Exit code 1: something was
    left out.
    """
    from harness.files import expand
    from harness.store import Store
    from harness.store.merging import merge

    if results.resolve() in [folder.resolve() for folder in folders]:
        raise UserError(
            f"{results} is the folder that results are merged into; give other folders of results"
        )
    return report_merge(merge(Store(results), [Store(expand(folder)) for folder in folders]))


def report_merge(outcome: MergeOutcome) -> int:
    """Print the outcome of a merge; return the exit code, 1 if anything was left out."""
    for line in outcome.conflicts:
        echo(f"conflict: {line}", err=True)
    warn(outcome.problems)

    for folder, count in outcome.standings.items():
        new = count_of(count["new"], "new result")
        echo(
            f"{folder}: {new}, {count['extended']} with more evaluations, {count['there']} already there"
        )
    if outcome.unchecked:
        what = "too old to recompute the fingerprint; only the digest was checked"
        echo(f"{count_of(outcome.unchecked, 'result')} {what}")
    if outcome.in_use:
        echo(
            f"{count_of(outcome.in_use, 'result')} in use by a running command; run this command again when it ends"
        )

    if outcome.conflicts or outcome.problems:
        return 1
    return 0
