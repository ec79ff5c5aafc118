"""Results without training: real records, and the real frame of their scores."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pandas

from harness import registry
from harness.metrics import AVERAGE, Metric
from harness.store import Evaluation, Protocol, Result, scores_frame

Scores = dict[str, dict[str, dict[str, float]]]


def fingerprint(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def declared(suite: str) -> tuple[Metric, ...]:
    """The metrics that a registered suite declares; none for another name."""
    return registry.get("suite", suite).metrics if suite in registry.names("suite") else ()


def evaluation(
    suite: str, scores: dict[str, dict[str, float]], *, parts: Scores | None = None, data: str = "first", **more: Any
) -> Evaluation:
    """Scores of a suite under the protocol of some data."""
    protocol = Protocol(version=1, data=fingerprint(suite, data), metrics=more.pop("metrics", declared(suite)))
    given = {"seconds": 0.4, "finished": "2026-01-02T03:04:05+00:00", **more}
    return Evaluation(suite=suite, protocol=protocol, scores=scores, parts=parts or {}, **given)


def result(
    variant: str = "simcse",
    seed: int = 0,
    scores: Scores | None = None,
    *,
    parts: dict[str, Scores] | None = None,
    setting: str = "toy",
    encoder: str = "toy-bert",
    profile: str = "tiny",
    overrides: dict[str, Any] | None = None,
    data: str = "first",
    training: str = "first",
    finished: str = "2026-01-02T03:04:05+00:00",
    losses: dict[str, list[float | None]] | None = None,
    dev: Sequence[float] = (40.0, 60.0),
    **more: Any,
) -> Result:
    """A finished run. `data` distinguishes protocols, `training` distinguishes trainings of one label."""
    where = (profile, variant, setting, encoder, sorted((overrides or {}).items()), training)
    steps = [50 * (index + 1) for index in range(len(dev))]
    best = max(dev, default=None)
    scores = scores or {"sts": {"ToySTS": {"spearman": 70.0 + seed}, AVERAGE: {"spearman": 70.0 + seed}}}
    values: dict[str, Any] = {
        "spec": {
            "method": variant.partition("[")[0].partition("@")[0],
            **{"variant": variant, "setting": setting, "encoder": encoder, "seed": seed},
        },
        "profile": profile,
        "profile_origin": "package",
        "overrides": overrides or {},
        "fingerprint": fingerprint(*where, seed),
        "group": fingerprint(*where),
        "hyperparameters": {"method": {"temperature": 0.05}, "training": {"batch_size": 64, "learning_rate": 3e-05}},
        "teachers": {},
        "evaluations": [
            evaluation(suite, tasks, parts=(parts or {}).get(suite), data=data, finished=finished)
            for suite, tasks in scores.items()
        ],
        "dev": {
            **{"task": "ToySTS-dev", "metric": "spearman", "steps": steps, "scores": list(dev), "best_score": best},
            "best_step": steps[list(dev).index(best)] if best is not None else None,
        },
        "losses": {"steps": steps, "terms": {"text": [3.0, 2.0]} if losses is None else losses},
        "train_seconds": 12.1,
        "peak_memory_mb": 812.0,
        "hardware": {"device": "cpu", "processor": "some CPU", "cores": 2, "threads": 2},
        "packages": {"torch": "2.15.0", "numpy": "2.4.6"},
        "revision": None,
        "started": "2026-01-02T03:00:00+00:00",
        "finished": finished,
        "warnings": [],
    }
    return Result.model_validate(values | more)


def sts(**tasks: float) -> Scores:
    """Scores of the sts suite with their average."""
    scores = {task: {"spearman": value} for task, value in tasks.items()}
    return {"sts": {**scores, AVERAGE: {"spearman": sum(tasks.values()) / len(tasks)}}}


def frame(results: Sequence[Result]) -> pandas.DataFrame:
    return scores_frame(results)


def over_seeds(variant: str, values: Sequence[float], **given: Any) -> list[Result]:
    """One result for each value, on one task."""
    return [result(variant, seed, sts(ToySTS=value), **given) for seed, value in enumerate(values)]
