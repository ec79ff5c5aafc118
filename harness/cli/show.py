"""`harness show`: one run, or one method and its readings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.completion import completer, registered
from harness.cli.options import results_option
from harness.cli.output import echo
from harness.cli.tables import plain_table
from harness.errors import UserError
from harness.formatting import duration

if TYPE_CHECKING:
    from harness.store import Result


@click.command()
@click.argument("what", metavar="RUN|METHOD", shell_complete=completer(registered("method")))
@results_option
def show(what: str, results: Path) -> None:
    """Show a run, or a method with its hyperparameters.

    A run is given by its key or result file. A method is shown with all readings of its paper.
    """
    from harness.registry import names
    from harness.store import Store, find_results

    if what in names("method"):
        _show_method(what)
        return
    if "/" not in what and not what.endswith(".json"):
        raise UserError(
            f"'{what}' is neither a method ({', '.join(names('method'))}) nor a run METHOD/SETTING/ENCODER/seed-N"
        )
    for result in find_results(Store(results), what):
        _show_run(result)


def _show_run(result: Result) -> None:
    from harness.store import frame_of

    echo(f"{result.spec.key}  profile {result.profile}  fingerprint {result.fingerprint[:12]}")
    echo(
        f"finished {result.finished}, {duration(result.seconds)}, {result.peak_memory_mb:.0f} MB peak, "
        f"code {result.revision or 'unknown'}"
    )
    if result.dev.best_step is not None:
        echo(f"best {result.dev.task} {result.dev.best_score:.2f} at step {result.dev.best_step}")
    for part, values in result.hyperparameters.items():
        echo(f"{part}: " + ", ".join(f"{key}={value}" for key, value in values.items()))
    for role, use in result.teachers.items():
        echo(f"{role}: {use.teacher} ({use.of})")
    scores = frame_of([result])
    names = ["suite", "protocol", "task", "part", "metric"]
    texts = (f"{value:.4f}".rstrip("0").rstrip(".") for value in scores["value"])
    rows = ([*head, value] for head, value in zip(scores[names].to_numpy().tolist(), texts, strict=True))
    plain_table((*names, "value"), rows)
    plain_table(("machine", ""), [*((k, str(v)) for k, v in result.hardware.items()), *result.packages.items()])
    for line in result.all_warnings:
        echo(f"warning: {line}")


def _show_method(name: str) -> None:
    from harness.reporting.site.methods import method_facts

    facts = method_facts(name)
    echo(f"{name}: {facts.paper}")
    echo(f"trains on: {', '.join(facts.streams) or 'nothing'}")
    echo(f"loss terms: {', '.join(facts.terms) or 'none'} (remove one with {name}[without=TERM])")
    if facts.parts:
        echo(f"parts of terms that can be removed too: {', '.join(facts.parts)}")
    plain_table(("reading", "what it follows"), [(f"@{key}", text) for key, text in facts.readings.items()])
    heads = (f"@{reading}" for reading in facts.readings)
    rows = [
        (v.name, *v.by_reading, "differs" if v.differs else "", v.origin, v.allowed, v.source) for v in facts.values
    ]
    plain_table(("hyperparameter", *heads, "", "@paper from", "unit or values", "source"), rows)
    if facts.decisions:
        plain_table(("also decided", "@paper from", "what is done"), facts.decisions)
    if facts.notes:
        echo(f"differences between paper and public code, and what they change: {facts.notes}")
