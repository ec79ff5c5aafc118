"""`harness show` and `harness logs`: details of runs and methods, and the logs of runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import complete_profile, completer, names_option, results_option
from harness.cli.output import echo, print_table
from harness.command_line import DEFAULT_PROFILE
from harness.errors import UserError
from harness.formatting import duration, one_line
from harness.registry import list_registered, suggest
from harness.spec import UNTRAINED, RunSpec, SpecError, Variant, parse_setting

if TYPE_CHECKING:
    from harness.grid import Resolved
    from harness.profiles import Profile
    from harness.store import EncoderTrial, Failure, Frames, Result, Store

#: how many lines of a failed run's log are shown
LAST_LINES = 10


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--follow",
    is_flag=True,
    help="Keep printing until the run ends; Ctrl-C stops only the printing.",
)
@results_option
def logs(run: str, follow: bool, results: Path) -> None:
    """Print the log of a run in progress, failed or finished.

    RUN is its key, words of the key that no other run has, or six or more digits of its
    fingerprint.
    """
    from harness.planning.names import find_run
    from harness.store import Store
    from harness.store import logs as stored_logs

    store = Store(results)
    try:
        log = stored_logs.find_log(store, run)
    except UserError:
        if "/seed-" not in run:
            raise
        log = stored_logs.find_log(store, find_run(store, run)[0].fingerprint)

    if follow:
        try:
            for text in stored_logs.follow(log, store):
                echo(text, nl=False)
        except KeyboardInterrupt:
            echo("")
        return

    if not log.path.is_file():
        raise UserError(
            f"{log.key} has no log yet: its job is still queued; `harness status` shows where"
        )
    echo(store.text(log.path), nl=False)


@click.command()
@click.argument("what", metavar="RUN|METHOD", shell_complete=completer("method"))
@names_option("--setting", "S", "The setting of a method's values (default: the profile's).")
@names_option("--encoder", "E", "The encoder of a method's values (default: the profile's).")
@click.option(
    "--profile",
    metavar="NAME|FILE.toml",
    help=f"Show a method's values under this profile (default: {DEFAULT_PROFILE}), or only this profile's runs.",
    shell_complete=complete_profile,
)
@results_option
def show(
    what: str, setting: str | None, encoder: str | None, profile: str | None, results: Path
) -> None:
    """Show a run, a failed run, or a method and its values.

    A run is given by its key, in any spelling of its options, words of the key that no other run
    has, six or more digits of its fingerprint, or its result file. A failed run is shown with its
    traceback and the end of its log.
    """
    if what in list_registered("method"):
        _show_method(what, profile or DEFAULT_PROFILE, setting, encoder)
        return
    from harness.planning.names import find_run
    from harness.store import Store

    store = Store(results)
    failures = [] if what.endswith(".json") else _find_failures(store, what, profile)
    for failure in failures:
        _show_failure(store, failure)
    try:
        results_of_run = find_run(store, what, profile)
    except UserError:
        if failures:
            return
        raise
    for result in results_of_run:
        _show_run(result)


def _find_failures(store: Store, key: str, profile: str | None) -> list[Failure]:
    from harness.profiles import load_profile
    from harness.store.files import is_named

    profile_name = None if profile is None else load_profile(profile).name
    with suppress(SpecError):
        key = str(RunSpec.parse(key))
    return [
        failure
        for failure in store.failures()
        if is_named(key, failure.spec.key, failure.fingerprint)
        and profile_name in (None, failure.profile)
    ]


def _show_failure(store: Store, failure: Failure) -> None:
    """Print the error and traceback of a failed run, and the path and last lines of its log."""
    from harness.store.logs import failed_log

    echo(
        f"{failure.spec.key}  profile {failure.profile}  failed {failure.when}: {one_line(failure.error)}"
    )
    echo(
        failure.traceback
        or "no traceback: the process was killed, or what failed is a job that the run needs",
        nl=not failure.traceback,
    )
    path = failed_log(store, failure.fingerprint)
    if path.is_file():
        echo(f"log: {path}, its last lines:")
        for line in store.text(path).splitlines()[-LAST_LINES:]:
            echo(f"  {line}")


def _show_run(result: Result) -> None:
    from harness.reporting.seeds.controls import describe_teacher_fit
    from harness.reporting.seeds.spent import Spent
    from harness.store import frames_of

    frames = frames_of([result])

    echo(f"{result.spec.key}  profile {result.profile}  fingerprint {result.fingerprint[:12]}")
    echo(
        f"finished {result.finished}, {duration(result.seconds)}, {result.peak_memory_mb:.0f} MB peak, "
        f"code {result.revision or 'unknown'}"
    )
    if result.dev.best_step is not None:
        echo(_describe_dev_scores(result))
    spent = Spent.of(frames, [0]).texts()
    echo(f"budget: {', '.join(f'{value} {what}' for what, value in spent.items())}")
    if result.parameters is not None:
        echo(f"trained: {result.parameters:,} parameters")
    for part, values in result.hyperparameters.items():
        echo(f"{part}: " + ", ".join(f"{key}={value}" for key, value in values.items()))
    if result.trial is not None:
        echo(f"trial of the encoder: {_format_trial(result.trial)}")
    for role, use in result.teachers.items():
        fit = describe_teacher_fit(result.profile, use)
        echo(f"{role}: {use.teacher} ({use.of}{', ' if fit else ''}{fit})")

    print_table(
        ("gradient in", "of the term", "share from", "to", "last", "cosine, last"),
        _list_gradients(result),
    )
    _show_scores(frames)

    hardware = [(name, str(value)) for name, value in result.hardware.items()]
    print_table(("machine", ""), [*hardware, *result.packages.items()])
    for census in result.inputs:
        echo(f"input: {census.line}")
    if len(result.sessions) > 1:
        for session in result.sessions:
            device = session.hardware.get("accelerator", session.hardware.get("processor", ""))
            revision = session.revision or ""
            echo(f"session: {session.started} on {session.host}, {device}, {revision}")
    for line in result.all_warnings:
        echo(f"warning: {line}")


def _describe_dev_scores(result: Result) -> str:
    """`best ToySTS-dev 81.23 at step 40; 80.12 at the last, 60`"""
    dev = result.dev
    checkpoint = result.training.get("checkpoint", "best")
    text = f"{checkpoint} {dev.task} {dev.best_score:.2f} at step {dev.best_step}"
    if dev.scores:
        text += f"; {dev.scores[-1]:.2f} at the last, {dev.steps[-1]}"
    return text


def _format_trial(trial: EncoderTrial) -> str:
    texts = []
    for name, value in trial.model_dump().items():
        text = f"{value:.1e}" if isinstance(value, float) else str(value)
        texts.append(f"{name}={text}")
    return ", ".join(texts)


def _show_scores(frames: Frames) -> None:
    """Print the scores of a run, suite by suite."""
    by_protocol = frames.flat().groupby(["suite", "protocol"], sort=False, observed=True)
    for (suite, protocol), scores in by_protocol:
        echo(f"{suite}, protocol {protocol}")
        values = (f"{value:.4f}".rstrip("0").rstrip(".") for value in scores["value"])
        rows = zip(scores["task"], scores["part"], scores["metric"], values, strict=True)
        print_table(("task", "part", "metric", "value"), rows)


def _list_gradients(result: Result) -> Iterator[tuple[str, ...]]:
    """Each loss term's shares of the gradient in the batches of a stream, and its cosine with the
    whole.
    """
    for stream, points in result.gradients.items():
        if not points:
            continue
        for term, cosine in points[-1].cosines.items():
            shares = [point.shares.get(term) or 0.0 for point in points]
            texts = [f"{share:.2g}" for share in (min(shares), max(shares), shares[-1])]
            yield stream, term, *texts, "" if cosine is None else f"{cosine:.2f}"


def _show_method(name: str, profile: str, setting: str | None, encoder: str | None) -> None:
    from harness.method.facts import read_method_facts
    from harness.profiles import load_profile

    loaded = load_profile(profile)
    used_values = _list_used_values(name, loaded, setting, encoder)
    facts = read_method_facts(name)
    echo(f"{name}: {facts.paper}")
    echo(f"trains on: {', '.join(facts.streams) or 'nothing'}")
    echo(f"loss terms: {', '.join(facts.terms) or 'none'} (remove one with {name}[without=TERM])")
    if facts.parts:
        echo(f"parts of terms that can also be removed: {', '.join(facts.parts)}")

    readings = [(f"@{reading}", text) for reading, text in facts.readings.items()]
    print_table(("reading", "what it follows"), readings)
    print_table((f"used under {loaded.name}", "value", "from", "where it differs"), used_values)

    heads = (f"@{reading} by default" for reading in facts.readings)
    rows = []
    for value in facts.values:
        differs = "differs" if value.differs else ""
        rows.append(
            (value.name, *value.by_reading, differs, value.origin, value.allowed, value.source)
        )
    print_table(("hyperparameter", *heads, "", "@paper from", "unit or values", "source"), rows)
    if facts.decisions:
        print_table(("also decided", "@paper from", "what is done"), facts.decisions)
    if facts.notes:
        echo(f"differences between paper and public code, and what they change: {facts.notes}")


def _list_used_values(
    method: str, profile: Profile, setting: str | None, encoder: str | None
) -> list[tuple[str, str, str, str]]:
    """The values of a method's options and of its training, in the profile's default settings
    unless one is given.

    Each has its name, its value, its source (a rule of the profile, its [training], a reading, or
    the default), and the readings, settings and encoders that use it, '' for all of them. Raises
    UserError where the method cannot be trained there.
    """
    from harness.grid import check_setting
    from harness.method.declared import get_declared_method

    if encoder is not None and encoder not in profile.encoders:
        hint = suggest(encoder, sorted(profile.encoders))
        raise UserError(f"the profile '{profile.name}' has no encoder '{encoder}'; {hint}")
    # a method that does not train is in no setting, but a mistyped one is still a mistake
    if setting is not None and setting != UNTRAINED:
        check_setting(profile, parse_setting(setting))
    runs = dict(_resolve_runs(method, profile, setting, encoder))
    if not runs:
        raise UserError(
            f"{method} cannot be trained in any default setting of {profile.name}; give --setting"
        )

    declared = get_declared_method(method)
    places_by_value: dict[str, dict[tuple[str, str], list[str]]] = {}
    for place, run in runs.items():
        values = declared.option_values(run.spec.variant.reading, run.layers)
        if run.trains:
            values = {**values, **run.training.model_dump()}
        for name, value in values.items():
            places_of_name = places_by_value.setdefault(name, {})
            places_of_name.setdefault((str(value), _find_source(name, run)), []).append(place)

    rows = []
    for name, places_of_name in places_by_value.items():
        for (value, source), places in places_of_name.items():
            differs = "" if len(places) == len(runs) else ", ".join(places)
            rows.append((name, value, source, differs))
    return rows


def _resolve_runs(
    method: str, profile: Profile, setting: str | None, encoder: str | None
) -> Iterator[tuple[str, Resolved]]:
    """A run of each reading, setting and encoder, by what distinguishes it from the others."""
    from harness.grid import UnfitSettingError, resolve
    from harness.method.declared import get_declared_method

    declared = get_declared_method(method)
    settings = [setting] if setting else list(profile.defaults.settings)
    if not declared.trains:
        settings = [UNTRAINED]
    encoders = [encoder] if encoder else list(profile.defaults.encoders)
    for reading, trained_in, student in itertools.product(declared.readings, settings, encoders):
        spec = RunSpec(Variant(method, reading=reading), parse_setting(trained_in), student, 0)
        place = f"@{reading}"
        if len(settings) > 1:
            place += f" {trained_in}"
        if len(encoders) > 1:
            place += f" {student}"
        try:
            yield place, resolve(profile, spec, {})
        except UnfitSettingError:
            if setting is not None:
                raise


def _find_source(name: str, run: Resolved) -> str:
    """Where a value comes from: what the run's profile or the user states, a reading, or the
    default.
    """
    from harness.method.declared import get_declared_method

    if name in run.sources:
        return run.sources[name]
    reading = run.spec.variant.reading
    declared = get_declared_method(run.spec.variant.name)
    return f"@{reading}" if name in declared.reading_values.get(reading, {}) else "default"
