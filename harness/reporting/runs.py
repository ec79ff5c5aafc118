"""The list of runs: what each was, gave, cost and ran on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.reporting.formats import ABSENT, digits_of, duration, fixed
from harness.reporting.summary import AVERAGE, MAIN_METRICS


@dataclass(frozen=True)
class Run:
    """One result in words. `packages` is the number of its set of packages, counted from 1."""

    key: str
    profile: str
    overrides: str
    fingerprint: str
    scores: tuple[str, ...]
    dev: str
    time: str
    memory: str
    hardware: str
    packages: int
    revision: str
    finished: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class RunList:
    """All runs and the distinct sets of packages they ran with."""

    runs: tuple[Run, ...]
    packages: tuple[str, ...]


def run_list(results: Sequence[Any]) -> RunList:
    """Results in words, by profile and key."""
    sets: dict[str, int] = {}
    runs = []
    for result in sorted(results, key=lambda one: (one.profile, one.spec.key, one.finished)):
        packages = ", ".join(f"{name} {version}" for name, version in sorted(result.packages.items()))
        runs.append(_run(result, sets.setdefault(packages, len(sets) + 1)))
    return RunList(tuple(runs), tuple(sets))


def _run(result: Any, packages: int) -> Run:
    return Run(
        key=result.spec.key,
        profile=result.profile,
        overrides=", ".join(f"{key}={value}" for key, value in sorted(result.overrides.items())),
        fingerprint=result.fingerprint[:12],
        scores=tuple(_scores(result.scores)),
        dev=ABSENT if result.dev.best_score is None else f"{fixed(result.dev.best_score, 2)} at {result.dev.best_step}",
        time=duration(result.timings.total_s),
        memory=f"{result.peak_memory_mb:.0f} MB",
        hardware=_hardware(result.hardware),
        packages=packages,
        revision=result.revision[:12] if result.revision else ABSENT,
        finished=result.finished[:16].replace("T", " "),
        warnings=tuple(result.warnings),
    )


def _scores(scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """The average of each suite in its main metrics."""
    texts = []
    for suite, tasks in scores.items():
        average = tasks.get(AVERAGE, {})
        shown = [metric for metric in MAIN_METRICS.get(suite, tuple(average)) if metric in average]
        if shown:
            values = (f"{metric} {fixed(average[metric], digits_of(metric))}" for metric in shown)
            texts.append(f"{suite}: {', '.join(values)}")
    return texts


def _hardware(hardware: Mapping[str, Any]) -> str:
    names = dict.fromkeys(str(hardware[key]) for key in ("device", "processor") if hardware.get(key))
    threads = hardware.get("threads")
    return ", ".join([*names, f"{threads} threads"] if threads else names)
