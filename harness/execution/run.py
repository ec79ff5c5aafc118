"""One run: train or load its student, evaluate suite by suite, save the result."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from harness.evaluation.suites import SuiteScores
from harness.execution.embedding import CachedEmbedding, HeadSpace, RunEmbedder, TeacherSpace
from harness.execution.environment import Machine, package_versions, revision
from harness.execution.events import Event, Listener
from harness.execution.log import RunLog
from harness.execution.plan import PlannedRun
from harness.execution.sources import Sources
from harness.execution.trained import Bench, Trained, teaching_of, trained
from harness.sources import read_arrays, write_arrays, write_text
from harness.store import SCHEMA_VERSION, DevCurve, LossCurves, Protocol, Result, Spec, Store, Timings
from harness.training.trainer import Record


def run_one(run: PlannedRun, sources: Sources, store: Store, machine: Machine, listen: Listener) -> Result:
    """Train and evaluate a run from wherever an earlier process stopped; save and return its result.

    Raises UserError for missing or wrong inputs, TrainingError where training cannot continue.
    """
    torch.set_num_threads(machine.threads)
    started = datetime.now(UTC)
    with RunLog(log_file(store, run), run.key) as log:

        def report(event: Event) -> None:
            log(event)
            listen(event)

        report(Event("start", run.key, device=machine.device))
        bench = Bench(sources, store, machine.device, report)
        found = trained(run.resolved, bench)
        outcome = _evaluated(run, found, bench)
        result = _result(run, sources, machine, found.record, started, outcome)
        done = Event("done", run.key, result=result)
        log(done)
    # before the result: a run that counts as done has its arrays and its log
    store.save_arrays(result, outcome.arrays)
    store.save_log(result, log.text())
    store.save(result)
    log.path.unlink()
    listen(done)
    return result


def log_file(store: Store, run: PlannedRun) -> Path:
    """The log of a run in progress; it is moved beside the result at the end."""
    return store.work(run.training_fingerprint) / f"run-{run.fingerprint[:12]}.log"


@dataclass
class Outcome:
    """Scores, protocols and seconds by suite, and the warnings and arrays of all suites."""

    scores: dict[str, dict[str, dict[str, float]]]
    protocols: dict[str, Protocol]
    seconds: dict[str, float]
    warnings: list[str]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def _evaluated(run: PlannedRun, found: Trained, bench: Bench) -> Outcome:
    """Evaluate the suites that are due; each is saved as it ends, so a killed run does not repeat it."""
    sources, folder = bench.sources, bench.store.work(run.training_fingerprint)
    embedders = _embedders(run, found, bench)
    outcome = Outcome({}, {}, {}, list(found.warnings))
    for name in run.todo:
        suite = sources.suites[name]
        part = folder / f"scores-{run.fingerprint[:12]}-{name}.json"
        if part.is_file():
            saved = json.loads(part.read_text())
        else:
            bench.listen(Event("suite", run.key, suite=name))
            clock = time.perf_counter()
            evaluation = suite.evaluate(embedders[suite.remembers], sources.root)
            took = time.perf_counter() - clock
            saved = {"scores": _flat_scores(evaluation), "warnings": evaluation.warnings, "seconds": took}
            if evaluation.arrays:
                write_arrays(part.with_suffix(".npz"), _flat_arrays(evaluation))
            write_text(part, json.dumps(saved, allow_nan=False))
            bench.listen(Event("evaluated", run.key, suite=name, seconds=took))
        outcome.scores[name], outcome.seconds[name] = saved["scores"], saved["seconds"]
        outcome.warnings += saved["warnings"]
        if part.with_suffix(".npz").is_file():
            outcome.arrays.update(read_arrays(part.with_suffix(".npz")))
        outcome.protocols[name] = Protocol(version=suite.version, data=sources.protocols[name])
    return outcome


def _embedders(run: PlannedRun, found: Trained, bench: Bench) -> dict[bool, RunEmbedder]:
    """The run's embedder, by whether it caches vectors; suites of millions of texts use the other one."""
    heads = found.method.shared_space() if found.method is not None else None
    keep = bench.store.work(run.training_fingerprint)
    embedders = {}
    for caches in (True, False):
        embed = CachedEmbedding(found.student.embed) if caches else found.student.embed
        shared = teacher = None
        if heads is not None:
            contents, teaching = bench.sources.retrieval_content, teaching_of(run.resolved, bench, {})
            shared, teacher = HeadSpace(embed, heads, teaching, contents), TeacherSpace(teaching, contents)
        embedders[caches] = RunEmbedder(found.student, embed, keep, shared, teacher)
    return embedders


def _flat_scores(found: SuiteScores) -> dict[str, dict[str, float]]:
    """Scores as schema 1 keeps them: a part's metric is METRIC[PART] among those of its task."""
    flat = {task: dict(values) for task, values in found.scores.items()}
    for task, parts in found.parts.items():
        for part, values in parts.items():
            flat[task] |= {f"{metric}[{part}]": value for metric, value in values.items()}
    return flat


def _flat_arrays(found: SuiteScores) -> dict[str, np.ndarray]:
    """Arrays by TASK.WHAT or TASK.WHAT[SPACE], as schema 1 names them."""
    return {
        f"{name.task}.{name.what}" + (f"[{name.space}]" if name.space else ""): values
        for name, values in found.arrays.items()
    }


def _result(
    run: PlannedRun, sources: Sources, machine: Machine, record: Record, started: datetime, outcome: Outcome
) -> Result:
    resolved = run.resolved
    seconds = outcome.seconds
    return Result(
        schema_version=SCHEMA_VERSION,
        spec=spec_record(run),
        profile=sources.profile.name,
        overrides=dict(resolved.overrides),
        fingerprint=run.fingerprint,
        group=run.group,
        training_fingerprint=run.training_fingerprint,
        hyperparameters={
            "method": resolved.hyperparameters.named(),
            "training": resolved.training.model_dump() if resolved.method.trains else {},
            "teachers": {
                role: f"{wanted.teacher} ({wanted.of})"
                for role, wanted in (resolved.features(sources.profile) if resolved.method.trains else {}).items()
            },
            "encoder": {"pooling": resolved.method.pooling(resolved.hyperparameters)},
        },
        scores=outcome.scores,
        protocols=outcome.protocols,
        dev=DevCurve(
            task=sources.profile.dev_of(resolved.spec.setting.name),
            metric="spearman",
            steps=record.dev_steps,
            scores=record.dev_scores,
            best_step=record.best_step,
            best_score=record.best,
        ),
        losses=LossCurves(steps=record.loss_steps, terms=record.losses),
        timings=Timings(train_s=record.seconds, evaluate_s=seconds, total_s=record.seconds + sum(seconds.values())),
        peak_memory_mb=machine.peak_memory_mb(),
        hardware=dict(machine.hardware()),
        packages=package_versions(),
        revision=revision(),
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        warnings=outcome.warnings,
    )


def spec_record(run: PlannedRun) -> Spec:
    """A run's spec as result files and failures hold it."""
    spec = run.resolved.spec
    return Spec(
        method=spec.variant.name,
        variant=str(spec.variant),
        setting=str(spec.setting),
        encoder=spec.encoder,
        seed=spec.seed,
    )
