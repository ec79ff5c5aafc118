"""One run: RunSpec -> result. Train or resume, evaluate suite by suite, hand over the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from harness.evaluation.suites import SuiteScores
from harness.execution import events
from harness.execution.embedding import Forgetful, Model, SharedSpace, TeacherSpace
from harness.execution.environment import hardware, package_versions, peak_memory_mb, revision
from harness.execution.inventory import Inventory
from harness.execution.plan import PlannedRun
from harness.execution.run_log import RunLog
from harness.execution.train import Bench, Trained, run_features, train
from harness.sources import write_text
from harness.store import DevCurve, Evaluation, LossCurves, Protocol, Result, Spec, Store, TeacherUse
from harness.store.arrays import read_named_arrays, write_named_arrays
from harness.training.trainer import Progress


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


def run_one(run: PlannedRun, inventory: Inventory, context: Context, report: Report) -> Result:
    """Carry one run from wherever it stands to a saved result, and return it.

    Raises UserError for what a person can mend, TrainingError where training cannot go on.
    """
    torch.set_num_threads(context.threads)
    report(Event("start", run.key))
    started = datetime.now(UTC)
    store = Store(context.store)
    with RunLog(log_file(store, run), run.key) as log:

        def listen(event: events.Event) -> None:
            log.hear(event.run, event.progress, _text(event))
            report(_event(event.run, event.progress, _text(event)))

        log.write(f"start {run.key} on {context.device}")
        bench = Bench(store, context.device, listen)
        found = train(run.experiment, bench)
        evaluations = _evaluated(run, inventory, found, bench, report, log)
        result = _result(run, inventory, context, found, started, evaluations)
        log.write("done")
    # arrays and log before the result: what counts as done is complete
    for evaluation in evaluations:
        arrays = _saved_scores(store, run, evaluation.suite, evaluation.protocol).with_suffix(".npz")
        if arrays.is_file():
            store.save_arrays(result, evaluation, read_named_arrays(arrays))
    store.save_log(result, log.text())
    result = store.save(result)
    log.path.unlink()
    report(Event("done", run.key, result=result))
    return result


def log_file(store: Store, run: PlannedRun) -> Path:
    """Where a run's log grows until it lies beside its result."""
    return store.work(run.fingerprint) / "run.log"


def _saved_scores(store: Store, run: PlannedRun, suite: str, protocol: Protocol) -> Path:
    """Where one evaluation is kept until the run ends, its arrays beside it."""
    return store.work(run.fingerprint) / f"scores-{suite}-{protocol.key}.json"


def _event(key: str, progress: Progress | None, text: str) -> Event:
    return Event("teaching", key, text=text) if progress is None else Event("progress", key, progress=progress)


def _text(event: events.Event) -> str:
    made = event.preparation
    if made is None:
        return ""
    return (
        f"{made.subject}: {made.done} sentences tokenised"
        if made.what == "tokens"
        else f"{made.subject} {made.done}/{made.total}"
    )


def _evaluated(
    run: PlannedRun, inventory: Inventory, found: Trained, bench: Bench, report: Report, log: RunLog
) -> list[Evaluation]:
    """Evaluate the suites to do; each is saved as it ends, so that a killed run does not repeat it."""
    folder = bench.store.work(run.fingerprint)
    models = {True: Model(found.student, folder), False: Forgetful(found.student, folder)}
    for model in models.values():
        _give_spaces(model, run, inventory, found, bench)
    evaluations = []
    for name in run.todo:
        suite, protocol = inventory.suites[name], inventory.protocol(name)
        saved = _saved_scores(bench.store, run, name, protocol)
        if not saved.is_file():
            report(Event("suite", run.key, suite=name))
            log.write(f"suite {name} begins")
            clock = time.perf_counter()
            scored: SuiteScores = suite.evaluate(models[suite.remembers], inventory.root)
            evaluation = Evaluation(
                suite=name,
                protocol=protocol,
                scores=scored.scores,
                parts=scored.parts,
                seconds=time.perf_counter() - clock,
                warnings=scored.warnings,
                finished=_now(),
            )
            if scored.arrays:
                write_named_arrays(saved.with_suffix(".npz"), scored.arrays)
            write_text(saved, evaluation.model_dump_json())
            log.write(f"suite {name} ends after {evaluation.seconds:.1f} s")
        evaluations.append(Evaluation.model_validate_json(saved.read_bytes()))
    return evaluations


def _give_spaces(model: Model, run: PlannedRun, inventory: Inventory, found: Trained, bench: Bench) -> None:
    """Give a model the space that its method's heads share between sentences and images, and its teacher's."""
    heads = found.method.shared_space() if found.method is not None else None
    if heads is not None:
        contents, teaching = inventory.retrieval_content, run_features(run.experiment, bench)
        model.shared, model.teacher = SharedSpace(model, heads, teaching, contents), TeacherSpace(teaching, contents)


def _result(
    run: PlannedRun,
    inventory: Inventory,
    context: Context,
    found: Trained,
    started: datetime,
    evaluations: list[Evaluation],
) -> Result:
    resolved, record = run.resolved, found.record
    features = run.experiment.ingredients.features
    return Result(
        spec=Spec.of(resolved.spec),
        profile=inventory.profile.name,
        profile_origin=inventory.profile.origin,
        overrides=dict(resolved.overrides),
        fingerprint=run.fingerprint,
        group=run.group,
        hyperparameters={
            "method": resolved.hyperparameters.named(),
            "training": resolved.training.model_dump() if resolved.method.trains else {},
            "encoder": {"pooling": resolved.pooling},
        },
        teachers={role: TeacherUse(teacher=used.asked.teacher, of=used.asked.of) for role, used in features.items()},
        evaluations=evaluations,
        dev=DevCurve(
            task=resolved.dev,
            metric="spearman",
            steps=record.dev_steps,
            scores=record.dev_scores,
            best_step=record.best_step,
            best_score=record.best,
        ),
        losses=LossCurves(steps=record.loss_steps, terms=record.losses),
        train_seconds=record.seconds,
        peak_memory_mb=peak_memory_mb(context.device),
        hardware=hardware(context.device, context.threads),
        packages=package_versions(),
        revision=revision(),
        started=started.isoformat(timespec="seconds"),
        finished=_now(),
        warnings=list(found.warnings),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
