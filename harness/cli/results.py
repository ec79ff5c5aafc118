"""`harness results`: groups of runs, and the results of several labs."""

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
from harness.cli.output import echo, plain_table, read_results, warn
from harness.command_line import DEFAULT_RESULTS, harness_command
from harness.errors import UserError
from harness.formatting import count_of

if TYPE_CHECKING:
    from harness.store import Store
    from harness.store.labs import Merged


@click.group("results", cls=CommandGroup)
def results_command() -> None:
    """List, drop and share results."""


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
    from harness.reporting.seeds.lookup import listed_groups
    from harness.store import frames_of

    listed = frames_of(read_results(results, profile).runs)
    rows = listed_groups(listed.where(profile=[load_profile(profile).name]) if profile else listed)
    plain_table(("runs", "--set", "profile", "seeds", "finished", "state"), rows)


@results_command.command("drop")
@click.argument("runs", metavar="RUN ...", nargs=-1, required=True, shell_complete=complete_groups)
@results_option
def drop_command(runs: tuple[str, ...], results: Path) -> None:
    """Move results to RESULTS/.superseded.

    RUN is a run's key, or NAME#GROUP for a group of runs, as `harness results list` shows it.
    Nothing is deleted: files moved back are results again. A run in progress is refused.
    """
    from harness.reporting.seeds.lookup import named_runs
    from harness.store import Store
    from harness.store.folder import supersede

    loaded = read_results(results).runs
    chosen = {result.fingerprint: result for text in runs for result in named_runs(loaded, text)}
    named = ((dropped.profile, dropped.spec, dropped.fingerprint) for dropped in chosen.values())
    for dropped, folder in zip(chosen.values(), supersede(Store(results), named), strict=True):
        echo(f"{dropped.spec.key} moved to {folder}")


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
@click.option(
    "--contributor",
    "contributors",
    multiple=True,
    metavar="NAME",
    help="Name of the lab that made A; repeat for B, ... (default: the folders' names).",
)
def merge_command(folders: tuple[Path, ...], results: Path, contributors: tuple[str, ...]) -> int:
    """Merge the results of several labs into one folder.

    Existing results do not change, and new ones are checked first. For a run that several labs
    have, tables show the result that was added first, and the report compares all of them. An
    interrupted merge can be repeated. Exit code 1: something was left out.
    """
    from harness.store import Store
    from harness.store.labs import merge, named_stores

    into = Store(results)
    if not contributors and results.resolve() in [folder.resolve() for folder in folders]:
        raise UserError(
            f"{results} is the folder that results are merged into; name its own with --contributor"
        )
    return tell_merged(into, merge(into, named_stores(folders, contributors)))


@results_command.command("push")
@click.argument("repository", metavar="OWNER/NAME")
@click.option(
    "--contributor", required=True, metavar="NAME", help="Name of the lab that made these results."
)
@results_option
def push_command(repository: str, results: Path, contributor: str) -> int:
    """Add results to a data set repository of the hub.

    Nothing there is overwritten. A missing repository is created, as a private one. Results that
    came from other labs keep their names. The token is that of `hf auth login` or HF_TOKEN.
    """
    from harness.runs.hub import push
    from harness.store import Store

    done, commit, files = push(Store(results), repository, contributor)
    code = tell_left_out(done)
    echo(
        f"{count_of(files, 'file')} added to {repository}, commit {commit}"
        if files
        else f"nothing to push: {repository} already has all of these results"
    )
    return code


@results_command.command("pull")
@click.argument("repository", metavar="OWNER/NAME")
@click.option(
    "--revision",
    metavar="COMMIT",
    help="A commit, branch or tag of the repository (default: main).",
)
@results_option
def pull_command(repository: str, revision: str | None, results: Path) -> int:
    """Merge results from a data set repository of the hub.

    They are merged into the folder of results as by `harness results merge`.
    """
    from harness.runs.hub import pull
    from harness.store import Store

    into = Store(results)
    done, commit = pull(into, repository, revision)
    echo(f"{repository} at {commit}")
    return tell_merged(into, done)


def tell_left_out(done: Merged) -> int:
    """Print what a merge left out; return the exit code, 1 if anything was left out."""
    for line in done.conflicts:
        echo(f"conflict: {line}", err=True)
    warn(done.problems)
    return 1 if done.conflicts or done.problems else 0


def tell_merged(into: Store, done: Merged) -> int:
    """Print the outcome of a merge; return the exit code, 1 if anything was left out."""
    from harness.store.labs import repeated

    code = tell_left_out(done)
    for lab in sorted({lab for lab, _ in done.states}):
        new, extended, there = (done.count(lab, state) for state in ("new", "extended", "there"))
        echo(
            f"{lab}: {count_of(new, 'new result')}, {extended} with more evaluations, {there} already there"
        )
    if done.unchecked:
        what = "too old to recompute the fingerprint; only the digest was checked"
        echo(f"{count_of(done.unchecked, 'result')} {what}")
    if done.in_use:
        echo(
            f"{count_of(done.in_use, 'result')} in use by a running command; run this command again when it ends"
        )
    if several := sum(1 for _ in repeated(into)):
        report = harness_command("report", results=str(into.root))
        echo(f"{count_of(several, 'run')} with results of several labs; `{report}` compares them")
    return code
