"""`harness eval`: evaluate any model, or add suites to a finished run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli.completion import registered
from harness.cli.options import data_option, device_option, names_option, profile_option, results_option, suites_option

if TYPE_CHECKING:
    from harness.execution.environment import DeviceChoice


@click.command("eval")
@click.argument("model", metavar="MODEL")
@names_option(
    "--pooling", "NAME", "Pooling of token vectors: cls, mean, ... (default: the folder's).", registered("pooling")
)
@suites_option
@profile_option
@results_option
@data_option
@device_option
@click.pass_context
def evaluate(context: click.Context, /, model: str, device: DeviceChoice, **options: Any) -> None:
    """Evaluate MODEL: a folder, a hub name OWNER/NAME[@COMMIT], or the key of a run.

    A folder is one that transformers or sentence-transformers saved. Scores are stored and shown with those of runs; a
    model from outside is the run `none[pooling=...]`.
    """
    from harness import api
    from harness.cli.planning import describe, show_results

    plan = api.plan_model(model, **options)
    describe(plan)
    show_results(context, plan, api.execute(plan, device=device, progress=True))
