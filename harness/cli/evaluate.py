"""`harness eval`: score any model, or add suites to a finished run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from harness.cli.options import data_option, make_request, profile_option, results_option
from harness.cli.run import carry_out
from harness.encoders.folder import read_modules
from harness.errors import UserError
from harness.execution.environment import DeviceChoice
from harness.execution.plan import Request
from harness.registry import names
from harness.spec import RunSpec, SpecError, Variant
from harness.store import Store, find_results


@click.command("eval")
@click.argument("model", metavar="MODEL")
@click.option(
    "--pooling",
    help="How sentence vectors are pooled, such as cls or mean; else what the folder says.",
)
@click.option("--suites", metavar="A,B", help="Evaluation suites; else all of the profile.")
@profile_option
@results_option
@data_option
@click.option("--device", default="auto", show_default=True, type=click.Choice(["auto", "cpu", "cuda"]))
@click.pass_context
def evaluate(
    context: click.Context, model: str, pooling: str | None, results: Path, device: DeviceChoice, **rest: Any
) -> None:
    """Score MODEL: a folder, a hub name OWNER/NAME[@COMMIT], or the key of a run.

    A folder is one that transformers or sentence-transformers saved. Scores go to the same results and
    tables as those of runs, a model from outside as `none[pooling=...]`.
    """
    spec = _run_key(model)
    if spec is not None and pooling is not None:
        raise UserError("a run is read as its method says; leave --pooling out")
    request = _of_run(spec, Store(results), rest) if spec is not None else _of_model(model, pooling, rest)
    carry_out(context, request, results, 1, device)


def _run_key(text: str) -> RunSpec | None:
    """The run that a key names; None where it is no key of a registered method."""
    try:
        spec = RunSpec.parse(text)
    except SpecError:
        return None
    return spec if spec.variant.name in names("method") else None


def _of_run(spec: RunSpec, store: Store, rest: dict[str, Any]) -> Request:
    """The request that made a finished run, with the overrides that it had."""
    request = _request(spec.encoder, rest)
    found = find_results(store, str(spec), request.profile.name)
    kinds = {json.dumps(result.overrides, sort_keys=True) for result in found}
    if len(kinds) != 1:
        raise UserError(
            f"{store.root} has runs {spec} that differ by --set; `harness run --suites ...` with the options of one "
            "adds suites to it"
        )
    return replace(
        request,
        methods=[spec.variant],
        settings=[spec.setting],
        encoders=[spec.encoder],
        seeds=(spec.seed,),
        overrides=json.loads(kinds.pop()),
    )


def _of_model(model: str, pooling: str | None, rest: dict[str, Any]) -> Request:
    folder = Path(model).expanduser()
    place = model
    if folder.is_dir():
        root, told = read_modules(folder)
        place, pooling = f"{folder.resolve().name}={root}", pooling or told
    elif model.startswith((".", "/", "~")):
        raise UserError(f"there is no folder {model}; give the folder of a saved model, a hub name or a run's key")
    if pooling is None:
        raise UserError(f"{model} does not say how its sentences are read; give --pooling cls, mean or pooler")
    variant = Variant.make("none", {"pooling": pooling})
    return replace(_request(place, rest), methods=[variant], seeds=(0,))


def _request(encoders: str, rest: dict[str, Any]) -> Request:
    return make_request(methods=None, settings=None, encoders=encoders, seeds=None, sets=(), **rest)
