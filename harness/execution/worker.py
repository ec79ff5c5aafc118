"""One run: RunSpec -> result. Train or resume, evaluate suite by suite, hand over the result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from harness.evaluation.suites import SuiteScores
from harness.execution.embedding import Forgetful, Model, SharedSpace, TeacherSpace
from harness.execution.environment import hardware, package_versions, peak_memory_mb, revision
from harness.execution.plan import PlannedRun
from harness.execution.run_log import RunLog
from harness.execution.sources import Sources
from harness.execution.trained import Bench, Trained, teaching_of, trained
from harness.sources import read_arrays, write_arrays, write_text
from harness.store import SCHEMA_VERSION, DevCurve, LossCurves, Protocol, Result, Spec, Store, Timings
from harness.training.trainer import Progress, Record


@dataclass(frozen=True)
class Context:
    """Where and how a run happens; nothing in it changes a number that is kept."""

    store: Path
    device: str
    threads: int


@dataclass(frozen=True)
class Event:
    """What a run reports while it goes: 'start', 'teaching', 'progress', 'suite', 'done' or 'failed'."""

    kind: str
    key: str
    progress: Progress | None = None
    suite: str = ""
    text: str = ""
    result: Result | None = None


Report = Callable[[Event], None]


def run_one(run: PlannedRun, sources: Sources, context: Context, report: Report) -> Result:
    """Carry one run from wherever it stands to a saved result, and return it.

    Raises UserError for what a person can mend, TrainingError where training cannot go on.
    """
    torch.set_num_threads(context.threads)
    report(Event("start", run.key))
    started = datetime.now(UTC)
    store = Store(context.store)
    with RunLog(log_file(store, run), run.key) as log:

        def tell(key: str, progress: Progress | None, text: str) -> None:
            log.hear(key, progress, text)
            report(_event(key, progress, text))

        log.write(f"start {run.key} on {context.device}")
        bench = Bench(sources, store, context.device, tell)
        found = trained(run.resolved, bench)
        outcome = _evaluated(run, found, bench, report, log)
        result = _result(run, sources, context, found.record, started, outcome)
        log.write("done")
    # before the result: a run that counts as done has its arrays and its log
    store.save_arrays(result, outcome.arrays)
    store.save_log(result, log.text())
    store.save(result)
    log.path.unlink()
    report(Event("done", run.key, result=result))
    return result


def log_file(store: Store, run: PlannedRun) -> Path:
    """Where a run's log grows until it lies beside its result."""
    return store.work(run.training_fingerprint) / f"run-{run.fingerprint[:12]}.log"


def _event(key: str, progress: Progress | None, text: str) -> Event:
    return Event("teaching", key, text=text) if progress is None else Event("progress", key, progress=progress)


@dataclass
class Outcome:
    """Scores, protocols and seconds by suite, and the warnings and arrays of all suites."""

    scores: dict[str, dict[str, dict[str, float]]]
    protocols: dict[str, Protocol]
    seconds: dict[str, float]
    warnings: list[str]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def _evaluated(run: PlannedRun, found: Trained, bench: Bench, report: Report, log: RunLog) -> Outcome:
    """Evaluate the suites that are due; each is saved as it ends, so a killed run does not repeat it."""
    sources, folder = bench.sources, bench.store.work(run.training_fingerprint)
    models = {True: Model(found.student, folder), False: Forgetful(found.student, folder)}
    for model in models.values():
        _give_spaces(model, run, found, bench)
    outcome = Outcome({}, {}, {}, list(found.warnings))
    for name in run.todo:
        suite = sources.suites[name]
        part = folder / f"scores-{run.fingerprint[:12]}-{name}.json"
        if part.is_file():
            saved = json.loads(part.read_text())
        else:
            report(Event("suite", run.key, suite=name))
            log.write(f"suite {name} begins")
            clock = time.perf_counter()
            evaluation = suite.evaluate(models[suite.remembers], sources.root)
            took = time.perf_counter() - clock
            saved = {"scores": _flat_scores(evaluation), "warnings": evaluation.warnings, "seconds": took}
            if evaluation.arrays:
                write_arrays(part.with_suffix(".npz"), _flat_arrays(evaluation))
            write_text(part, json.dumps(saved, allow_nan=False))
            log.write(f"suite {name} ends after {took:.1f} s")
        outcome.scores[name], outcome.seconds[name] = saved["scores"], saved["seconds"]
        outcome.warnings += saved["warnings"]
        if part.with_suffix(".npz").is_file():
            outcome.arrays.update(read_arrays(part.with_suffix(".npz")))
        outcome.protocols[name] = Protocol(version=suite.version, data=sources.protocols[name])
    return outcome


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


def _give_spaces(model: Model, run: PlannedRun, found: Trained, bench: Bench) -> None:
    """Give a model the space that its method's heads share between sentences and images, and its teacher's."""
    heads = found.method.shared_space() if found.method is not None else None
    if heads is not None:
        contents, teaching = bench.sources.retrieval_content, teaching_of(run.resolved, bench, {})
        model.shared, model.teacher = SharedSpace(model, heads, teaching, contents), TeacherSpace(teaching, contents)


def _result(
    run: PlannedRun, sources: Sources, context: Context, record: Record, started: datetime, outcome: Outcome
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
        peak_memory_mb=peak_memory_mb(context.device),
        hardware=hardware(context.device, context.threads),
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
