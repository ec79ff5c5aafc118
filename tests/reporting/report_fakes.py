"""Results without training: the attributes of a result file, and the frame that the store makes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pandas


def fingerprint(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def spaces(value: Any) -> Any:
    """Nested mappings as attributes, one level down from a result, as the store's models have them."""
    return SimpleNamespace(**value)


def result(
    variant: str = "simcse",
    seed: int = 0,
    scores: dict[str, dict[str, dict[str, float]]] | None = None,
    *,
    setting: str = "toy",
    encoder: str = "toy-bert",
    profile: str = "tiny",
    overrides: dict[str, Any] | None = None,
    data: str = "first",
    finished: str = "2026-01-02T03:04:05+00:00",
    losses: dict[str, list[float | None]] | None = None,
    dev: Sequence[float] = (40.0, 60.0),
    packages: dict[str, str] | None = None,
) -> SimpleNamespace:
    where = (profile, variant, setting, encoder, sorted((overrides or {}).items()), data)
    steps = [50 * (index + 1) for index in range(len(dev))]
    best = max(dev, default=None)
    return SimpleNamespace(
        spec=SimpleNamespace(
            method=variant.partition("[")[0],
            variant=variant,
            setting=setting,
            encoder=encoder,
            seed=seed,
            key=f"{variant}/{setting}/{encoder}/seed-{seed}",
        ),
        profile=profile,
        overrides=overrides or {},
        fingerprint=fingerprint(*where, seed),
        group=fingerprint(*where),
        training_fingerprint=fingerprint(*where, seed, "training"),
        hyperparameters={"method": {"temperature": 0.05}, "training": {"batch_size": 64, "learning_rate": 3e-05}},
        protocols={},
        scores=scores or {"sts": {"ToySTS": {"spearman": 70.0 + seed}, "Avg": {"spearman": 70.0 + seed}}},
        dev=spaces(
            {
                "task": "ToySTS-dev",
                "metric": "spearman",
                "steps": steps,
                "scores": list(dev),
                "best_step": steps[list(dev).index(best)] if best is not None else None,
                "best_score": best,
            }
        ),
        losses=spaces({"steps": steps, "terms": {"text": [3.0, 2.0]} if losses is None else losses}),
        timings=spaces({"train_s": 12.1, "evaluate_s": {"sts": 0.4}, "total_s": 13.0}),
        peak_memory_mb=812.0,
        hardware={"device": "cpu", "processor": "some CPU", "cores": 2, "threads": 2},
        packages=packages or {"torch": "2.15.0", "numpy": "2.4.6"},
        revision=None,
        started="2026-01-02T03:00:00+00:00",
        finished=finished,
        warnings=[],
    )


def sts(**tasks: float) -> dict[str, dict[str, dict[str, float]]]:
    """Scores of the sts suite; the average is added."""
    scores = {task: {"spearman": value} for task, value in tasks.items()}
    return {"sts": {**scores, "Avg": {"spearman": sum(tasks.values()) / len(tasks)}}}


def frame(results: Sequence[SimpleNamespace]) -> pandas.DataFrame:
    names = "profile method variant setting encoder seed overrides fingerprint group suite task metric value finished"
    names += " dev minutes"
    rows = [
        (
            one.profile,
            one.spec.method,
            one.spec.variant,
            one.spec.setting,
            one.spec.encoder,
            one.spec.seed,
            ",".join(f"{key}={value}" for key, value in sorted(one.overrides.items())),
            one.fingerprint,
            one.group,
            suite,
            task,
            metric,
            value,
            one.finished,
            one.dev.best_score,
            one.timings.train_s / 60,
        )
        for one in results
        for suite, tasks in one.scores.items()
        for task, metrics in tasks.items()
        for metric, value in metrics.items()
    ]
    return pandas.DataFrame(rows, columns=names.split())


def over_seeds(variant: str, values: Sequence[float], **given: Any) -> list[SimpleNamespace]:
    """One result a value, on one task."""
    return [result(variant, seed, sts(ToySTS=value), **given) for seed, value in enumerate(values)]
