"""The `harness` command.

A module of commands imports at its top only what parsing and printing need; each command imports
the rest inside its function, so that help and completion are quick.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import warnings
from contextlib import suppress
from importlib import import_module

import click

from harness import __version__
from harness.cli.options import CommandGroup
from harness.cli.output import (
    OneLine,
    check_typed,
    complain,
    echo,
    print_whatever_the_encoding,
)
from harness.documents import find_page
from harness.errors import REFUSALS, UserError
from harness.formatting import one_line
from harness.stopping import Interrupted, stop_at_sigterm

#: section of the help -> its commands, each with its module in harness.cli and its name there, and
#: its line of the help, which is printed without importing the module
SECTIONS = {
    "Start": {
        "demo": (
            "demo:demo",
            "Train two methods on toy data and write a report: a first answer.",
        ),
    },
    "Train": {
        "run": ("run:run", "Train and evaluate a grid of runs."),
        "status": ("run:status", "Show the state of each run of a grid."),
        "logs": ("show:logs", "Print the log of a run in progress, failed or finished."),
        "show": ("show:show", "Show a run, a failed run, or a method and its values."),
    },
    "Evaluate": {
        "eval": ("run:evaluate", "Evaluate saved models, or evaluate a run on more suites."),
        "export": ("report:export_command", "Write a run's model, or its scores as mteb's files."),
    },
    "Report": {
        "report": ("report:report", "Write a report: Markdown, LaTeX, CSV and a static site."),
        "figure": ("report:figure", "Write a chart of the report as PDF, SVG, PNG and CSV."),
        "table": ("report:table", "Print one table, also as Markdown, LaTeX or CSV."),
        "compare": ("report:compare", "Compare variant A with variant B over their seeds."),
        "power": ("report:power", "Show how many seeds a difference needs."),
        "audit": ("audit:audit", "Compare tests with training data."),
        "cite": ("report:cite", "Print BibTeX for everything that the results used."),
        "results": ("results:results_command", "List, drop and merge results."),
    },
    "Data and models": {
        "list": (
            "listing:list_command",
            "List names by kind: methods, settings, tables and others.",
        ),
        "doctor": (
            "listing:doctor",
            "Show this machine, its data, and what each paper still needs.",
        ),
        "fetch": ("data:fetch", "Download the missing data and models of a grid of runs."),
        "data": ("data:data", "List, fetch, verify and import the papers' data."),
    },
    "Extend": {
        "new": ("extend:new", "Write a commented template: a profile, a task or a method."),
        "check": (
            "extend:check",
            "Check methods, or those of a package or file, on random batches.",
        ),
    },
}
COMMANDS = {name: listed for commands in SECTIONS.values() for name, listed in commands.items()}

#: click's names of types -> plain ones
_NUMBERS = {"integer": "whole number", "float": "number"}


class _Commands(CommandGroup):
    """The commands: each is imported when it is used, and the help lists them by section."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"harness.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest_name = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            rows = [(name, line) for name, (_, line) in commands.items()]
            # the lines of all sections begin in one column
            spacing = 2 + longest_name - max(map(len, commands))
            with formatter.section(title):
                formatter.write_dl(rows, col_spacing=spacing)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"The documents begin at {find_page('index.md')}",
)
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Train, evaluate and compare multimodal sentence embeddings.

    A first answer, on toy data that is part of the package, and the same in steps:

    \b
      harness demo
      harness run --profile tiny --methods simcse,mcse --seeds 3
      harness report --profile tiny --open

    `harness COMMAND --help` explains one command.
    """


def main() -> None:
    """Run the command line. A user's mistake prints one line and exits with code 2."""
    try:
        print_whatever_the_encoding()
        _set_up_logging()
        stop_at_sigterm()
        check_typed(sys.argv[1:])
        code = cli(prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        code = complain(str(error))
    except click.UsageError as error:
        code = complain(_add_help(error))
    except click.ClickException as error:
        code = complain(error.format_message())
    except (KeyboardInterrupt, click.Abort) as error:
        command = "the same command again"
        if "--redo" in sys.argv:
            command = "the same command without --redo"
        echo(f"interrupted; run {command} to resume", err=True)
        first = error.__cause__ or error  # click aborts at an interrupt
        code = 128 + (first.number if isinstance(first, Interrupted) else signal.SIGINT)
    except OSError as error:
        code = _explain_refusal_of_output(error)
    except MemoryError:
        code = complain(
            "there is not enough memory; end other programs, or raise the limit that `ulimit -v` shows"
        )
    sys.exit(code)


def _add_help(error: click.UsageError) -> str:
    """The message of a usage error; if it does not say how to correct it, with the command that
    prints the help.
    """
    message = error.format_message().removesuffix(".")
    message = re.sub(r"valid (integer|float)( range)?$", lambda kind: _NUMBERS[kind[1]], message)
    wrong_value = isinstance(error, click.BadParameter) and not isinstance(
        error, click.MissingParameter
    )
    if wrong_value or error.ctx is None or "Did you mean" in message:
        return message
    return f"{message}; see `{error.ctx.command_path} --help`"


def _set_up_logging() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    warnings.formatwarning = lambda message, category, *_: (
        f"{category.__name__}: {one_line(str(message))}\n"
    )
    # report long hashing and waiting for another process, which would otherwise be silent
    logging.getLogger("harness.sources").setLevel(logging.INFO)


def _explain_refusal_of_output(error: OSError) -> int:
    """The exit code if the output cannot be written or the file system refuses a path. Raises any
    other error.
    """
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        return 1
    if error.errno not in REFUSALS:
        raise error
    if error.filename is not None:
        return complain(f"{error.filename}: {error.strerror}; give another path")
    with suppress(OSError):  # what is left in the buffer would fail once more at exit
        sys.stdout.close()
    echo(f"error: the output cannot be written: {error.strerror}", err=True)
    return 1
