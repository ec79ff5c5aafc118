"""The `harness` command."""

from __future__ import annotations

import errno
import logging
import signal
import sys
import warnings
from contextlib import suppress
from importlib import import_module

import click

from harness import __version__
from harness.cli.output import OneLine, check_typed, complain, echo
from harness.errors import UserError
from harness.plaintext import one_line
from harness.stopping import Interrupted, stop_at_sigterm

#: command -> its module in harness.cli and its name there; a module imports little until its command runs
COMMANDS = {
    "run": "run:run",
    "eval": "run:evaluate",
    "export": "export:export_command",
    "report": "report:report",
    "results": "results:results_command",
    "check": "check:check",
    "cite": "cite:cite",
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
    "new": "new:new",
}

#: answers of a file system about a path that a user gave, or about a full disk behind the output
REFUSALS = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


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
    _set_up_logging()
    try:
        stop_at_sigterm()
        check_typed(sys.argv[1:])
        code = cli(prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        code = complain(str(error))
    except click.ClickException as error:
        code = complain(error.format_message())
    except (KeyboardInterrupt, click.Abort) as error:
        echo("interrupted; run the same command again to resume", err=True)
        first = error.__cause__ or error  # click aborts at an interrupt
        code = 128 + (first.number if isinstance(first, Interrupted) else signal.SIGINT)
    except OSError as error:
        code = _no_output(error)
    except RecursionError:
        code = complain("a name or a file that was given is nested too deeply; give one with fewer brackets")
    sys.exit(code)


def _set_up_logging() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {one_line(str(message))}\n"
    # long hashing and waiting for another process, which would be silent
    logging.getLogger("harness.sources").setLevel(logging.INFO)


def _no_output(error: OSError) -> int:
    """The exit code where the output cannot be written, or the file system refuses a path. Raises any other error."""
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
