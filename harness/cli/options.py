"""Options that several commands share, completion of their values, and groups of commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from harness.command_line import DEFAULT_DEVICE, DEFAULT_PROFILE, DEFAULT_RESULTS
from harness.errors import UserError
from harness.plaintext import LONGEST_NAME
from harness.runs.resources import DeviceChoice, Jobs

#: names to offer, given the profile on the command line
Offer = Callable[[str], Iterable[str]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

Command = TypeVar("Command", bound=Callable[..., Any])


def completer(offer: Offer) -> Completer:
    """A `shell_complete` callback that completes the last item of a comma-separated list."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        before, comma, last = typed.rpartition(",")
        try:
            found = offer(context.params.get("profile") or DEFAULT_PROFILE)
            return [CompletionItem(f"{before}{comma}{name}") for name in found if name.startswith(last)]
        except UserError:  # such as a profile that is only half typed
            return []

    return complete


def registered(kind: str) -> Offer:
    """Registered names of a kind."""

    def offer(_: str) -> Iterable[str]:
        from harness.registry import names

        return names(kind)

    return offer


def tasks_of_profile(profile: str) -> Iterable[str]:
    """Tasks of the suites of a profile."""
    from harness.profiles import load_profile

    return dict.fromkeys(task for suite in load_profile(profile).suites.values() for task in suite.tasks)


def from_profile(table: Literal["settings", "encoders", "suites"]) -> Offer:
    """Names in a table of the profile."""

    def offer(profile: str) -> Iterable[str]:
        from harness.profiles import load_profile

        return list(getattr(load_profile(profile), table))

    return offer


def from_papers(*kinds: Literal["tables", "neighbours", "figures"]) -> Offer:
    """Tables or figures as PAPER:NAME; without a kind, the papers."""

    def offer(_: str) -> Iterable[str]:
        from harness.papers.published import read_papers

        papers = read_papers()
        named = [f"{paper.name}:{name}" for paper in papers for kind in kinds for name in getattr(paper, kind)]
        return named if kinds else [paper.name for paper in papers]

    return offer


def data_sets(_: str) -> Iterable[str]:
    """Data sets of the catalogue."""
    from harness.fetching import entries

    return entries()


def complete_groups(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Groups of runs in the folder of results."""
    from pathlib import Path

    from harness.store import Store

    results = Store(Path(context.params.get("results") or DEFAULT_RESULTS)).indexed()
    named = dict.fromkeys(f"{one.spec.key.rpartition('/')[0]}#{one.group[:8]}" for one in results)
    return [CompletionItem(name) for name in named if name.startswith(typed)]


def complete_profile(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Shipped profiles by name, or files once a path is being typed."""
    from harness.profiles import shipped_profiles

    if "/" in typed or typed.startswith("."):
        return [CompletionItem(typed, type="file")]
    return [CompletionItem(name) for name in shipped_profiles() if name.startswith(typed)]


class _Folder(click.Path):
    """A folder as a Path; a name that no file system takes is refused before anything is written."""

    def __init__(self, *, there: bool = False) -> None:
        """`there` says that the folder must exist."""
        super().__init__(path_type=Path)
        self.there = there

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read one value."""
        folder = Path(os.fsdecode(super().convert(value, param, ctx)))
        if any(len(os.fsencode(part)) > LONGEST_NAME for part in folder.parts):
            self.fail(f"{folder} contains a name longer than {LONGEST_NAME} bytes; give a shorter one", param, ctx)
        if not self.there and folder.expanduser().exists() and not folder.expanduser().is_dir():
            self.fail(f"{folder} is not a folder; give one, or a new name", param, ctx)
        if self.there and not folder.expanduser().is_dir():
            self.fail(f"{folder} is not a folder; give one that exists", param, ctx)
        return folder


#: a folder on the command line, and one that must be there
FOLDER, FOLDER_THERE = _Folder(), _Folder(there=True)

results_option = click.option(
    "--results", default=DEFAULT_RESULTS, show_default=True, metavar="DIR", type=FOLDER, help="Folder of results."
)
data_option = click.option(
    "--data-root", metavar="DIR", type=FOLDER_THERE, help="Folder of data files (default: HARNESS_DATA)."
)
new_data_option = click.option(
    "--data-root", metavar="DIR", type=FOLDER, help="Folder of data files; created if missing (default: HARNESS_DATA)."
)
device_option = click.option(
    "--device",
    default=DEFAULT_DEVICE,
    show_default=True,
    type=click.Choice(get_args(DeviceChoice)),
    help="Device for training and evaluation.",
)


def names_option(
    flag: str, metavar: str, text: str, offer: Offer, default: str | None = None
) -> Callable[[Command], Command]:
    """An option for names, with shell completion."""
    return click.option(flag, metavar=metavar, help=text, shell_complete=completer(offer), default=default)


profile_option = click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME|FILE.toml",
    help="Profile: corpora, encoders, hyperparameters and suites.",
    shell_complete=complete_profile,
)
any_profile_option = click.option(
    "--profile", metavar="NAME|FILE.toml", help="Only results of this profile.", shell_complete=complete_profile
)


def _accepted(context: click.Context, param: click.Parameter, value: str) -> list[str]:
    """The names that were given. Raises UserError for one that nothing has."""
    given = [name.strip() for name in value.split(",")] if value else []
    if given:
        from harness.fetching.consent import check_names

        check_names(given)
    return given


accept_option = click.option(
    "--accept-licences",
    metavar="NAME,...",
    default="",
    callback=_accepted,
    help="Accept the licences of these data sets and models, which restrict their use.",
)
suites_option = names_option("--suites", "A,B", "Evaluation suites (default: the profile's).", from_profile("suites"))
tasks_option = names_option("--tasks", "T,U", "Evaluate only these tasks; no averages are computed.", tasks_of_profile)


class _Jobs(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """A positive number, or 'auto'."""

    name = "jobs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Jobs:
        if value == "auto":
            return "auto"
        return click.IntRange(min=1).convert(value, param, ctx)


jobs_option = click.option(
    "--jobs",
    type=_Jobs(),
    metavar="N|auto",
    help="Runs in parallel (default: 1; GPUs: auto; SLURM: all); auto: as many as cores or GPU memory allow.",
)

track_option = names_option(
    "--track", "A,B", "Also record the runs with trackers, such as wandb.", registered("tracker"), default=""
)

_GRID = (
    profile_option,
    names_option(
        "--methods",
        "A,B[key=value]",
        "Variants of methods, one for each value in [key=A|B] (default: the profile's).",
        registered("method"),
    ),
    names_option("--settings", "S,T", "Training settings (default: the profile's).", from_profile("settings")),
    names_option(
        "--encoders",
        "E,NAME=DIR",
        "Encoders by name, folders as NAME=DIR (default: the profile's).",
        from_profile("encoders"),
    ),
    click.option("--seeds", metavar="N|0,3,7", help="Number of seeds from 0, or a list (default: the profile's)."),
    suites_option,
    tasks_option,
    names_option(
        "--table",
        "PAPER:TABLE",
        "Instead of a grid: the runs of a paper's table, such as dalr:T3.",
        from_papers("tables", "neighbours"),
    ),
    names_option(
        "--figure",
        "PAPER:FIGURE",
        "Instead of a grid: the runs of a paper's figure, such as mcse:F3.",
        from_papers("figures"),
    ),
    names_option("--paper", "NAME", "Instead of a grid: the runs of all tables and figures of a paper.", from_papers()),
    click.option(
        "--readings",
        metavar="R,S",
        help="With --table, --figure or --paper: run each row in these readings, such as paper,official.",
    ),
    click.option(
        "--released",
        is_flag=True,
        help="Instead of training: evaluate the profile's public weights, or those of a --table or --paper.",
    ),
    click.option(
        "--set",
        "set",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a hyperparameter in all runs; KEY=A,B makes a variant for each value.",
    ),
    click.option(
        "--tune",
        multiple=True,
        metavar="METHOD:KEY=V|W,...",
        help="Tune a method, with as many trials as the others: values V|W, or a range LOW..HIGH.",
    ),
    click.option("--trials", type=int, metavar="N", help="With --tune: number of configurations per method."),
    results_option,
    data_option,
)


def grid_options(command: Command) -> Command:
    """Add the options that select runs."""
    return _with(_GRID, command)


def fetch_grid_options(command: Command) -> Command:
    """Add the options that select runs, with a folder of data that need not exist."""
    return _with([new_data_option if option is data_option else option for option in _GRID], command)


def _with(options: Sequence[Callable[[Any], Any]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


class CommandGroup(click.Group):
    """A group that prints its help when no subcommand is given, and suggests one when the name is unknown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help and exit with code 0 where nothing was typed."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand. Raises UserError with the nearest names for an unknown one."""
        if not ctx.resilient_parsing and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UserError(f"unknown command `{ctx.command_path} {args[0]}`; {_nearest(args[0], self, ctx)}")
        return super().resolve_command(ctx, args)


def _nearest(word: str, group: click.Group, ctx: click.Context) -> str:
    from harness.registry import suggest

    known: Sequence[str] = group.list_commands(ctx)
    return suggest(word, known)
