"""One run: train or load its student, evaluate suite by suite, save the result."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from harness.evaluation.suites import SuiteScores
from harness.execution.embedding import CachedEmbedding, HeadSpace, RunEmbedder, TeacherSpace
from harness.execution.environment import Machine, package_versions, revision
from harness.execution.events import Event, Listener
from harness.execution.log import RunLog
from harness.execution.plan import PlannedRun
from harness.execution.sources import Sources
from harness.execution.trained import Bench, Trained, teaching_of, trained
from harness.profiles import shipped_profiles
from harness.sources import write_text
from harness.store import DevCurve, Evaluation, LossCurves, Protocol, Result, Store, TeacherUse
from harness.store.arrays import read_named_arrays, write_named_arrays


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
        evaluations = _evaluated(run, found, bench)
        result = _result(run, sources, machine, found, started, evaluations)
        log(Event("done", run.key, result=result))
    # arrays and log before the result: a run that counts as done is complete
    for evaluation in evaluations:
        arrays = _evaluation_file(store, run, evaluation.suite, evaluation.protocol).with_suffix(".npz")
        if arrays.is_file():
            store.save_arrays(result, evaluation, read_named_arrays(arrays))
    store.save_log(result, log.text())
    result = store.save(result)
    log.path.unlink()
    listen(Event("done", run.key, result=result))
    return result


def log_file(store: Store, run: PlannedRun) -> Path:
    """The log of a run in progress; it is moved beside the result at the end."""
    return store.work(run.fingerprint) / "run.log"


def _evaluation_file(store: Store, run: PlannedRun, suite: str, protocol: Protocol) -> Path:
    """An evaluation of a run in progress, its arrays beside it."""
    return store.work(run.fingerprint) / f"scores-{suite}-{protocol.key}.json"


def _evaluated(run: PlannedRun, found: Trained, bench: Bench) -> list[Evaluation]:
    """Evaluate the suites that are due; each is saved as it ends, so a killed run does not repeat it."""
    sources = bench.sources
    embedders = _embedders(run, found, bench)
    evaluations = []
    for name in run.todo:
        suite, protocol = sources.suites[name], sources.protocol(name)
        saved = _evaluation_file(bench.store, run, name, protocol)
        if not saved.is_file():
            bench.listen(Event("suite", run.key, suite=name))
            clock = time.perf_counter()
            scored: SuiteScores = suite.evaluate(embedders[suite.remembers], sources.root)
            seconds = time.perf_counter() - clock
            if scored.arrays:
                write_named_arrays(saved.with_suffix(".npz"), scored.arrays)
            evaluation = Evaluation(
                suite=name,
                protocol=protocol,
                scores=scored.scores,
                parts=scored.parts,
                seconds=seconds,
                warnings=scored.warnings,
                finished=_now(),
            )
            write_text(saved, evaluation.model_dump_json())
            bench.listen(Event("evaluated", run.key, suite=name, seconds=seconds))
        evaluations.append(Evaluation.model_validate_json(saved.read_bytes()))
    return evaluations


def _embedders(run: PlannedRun, found: Trained, bench: Bench) -> dict[bool, RunEmbedder]:
    """The run's embedder, by whether it caches vectors; suites of millions of texts use the other one."""
    heads = found.method.shared_space() if found.method is not None else None
    keep = bench.store.work(run.fingerprint)
    embedders = {}
    for caches in (True, False):
        embed = CachedEmbedding(found.student.embed) if caches else found.student.embed
        shared = teacher = None
        if heads is not None:
            contents, teaching = bench.sources.retrieval_content, teaching_of(run.resolved, bench, {})
            shared, teacher = HeadSpace(embed, heads, teaching, contents), TeacherSpace(teaching, contents)
        embedders[caches] = RunEmbedder(found.student, embed, keep, shared, teacher)
    return embedders


def _result(
    run: PlannedRun,
    sources: Sources,
    machine: Machine,
    found: Trained,
    started: datetime,
    evaluations: list[Evaluation],
) -> Result:
    resolved, record = run.resolved, found.record
    features = resolved.features(sources.profile) if resolved.method.trains else {}
    return Result(
        spec=run.spec,
        profile=sources.profile.name,
        profile_origin="package" if sources.profile.name in shipped_profiles() else "file",
        overrides=dict(resolved.overrides),
        fingerprint=run.fingerprint,
        group=run.group,
        hyperparameters={
            "method": resolved.hyperparameters.named(),
            "training": resolved.training.model_dump() if resolved.method.trains else {},
            "encoder": {"pooling": resolved.method.pooling(resolved.hyperparameters)},
        },
        teachers={role: TeacherUse(teacher=wanted.teacher, of=wanted.of) for role, wanted in features.items()},
        evaluations=evaluations,
        dev=DevCurve(
            task=sources.profile.dev_of(resolved.spec.setting.name),
            metric="spearman",
            steps=record.dev_steps,
            scores=record.dev_scores,
            best_step=record.best_step,
            best_score=record.best,
        ),
        losses=LossCurves(steps=record.loss_steps, terms=record.losses),
        train_seconds=record.seconds,
        peak_memory_mb=machine.peak_memory_mb(),
        hardware=dict(machine.hardware()),
        packages=package_versions(),
        revision=revision(),
        started=started.isoformat(timespec="seconds"),
        finished=_now(),
        warnings=list(found.warnings),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
