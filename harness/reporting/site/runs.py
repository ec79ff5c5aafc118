"""Runs in words: one line each for the index, and a page each with all that a result holds."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.formatting import duration, fixed
from harness.reporting.figures.curves import Chart, run_charts
from harness.reporting.formats import ABSENT
from harness.reporting.site.names import run_names
from harness.reporting.tables.scores import ScoreTable, average_columns, average_of, score_tables
from harness.spec import UNTRAINED

Pairs = tuple[tuple[str, str], ...]
#: gives a result's log, as `Store.log`
Log = Callable[[Any], str]
#: lines of a log that a page shows, half from its start and half from its end
LOG_LINES = 300


@dataclass(frozen=True)
class RunLine:
    """One run in the index. `averages` stand below `RunIndex.columns`."""

    page: str
    variant: str
    overrides: str
    setting: str
    encoder: str
    seed: int
    profile: str
    averages: tuple[str, ...]
    dev: str
    seconds: float
    time: str
    finished: str
    warnings: int


@dataclass(frozen=True)
class RunIndex:
    """All runs, by profile and key."""

    columns: tuple[str, ...]
    lines: tuple[RunLine, ...]


@dataclass(frozen=True)
class Sibling:
    """Another seed of the same experiment."""

    seed: int
    page: str


@dataclass(frozen=True)
class RunPage:
    """All that a result holds, in words."""

    page: str
    method: str
    variant: str
    setting: str
    encoder: str
    seed: int
    profile: str
    command: str
    facts: Pairs
    siblings: tuple[Sibling, ...]
    dev: Chart | None
    best: str
    losses: tuple[Chart, ...]
    scores: tuple[ScoreTable, ...]
    hyperparameters: tuple[tuple[str, Pairs], ...]
    timings: Pairs
    hardware: Pairs
    packages: Pairs
    warnings: tuple[str, ...]
    log: tuple[str, ...]


def in_order(results: Sequence[Any]) -> list[Any]:
    """Results by profile and key, seeds as numbers."""
    return sorted(results, key=lambda one: (one.profile, *_place(one), one.spec.seed, one.finished))


def run_index(results: Sequence[Any]) -> RunIndex:
    """A line for each of the results, in their order."""
    columns = average_columns(results)
    lines = tuple(_line(one, page, columns) for one, page in zip(results, run_names(results), strict=True))
    return RunIndex(tuple(title for title, _, _ in columns), lines)


def run_pages(results: Sequence[Any], log: Log) -> Iterator[RunPage]:
    """The page of each of the results, in their order, made one at a time."""
    pages = run_names(results)
    seeds: dict[tuple[str, str], list[Sibling]] = {}
    for one, page in zip(results, pages, strict=True):
        seeds.setdefault((one.profile, one.group), []).append(Sibling(one.spec.seed, page))
    for one, page in zip(results, pages, strict=True):
        yield _page(one, page, tuple(seeds[one.profile, one.group]), capped(log(one)))


def capped(log: str) -> tuple[str, ...]:
    """The lines of a log; the middle of a long one is left out, which a line says."""
    lines, half = log.splitlines(), LOG_LINES // 2
    if len(lines) <= LOG_LINES:
        return tuple(lines)
    return (*lines[:half], f"({len(lines) - 2 * half} lines left out)", *lines[-half:])


def overrides_of(result: Any) -> str:
    """`key=value, key=value`, as given on the command line."""
    return ", ".join(f"{key}={value}" for key, value in sorted(result.overrides.items()))


def command_of(result: Any) -> str:
    """What to type to run it again."""
    spec = result.spec
    words = ["harness", "run", "--profile", result.profile, "--methods", spec.variant]
    words += ["--settings", spec.setting] if spec.setting != UNTRAINED else []
    words += ["--encoders", spec.encoder, "--seeds", f"{spec.seed},"]
    for key, value in sorted(result.overrides.items()):
        words += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return shlex.join(words)


def _place(result: Any) -> tuple[str, str, str, str]:
    return (result.spec.setting, result.spec.encoder, result.spec.variant, overrides_of(result))


def _line(result: Any, page: str, columns: Sequence[tuple[str, str, str]]) -> RunLine:
    return RunLine(
        page=page,
        variant=result.spec.variant,
        overrides=overrides_of(result),
        setting=result.spec.setting,
        encoder=result.spec.encoder,
        seed=result.spec.seed,
        profile=result.profile,
        averages=tuple(average_of(result, suite, metric) for _, suite, metric in columns),
        dev=ABSENT if result.dev.best_score is None else fixed(result.dev.best_score, 2),
        seconds=result.seconds,
        time=duration(result.seconds),
        finished=result.finished[:16].replace("T", " "),
        warnings=len(result.all_warnings),
    )


def _page(result: Any, page: str, seeds: tuple[Sibling, ...], log: tuple[str, ...]) -> RunPage:
    spec, dev = result.spec, result.dev
    dev_chart, losses = run_charts(result)
    best = "" if dev.best_score is None else f"Best {fixed(dev.best_score, 2)} at step {dev.best_step}."
    return RunPage(
        page=page,
        method=spec.method,
        variant=spec.variant,
        setting=spec.setting,
        encoder=spec.encoder,
        seed=spec.seed,
        profile=result.profile,
        command=command_of(result),
        facts=tuple(_facts(result)),
        siblings=seeds,
        dev=dev_chart,
        best=best,
        losses=losses,
        scores=tuple(score_tables(result)),
        hyperparameters=(
            *((part, _pairs(values)) for part, values in result.hyperparameters.items()),
            ("teachers", tuple((role, f"{use.teacher} ({use.of})") for role, use in result.teachers.items())),
        ),
        timings=tuple(_timings(result)),
        hardware=(*_pairs(result.hardware), ("peak memory", f"{result.peak_memory_mb:.0f} MB")),
        packages=_pairs(dict(sorted(result.packages.items()))),
        warnings=tuple(result.all_warnings),
        log=log,
    )


def _facts(result: Any) -> Iterator[tuple[str, str]]:
    yield "profile", result.profile
    yield "variant", result.spec.variant
    yield "setting", result.spec.setting
    yield "encoder", result.spec.encoder
    yield "seed", str(result.spec.seed)
    yield "changed with --set", overrides_of(result) or "nothing"
    yield "fingerprint", result.fingerprint
    yield "group, the same for all its seeds", result.group
    yield "code", result.revision or "unknown"
    yield "started", result.started
    yield "finished", result.finished


def _timings(result: Any) -> Iterator[tuple[str, str]]:
    yield "training", duration(result.train_seconds)
    for evaluation in result.evaluations:
        yield f"evaluation, {evaluation.suite}", duration(evaluation.seconds)
    yield "in all", duration(result.seconds)


def _pairs(values: Mapping[str, Any]) -> Pairs:
    return tuple((str(key), str(value)) for key, value in values.items())
