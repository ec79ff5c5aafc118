"""`harness demo`: a first answer without data, downloads or a GPU."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import FOLDER, options_of
from harness.cli.output import echo
from harness.cli.report import report
from harness.cli.run import run
from harness.command_line import Selection, harness_command

#: the grid of the demo; the untrained encoder shows what training adds
GRID = {
    "profile": "tiny",
    "methods": "none[pooling=cls],none[pooling=mean],simcse,mcse",
    "seeds": "3",
    "suites": "sts",
}
#: small operations gain nothing from several threads, so each core has a run of its own
JOBS = "auto"


@click.command()
@options_of(Selection, "results")
@click.option(
    "--out",
    default="reports/demo",
    show_default=True,
    metavar="DIR",
    type=FOLDER,
    help="Folder of the report.",
)
@click.pass_context
def demo(context: click.Context, results: Path, out: Path) -> None:
    """Train two methods on toy data and write a report: a first answer.

    SimCSE and MCSE, with three seeds each. It needs no data, no download and no GPU, and takes a
    minute or two on two cores. The same command resumes it.
    """
    from harness.commands import show_path

    context.invoke(run, **GRID, jobs=JOBS, results=results)
    context.invoke(report, profile=GRID["profile"], results=results, out=out)

    place = {"profile": GRID["profile"], "results": show_path(results)}
    control = "mcse[images=shuffled]"
    echo("next:")
    echo("  " + harness_command("compare", "mcse", "simcse", metric="sts.Avg", **place))
    echo("  " + harness_command("run", methods=control, seeds=GRID["seeds"], suites="sts", **place))
    echo("  " + harness_command("new", "method", "my_method"))
