"""Pages of runs: one line for each in the index, and a page each with everything a result file holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.command_line import harness_command
from harness.formatting import duration, fixed
from harness.reporting.figures.curves import Chart, run_charts
from harness.reporting.site.names import run_names
from harness.reporting.site.scores import ScoreTable, average_columns, average_text, score_tables
from harness.spec import UNTRAINED
from harness.store import Result, Store, overrides_text

#: names and values, as texts
TextPairs = tuple[tuple[str, str], ...]
#: Most lines of a log on a page, half from its start and half from its end.
LOG_LINES = 300


@dataclass(frozen=True)
class RunLine:
    """A run in the index. `averages` belong to `RunIndex.columns`."""

    page: str
    result: Result
    averages: tuple[str, ...]


@dataclass(frozen=True)
class RunIndex:
    """All runs. Each column is the average of a suite in its first metric."""

    columns: tuple[str, ...]
    lines: tuple[RunLine, ...]


@dataclass(frozen=True)
class RunPage:
    """A run's page. `siblings` are the pages of the same experiment by seed, itself included."""

    page: str
    result: Result
    command: str
    siblings: Mapping[int, str]
    dev: Sequence[Chart]
    best: str
    losses: Sequence[Chart]
    scores: tuple[ScoreTable, ...]
    values: tuple[tuple[str, TextPairs], ...]
    facts: TextPairs
    timings: TextPairs
    hardware: TextPairs
    packages: TextPairs
    log: tuple[str, ...]


def in_order(results: Sequence[Result]) -> list[Result]:
    """Sort results by profile, place and seed."""

    def key(one: Result) -> tuple[str, str, str, str, str, int, str]:
        spec = one.spec
        return (
            one.profile,
            spec.setting,
            spec.encoder,
            spec.variant,
            overrides_text(one.overrides),
            spec.seed,
            one.finished,
        )

    return sorted(results, key=key)


def run_index(results: Sequence[Result]) -> RunIndex:
    """The index of runs, in the order of the results."""
    columns = average_columns(results)
    lines = (
        RunLine(page, one, tuple(average_text(one, column) for column in columns))
        for one, page in zip(results, run_names(results), strict=True)
    )
    return RunIndex(tuple(f"{suite} {metric.name}" for suite, metric in columns), tuple(lines))


def run_pages(results: Sequence[Result], store: Store) -> Iterator[RunPage]:
    """The pages of runs, in the order of the results, made one at a time."""
    pages = run_names(results)
    siblings: dict[tuple[str, str], dict[int, str]] = {}
    for one, page in zip(results, pages, strict=True):
        siblings.setdefault((one.profile, one.group), {})[one.spec.seed] = page
    for one, page in zip(results, pages, strict=True):
        yield _page(one, page, siblings[one.profile, one.group], store.log(one))


def shortened(log: str) -> tuple[str, ...]:
    """The lines of a log; one line replaces the middle of a long log."""
    lines, half = log.splitlines(), LOG_LINES // 2
    if len(lines) <= LOG_LINES:
        return tuple(lines)
    return (*lines[:half], f"({len(lines) - 2 * half} lines omitted)", *lines[-half:])


def run_command(result: Result) -> str:
    """The command that trains and evaluates a run."""
    spec = result.spec
    return harness_command(
        "run",
        profile=result.profile,
        methods=spec.variant,
        settings=None if spec.setting == UNTRAINED else spec.setting,
        encoders=spec.encoder,
        seeds=f"{spec.seed},",
        set=dict(sorted(result.overrides.items())),
    )


def _page(result: Result, page: str, siblings: Mapping[int, str], log: str) -> RunPage:
    dev, losses = run_charts(result)
    best = result.dev.best_score
    teachers = {role: f"{use.teacher} (reads the {use.of})" for role, use in result.teachers.items()}
    values: dict[str, Mapping[str, object]] = {**result.hyperparameters, **({"teachers": teachers} if teachers else {})}
    return RunPage(
        page=page,
        result=result,
        command=run_command(result),
        siblings=dict(sorted(siblings.items())),
        dev=dev,
        best="" if best is None else f"Best {fixed(best, 2)} at step {result.dev.best_step}.",
        losses=losses,
        scores=tuple(score_tables(result)),
        values=tuple((part, _pairs(found)) for part, found in values.items()),
        facts=tuple(_facts(result)),
        timings=tuple(_timings(result)),
        hardware=(*_pairs(result.hardware), ("peak memory", f"{result.peak_memory_mb:.0f} MB")),
        packages=_pairs(dict(sorted(result.packages.items()))),
        log=shortened(log),
    )


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    yield "profile", result.profile
    yield "profile read from", result.profile_origin
    yield "variant", result.spec.variant
    yield "setting", result.spec.setting
    yield "encoder", result.spec.encoder
    yield "seed", str(result.spec.seed)
    yield "changed with --set", overrides_text(result.overrides) or "nothing"
    yield "fingerprint of the training", result.fingerprint
    yield "group, equal for all seeds", result.group
    yield "code", result.revision or "unknown"
    yield "started", result.started
    yield "finished", result.finished


def _timings(result: Result) -> Iterator[tuple[str, str]]:
    yield "training", duration(result.train_seconds)
    for evaluation in result.current:
        yield f"evaluation, {evaluation.suite}", duration(evaluation.seconds)
    yield "total", duration(result.seconds)


def _pairs(values: Mapping[str, object]) -> TextPairs:
    return tuple((name, str(value)) for name, value in values.items())
