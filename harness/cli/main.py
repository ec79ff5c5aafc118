"""The `harness` command."""

from __future__ import annotations

import logging
import sys

import click

from harness import __version__
from harness.cli.audit import audit
from harness.cli.compare import compare
from harness.cli.data import data
from harness.cli.doctor import doctor
from harness.cli.evaluate import evaluate
from harness.cli.export import export_command
from harness.cli.listing import list_command
from harness.cli.power import power
from harness.cli.report import report
from harness.cli.run import run
from harness.cli.show import show
from harness.cli.status import status
from harness.errors import UserError
from harness.spec import SpecError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Reproduce, compare and extend multimodal sentence embeddings.

    Start with `harness run --profile tiny` and `harness report --profile tiny`.
    """


for command in (run, evaluate, export_command, report, compare, power, audit, status, show, list_command, doctor, data):
    cli.add_command(command)


def main() -> None:
    """Run the command line; a mistake that a person can mend is one line and exit code 2."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        code = cli(standalone_mode=False)
    except (UserError, SpecError) as error:
        code = _complain(str(error))
    except click.ClickException as error:
        code = _complain(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; the same command goes on where this one stopped", err=True)
        code = 130
    except BrokenPipeError:
        sys.stderr.close()
        code = 1
    sys.exit(code)


def _complain(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return 2
