"""Options that several commands share, completion of their values, and groups of commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from harness.command_line import DEFAULT_PROFILE, DEFAULT_RESULTS, Selection
from harness.errors import UserError
from harness.files import expand
from harness.formatting import LONGEST_NAME
from harness.registry import list_registered, suggest
from harness.runs.execution import DeviceChoice, Jobs

#: names to offer, given the profile on the command line
Offer = Callable[[str], Iterable[str]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

Command = TypeVar("Command", bound=Callable[..., Any])


def completer(name: str) -> Completer:
    """A `shell_complete` callback that completes the last item of a comma-separated list, by a key
    of OFFERS.
    """

    def complete(
        context: click.Context, parameter: click.Parameter, typed: str
    ) -> list[CompletionItem]:
        before, comma, last = typed.rpartition(",")
        try:
            offers = OFFERS[name](context.params.get("profile") or DEFAULT_PROFILE)
            matching = [offer for offer in offers if offer.startswith(last)]
        except UserError:  # such as a profile that is only half typed
            return []
        return [CompletionItem(f"{before}{comma}{offer}") for offer in matching]

    return complete


def from_registry(kind: str) -> Offer:
    """Registered names of a kind."""
    return lambda profile: list_registered(kind)


def list_tasks(profile: str) -> Iterable[str]:
    """Tasks of the suites of a profile."""
    from harness.profiles import load_profile

    tasks = dict[str, None]()
    for suite in load_profile(profile).suites.values():
        tasks |= dict.fromkeys(suite.tasks)
    return tasks


def from_profile(section: Literal["settings", "encoders", "suites"]) -> Offer:
    """Names in a section of the profile."""

    def list_names(profile: str) -> Iterable[str]:
        from harness.profiles import load_profile

        return list(getattr(load_profile(profile), section))

    return list_names


def from_papers(*kinds: Literal["tables", "neighbours", "figures"]) -> Offer:
    """Tables or figures as PAPER:NAME; without a kind, the papers."""

    def list_names(_: str) -> Iterable[str]:
        from harness.papers.published import read_papers

        for paper in read_papers():
            if not kinds:
                yield paper.name
            for kind in kinds:
                for name in getattr(paper, kind):
                    yield f"{paper.name}:{name}"

    return list_names


def list_claims(_: str) -> Iterable[str]:
    """Claims as PAPER:TABLE:CLAIM."""
    from harness.papers.claims import list_claim_names

    return dict.fromkeys(name for name, _ in list_claim_names())


def list_data_sets(_: str) -> Iterable[str]:
    """Data sets of the catalogue."""
    from harness.fetching import entries

    return entries()


def complete_groups(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Groups of runs in the folder of results."""
    from harness.store import Store

    frames = Store(Path(context.params.get("results") or DEFAULT_RESULTS)).frames()
    groups = dict[str, None]()
    for key, group in zip(frames.keys, frames.texts("group"), strict=True):
        run_without_seed = key.rpartition("/")[0]
        groups[f"{run_without_seed}#{group[:8]}"] = None
    return [CompletionItem(name) for name in groups if name.startswith(typed)]


def complete_profile(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Shipped profiles by name, or files once a path is being typed."""
    from harness.profiles import shipped_profiles

    if "/" in typed or typed.startswith("."):
        return [CompletionItem(typed, type="file")]
    return [CompletionItem(name) for name in shipped_profiles() if name.startswith(typed)]


class _Folder(click.Path):
    """A folder as a Path; a name too long for a file system is refused before anything is written."""

    def __init__(self, *, must_exist: bool = False) -> None:
        super().__init__(path_type=Path)
        self.must_exist = must_exist

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        folder = Path(os.fsdecode(super().convert(value, param, ctx)))
        if any(len(os.fsencode(part)) > LONGEST_NAME for part in folder.parts):
            message = (
                f"{folder} contains a name longer than {LONGEST_NAME} bytes; give a shorter one"
            )
            self.fail(message, param, ctx)

        path = expand(folder)
        if path.is_dir():
            return folder
        if self.must_exist:
            self.fail(f"{folder} is not a folder; give one that exists", param, ctx)
        if path.exists():
            self.fail(f"{folder} is not a folder; give one, or a new name", param, ctx)
        return folder


#: a folder on the command line, and one that must be there
FOLDER = _Folder()
FOLDER_THERE = _Folder(must_exist=True)


def list_suites_and_tables(profile: str) -> Iterable[str]:
    """Names that `harness table` accepts."""
    yield from from_profile("suites")(profile)
    yield from from_papers("tables")(profile)


#: option or argument -> the names that complete its value
OFFERS: dict[str, Offer] = {
    **dict.fromkeys(("method", "methods"), from_registry("method")),
    **dict.fromkeys(("setting", "settings"), from_profile("settings")),
    **dict.fromkeys(("encoder", "encoders"), from_profile("encoders")),
    "suites": from_profile("suites"),
    "tasks": list_tasks,
    "suite or table": list_suites_and_tables,
    "table": from_papers("tables", "neighbours"),
    "figure": from_papers("figures"),
    "claim": list_claims,
    "paper": from_papers(),
    "pooling": from_registry("pooling"),
    "executor": from_registry("executor"),
    "track": from_registry("tracker"),
    "data set": list_data_sets,
}


def names_option(flag: str, metavar: str, text: str) -> Callable[[Command], Command]:
    """An option for names, with shell completion."""
    return click.option(
        flag, metavar=metavar, help=text, shell_complete=completer(flag.removeprefix("--"))
    )


def _parse_jobs(text: str) -> Jobs:
    """A positive number, or 'auto'."""
    return "auto" if text == "auto" else click.IntRange(min=1)(text)


#: types of the options that are not text, by the name of the field
_TYPES: dict[str, Any] = {
    "trials": int,
    "sampler": click.Choice(["tpe", "gp"]),
    "results": FOLDER,
    "data_root": FOLDER_THERE,
    "jobs": _parse_jobs,
    "device": click.Choice(get_args(DeviceChoice)),
    "chunk": click.IntRange(min=1),
}


def options_of(
    kind: type, *selected: str, without: Collection[str] = ()
) -> Callable[[Command], Command]:
    """Add fields of a class as options: the `selected` ones, or all that have a help text."""

    def add_options(command: Command) -> Command:
        # click lists first what is added last
        for option in reversed(fields(kind)):
            is_selected = not selected or option.name in selected
            if option.metadata and is_selected and option.name not in without:
                command = _make_option(option)(command)
        return command

    return add_options


def _make_option(option: Field[Any]) -> Callable[[Command], Command]:
    name = option.name
    settings: dict[str, Any] = {"help": option.metadata["help"], "default": option.default}
    if option.default is False:
        settings["is_flag"] = True
    else:
        settings["metavar"] = option.metadata["metavar"] or None
        settings["multiple"] = option.default == ()
        settings["type"] = _TYPES.get(name)
        settings["show_default"] = bool(option.default)

    if name == "profile":
        settings["shell_complete"] = complete_profile
    elif name in OFFERS:
        settings["shell_complete"] = completer(name)
    return click.option(f"--{name.replace('_', '-')}", name, **settings)


any_profile_option = click.option(
    "--profile",
    metavar="NAME|FILE.toml",
    help="Only results of this profile.",
    shell_complete=complete_profile,
)
results_option = options_of(Selection, "results")
new_data_option = click.option(
    "--data-root",
    metavar="DIR",
    type=FOLDER,
    help="Folder of data files; created if missing (default: HARNESS_DATA).",
)


def _parse_accepted(context: click.Context, param: click.Parameter, value: str) -> list[str]:
    """The names that were given. Raises UserError for an unknown one."""
    if not value:
        return []
    from harness.fetching.downloads import check_names

    accepted = [name.strip() for name in value.split(",")]
    check_names(accepted)
    return accepted


accept_option = click.option(
    "--accept-licences",
    metavar="NAME,...",
    default="",
    callback=_parse_accepted,
    help="Accept the licences of these data sets and models, which restrict their use.",
)


#: heading in the help of a command with many options -> the options below it
OPTION_GROUPS = {
    "Runs": (
        "profile",
        "methods",
        "settings",
        "encoders",
        "seeds",
        "suites",
        "tasks",
        "set",
        "redo",
        "dry_run",
    ),
    "Runs of the papers": ("claim", "table", "figure", "paper", "rows", "readings", "released"),
    "Tuning": ("tune", "trials", "sampler"),
    "Files": ("results", "data_root", "fetch", "accept_licences", "track"),
    "Execution": ("device", "jobs", "chunk", "run_timeout"),
    "Clusters": (
        "executor",
        "slurm_table",
        "wait",
        "address",
        "no_shared_folder",
        "executor_options",
    ),
}


class GroupedOptions(click.Command):
    """A command whose help lists its options by group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {option.name: option.get_help_record(ctx) for option in self.get_params(ctx)}
        for title, names_of_options in OPTION_GROUPS.items():
            group = [records.pop(name, None) for name in names_of_options]
            self._write_group(title, group, formatter)
        self._write_group("Others", list(records.values()), formatter)

    def _write_group(
        self, title: str, group: list[tuple[str, str] | None], formatter: click.HelpFormatter
    ) -> None:
        rows = [row for row in group if row]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class CommandGroup(click.Group):
    """A group that prints its help when no subcommand is given, and suggests one when the name is
    unknown.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help and exit with code 0 if no arguments are given."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand. Raises UserError with the nearest names for an unknown one."""
        name = args[0]
        is_name = not ctx.resilient_parsing and not name.startswith("-")
        if is_name and self.get_command(ctx, name) is None:
            hint = suggest(name, self.list_commands(ctx))
            raise UserError(f"unknown command `{ctx.command_path} {name}`; {hint}")
        return super().resolve_command(ctx, args)
