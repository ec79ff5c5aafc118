"""`harness show`: one run, or one method and its readings."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import results_option
from harness.cli.tables import plain_table
from harness.errors import UserError
from harness.formatting import duration
from harness.registry import names
from harness.reporting.site.methods import method_facts, notes_path
from harness.spec import RunSpec
from harness.store import Result, Store


@click.command()
@click.argument("what", metavar="RUN|METHOD")
@results_option
def show(what: str, results: Path) -> None:
    """Show a run by its key or result file, or a method with its hyperparameters and readings."""
    if what in names("method"):
        _method(what)
        return
    found = _results(what, Store(results))
    if not found:
        raise UserError(f"{results} has no result of '{what}'; `harness status` lists what there is")
    for result in found:
        _run(result)


def _results(what: str, store: Store) -> list[Result]:
    path = Path(what)
    if path.suffix == ".json":
        if not path.is_file():
            raise UserError(f"there is no file {path}; give a result file or a run's key")
        return [store.read(path)]
    if "/" not in what:
        raise UserError(
            f"'{what}' is neither a method ({', '.join(names('method'))}) nor a run METHOD/SETTING/ENCODER/seed-N"
        )
    key = str(RunSpec.parse(what))
    return [result for result in store.load()[0] if result.spec.key == key]


def _run(result: Result) -> None:
    click.echo(f"{result.spec.key}  profile {result.profile}  fingerprint {result.fingerprint[:12]}")
    click.echo(
        f"finished {result.finished}, {duration(result.timings.total_s)}, {result.peak_memory_mb:.0f} MB peak, "
        f"code {result.revision or 'unknown'}"
    )
    if result.dev.best_step is not None:
        click.echo(f"best {result.dev.task} {result.dev.best_score:.2f} at step {result.dev.best_step}")
    for part, values in result.hyperparameters.items():
        click.echo(f"{part}: " + ", ".join(f"{key}={value}" for key, value in values.items()))
    rows = [
        (suite, task, metric, f"{value:.4f}".rstrip("0").rstrip("."))
        for suite, tasks in result.scores.items()
        for task, metrics in tasks.items()
        for metric, value in metrics.items()
    ]
    plain_table(("suite", "task", "metric", "value"), rows)
    plain_table(("machine", ""), [*((k, str(v)) for k, v in result.hardware.items()), *result.packages.items()])
    for line in result.warnings:
        click.echo(f"warning: {line}")


def _method(name: str) -> None:
    facts = method_facts(name)
    click.echo(f"{name}: {facts.paper}")
    click.echo(f"learns from: {', '.join(facts.streams) or 'nothing'}")
    click.echo(f"loss terms: {', '.join(facts.terms) or 'none'} (leave one out with {name}[without=TERM])")
    if facts.parts:
        click.echo(f"parts of terms that can be left out as well: {', '.join(facts.parts)}")
    plain_table(("reading", "what it follows"), [(f"@{key}", text) for key, text in facts.readings.items()])
    heads = (f"@{reading}" for reading in facts.readings)
    rows = [(v.name, *v.by_reading, "differs" if v.differs else "", v.allowed, v.source) for v in facts.values]
    plain_table(("hyperparameter", *heads, "", "unit or values", "source"), rows)
    notes = notes_path(name)
    if notes:
        click.echo(f"every difference between paper and public code, with its consequence: {notes}")
