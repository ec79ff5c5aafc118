"""Options that several commands share. Each is named as the parameter of harness.api that takes its value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import click

from harness.cli.completion import complete_profile, completer, figures, from_profile, papers, registered, tables
from harness.command_line import DEFAULT_DEVICE, DEFAULT_PROFILE, DEFAULT_RESULTS
from harness.execution.environment import DeviceChoice

Command = TypeVar("Command", bound=Callable[..., Any])

#: A folder on the command line, as a Path.
FOLDER = click.Path(path_type=cast(Any, Path))

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
results_option = click.option(
    "--results", default=DEFAULT_RESULTS, show_default=True, metavar="DIR", type=FOLDER, help="Folder of results."
)
data_option = click.option(
    "--data-root", metavar="DIR", type=FOLDER, help="Folder of data files (default: HARNESS_DATA)."
)
suites_option = click.option(
    "--suites",
    metavar="A,B",
    help="Evaluation suites (default: the profile's).",
    shell_complete=completer(from_profile("suites")),
)
device_option = click.option(
    "--device",
    default=DEFAULT_DEVICE,
    show_default=True,
    type=click.Choice(get_args(DeviceChoice)),
    help="Where runs train.",
)

_GRID = (
    profile_option,
    click.option(
        "--methods",
        metavar="A,B[key=value]",
        help="Method variants (default: the profile's).",
        shell_complete=completer(registered("method")),
    ),
    click.option(
        "--settings",
        metavar="S,T",
        help="Mixtures of training corpora (default: the profile's).",
        shell_complete=completer(from_profile("settings")),
    ),
    click.option(
        "--encoders",
        metavar="E,NAME=DIR",
        help="Encoders by name, folders as NAME=DIR (default: the profile's).",
        shell_complete=completer(from_profile("encoders")),
    ),
    click.option("--seeds", metavar="N|0,3,7", help="Number of seeds from 0, or a list (default: the profile's)."),
    suites_option,
    click.option(
        "--table",
        metavar="PAPER:TABLE",
        help="Instead: the runs of a paper's table, such as dalr:T3.",
        shell_complete=completer(tables),
    ),
    click.option(
        "--figure",
        metavar="PAPER:FIGURE",
        help="Instead: the runs of a paper's figure, such as mcse:F3.",
        shell_complete=completer(figures),
    ),
    click.option(
        "--paper",
        metavar="NAME",
        help="Instead: the runs of all tables and figures of a paper.",
        shell_complete=completer(papers),
    ),
    click.option("--set", "set", multiple=True, metavar="KEY=VALUE", help="Change one hyperparameter in all runs."),
    results_option,
    data_option,
)


def grid_options(command: Command) -> Command:
    """Add the options that select runs."""
    for option in reversed(_GRID):
        command = option(command)
    return command
