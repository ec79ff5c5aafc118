"""The `harness` command."""

from __future__ import annotations

import logging
import signal
import sys
from importlib import import_module

import click

from harness import __version__
from harness.errors import UserError
from harness.stopping import Interrupted

#: command -> its module in harness.cli and its name there; a module imports little until its command runs
COMMANDS = {
    "run": "run:run",
    "eval": "run:evaluate",
    "export": "export:export_command",
    "report": "report:report",
    "results": "results:results_command",
    "compare": "compare:compare",
    "power": "power:power",
    "audit": "audit:audit",
    "status": "run:status",
    "logs": "logs:logs",
    "show": "show:show",
    "list": "listing:list_command",
    "doctor": "doctor:doctor",
    "data": "data:data",
    "fetch": "fetch:fetch",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        command: click.Command | None = getattr(import_module(f"harness.cli.{module}"), name) if name else None
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Reproduce, compare and extend multimodal sentence embeddings.

    Start with `harness run --profile tiny` and `harness report --profile tiny`.
    """


def main() -> None:
    """Run the command line. A user's mistake prints one line and exits with code 2."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    # long hashing and waiting for another process, which would be silent
    logging.getLogger("harness.sources").setLevel(logging.INFO)
    try:
        code = cli(prog_name="harness", standalone_mode=False)
    except UserError as error:
        code = _complain(str(error))
    except click.ClickException as error:
        code = _complain(error.format_message())
    except (KeyboardInterrupt, click.Abort) as error:
        click.echo("interrupted; run the same command again to resume", err=True)
        first = error.__cause__ or error  # click aborts at an interrupt
        code = 128 + (first.number if isinstance(first, Interrupted) else signal.SIGINT)
    except BrokenPipeError:
        sys.stderr.close()
        code = 1
    sys.exit(code)


def _complain(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return 2
