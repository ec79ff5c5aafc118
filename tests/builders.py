"""Real result records without training, for tests of what is made of results."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.files import add_seal, remove_seal
from harness.metrics import AVERAGE, SEEN, UNSEEN, Metric
from harness.registry import get, list_registered
from harness.reporting.csvfiles import CsvFields, write_tidy
from harness.reporting.seeds.summary import SummaryTable, make_summary_tables
from harness.sources import digest
from harness.spec import RunSpec, Variant, parse_setting
from harness.store import (
    BACKEND_VERSION,
    DevCurve,
    Evaluation,
    Failure,
    LossCurves,
    Protocol,
    Result,
    TeacherUse,
    metrics_of,
)

#: suite -> task -> metric -> value
Scores = dict[str, dict[str, dict[str, float]]]
#: task -> (seen pairs, their score, unseen pairs, their score); None for too few pairs
Split = Mapping[str, tuple[float, float | None, float, float | None]]


def _metrics(suite: str) -> tuple[Metric, ...]:
    """The metrics of an installed suite; none for an unknown one."""
    return tuple(get("suite", suite).metrics) if suite in list_registered("suite") else ()


def tables(results: Sequence[Result]) -> list[SummaryTable]:
    """The summary tables of results, by the metrics that their suites declare."""
    return make_summary_tables(results, metrics_of(results))


def error_tables(settings: Sequence[str] = ("toy",), **errors: float) -> list[SummaryTable]:
    """The tables of a suite whose only metric is an error: three seeds of each variant around a
    value.
    """
    scores = {
        name: [{"error": value + seed / 1000} for seed in range(3)]
        for name, value in errors.items()
    }
    results = [
        result(name, seed, {"probing": {"D": score, "Avg": score}}, setting=setting)
        for setting in settings
        for name, some in scores.items()
        for seed, score in enumerate(some)
    ]
    return make_summary_tables(
        results, {"probing": {"error": Metric("error", larger_is_better=False, digits=3)}}
    )


def result(
    variant: str = "simcse",
    seed: int = 0,
    scores: Scores | None = None,
    *,
    parts: Mapping[str, dict[str, dict[str, dict[str, float]]]] | None = None,
    setting: str = "toy",
    encoder: str = "toy-bert",
    profile: str = "tiny",
    overrides: dict[str, Any] | None = None,
    data: str = "first",
    finished: str = "2026-01-02T03:04:05+00:00",
    losses: dict[str, list[float | None]] | None = None,
    dev: Sequence[float] = (40.0, 60.0),
    version: int = 1,
    **changes: Any,
) -> Result:
    """One result; `data` stands for all that changes a training, `parts` are suite -> task -> part
    -> metric.

    `version` is that of the suites' protocols.
    """
    where = (profile, variant, setting, encoder, sorted((overrides or {}).items()), data)
    steps = [50 * (index + 1) for index in range(len(dev))]
    best = max(dev, default=None)
    best_step = None if best is None else steps[list(dev).index(best)]
    given = scores or {
        "sts": {"ToySTS": {"spearman": 70.0 + seed}, "Avg": {"spearman": 70.0 + seed}}
    }
    values: dict[str, Any] = {
        "backend": BACKEND_VERSION,
        "spec": RunSpec(Variant.parse(variant), parse_setting(setting), encoder, seed),
        "profile": profile,
        "profile_origin": "package",
        "overrides": overrides or {},
        "fingerprint": digest(*where, seed),
        "group": digest(*where),
        "hyperparameters": {
            "method": {"temperature": 0.05},
            "training": {"batch_size": 64, "learning_rate": 3e-05},
            "encoder": {"pooling": "cls"},
        },
        "teachers": {"image": TeacherUse(teacher="toy-clip", of="image")}
        if variant.startswith("mcse")
        else {},
        "evaluations": [
            Evaluation(
                suite=suite,
                protocol=Protocol(version=version, data="d" * 64, metrics=_metrics(suite)),
                scores=tasks,
                parts=(parts or {}).get(suite, {}),
                seconds=0.4,
                finished=finished,
            )
            for suite, tasks in given.items()
        ],
        "dev": DevCurve(
            task="ToySTS-dev",
            metric="spearman",
            steps=steps,
            scores=list(dev),
            best_step=best_step,
            best_score=best,
        ),
        "losses": LossCurves(steps=steps, terms={"text": [3.0, 2.0]} if losses is None else losses),
        "train_seconds": 12.1,
        "peak_memory_mb": 812.0,
        "hardware": {"device": "cpu", "processor": "some CPU", "cores": 2, "threads": 2},
        "packages": {"torch": "2.15.0", "numpy": "2.4.6"},
        "revision": None,
        "started": "2026-01-02T03:00:00+00:00",
        "finished": finished,
        "warnings": [],
    }
    return Result.model_validate(values | changes)


def rewrite(path: Path, change: Callable[[dict[str, Any]], object] = len, **values: object) -> None:
    """Change a record's content, and seal it as if it had been written so."""
    content = json.loads(remove_seal(path.read_bytes()))
    change(content)
    path.write_text(add_seal(json.dumps(content | values)))


def failure(of: Result, error: str = "out of memory") -> Failure:
    """The record of a failure of a result's run."""
    return Failure(
        spec=of.spec,
        profile=of.profile,
        fingerprint=of.fingerprint,
        error=error,
        traceback="",
        when="now",
    )


def sts(**tasks: float) -> Scores:
    """Scores of the sts suite; the average is added."""
    scores = {task: {"spearman": value} for task, value in tasks.items()}
    return {"sts": {**scores, "Avg": {"spearman": sum(tasks.values()) / len(tasks)}}}


def over_seeds(variant: str, values: Sequence[float], **given: Any) -> list[Result]:
    """One result a value, on one task."""
    return [result(variant, seed, sts(ToySTS=value), **given) for seed, value in enumerate(values)]


def split(variant: str, seed: int, tasks: Split, **more: Any) -> Result:
    """One result with parts, and their averages as the suite makes them."""
    parts: dict[str, dict[str, dict[str, float]]] = {}
    for task, (seen, seen_score, unseen, unseen_score) in tasks.items():
        parts[task] = {UNSEEN: _part(unseen, unseen_score), SEEN: _part(seen, seen_score)}
    parts[AVERAGE] = {}
    for part in (UNSEEN, SEEN):
        rows = [measured[part] for task, measured in parts.items() if task != AVERAGE]
        scores = [row["spearman"] for row in rows if "spearman" in row]
        mean = sum(scores) / len(rows) if len(scores) == len(rows) else None
        parts[AVERAGE][part] = _part(sum(row["n"] for row in rows), mean)
    return result(variant, seed, sts(**dict.fromkeys(tasks, 70.0)), parts={"sts": parts}, **more)


def _part(pairs: float, score: float | None) -> dict[str, float]:
    return {"n": pairs} if score is None else {"spearman": score, "n": pairs}


def tidy(rows: Iterable[CsvFields]) -> str:
    """The text of tables.csv."""
    stream = io.StringIO()
    write_tidy(rows, stream)
    return stream.getvalue()
