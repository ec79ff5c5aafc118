"""One run: its inputs loaded, its student trained, evaluated by suites, and its result saved."""

from __future__ import annotations

import socket

from harness.census import InputCensus
from harness.events import Event, listen_in, tell
from harness.planning.census import make_task_censuses, merge_censuses
from harness.planning.inventory import Inventory
from harness.planning.plan import PlannedRun
from harness.processors import measure_peak_memory_mb
from harness.runs.evaluate import evaluate, now
from harness.runs.execution import Seat, read_package_versions, read_revision
from harness.runs.inputs import find_teacher_folders, load_inputs
from harness.runs.log import RunLog
from harness.runs.train import Trained, train
from harness.store import (
    BACKEND_VERSION,
    DevCurve,
    EncoderTrial,
    Evaluation,
    LossCurves,
    Result,
    Store,
    TeacherUse,
)
from harness.store.folder import add_session, commit
from harness.store.logs import running_log
from harness.store.schema import GradientPoint, Session


def run_one(
    run: PlannedRun, inventory: Inventory, store: Store, seat: Seat, chunk: int | None = None
) -> Result:
    """Train and evaluate a run from wherever an earlier process stopped; save and return its
    result.

    The seat names the device. `chunk` rows of a batch are encoded at a time in training, all of
    them for None.

    Raises UserError for missing or wrong inputs, TrainingError where training cannot continue.
    """
    folder = store.work(run.fingerprint)
    session = Session(
        started=now(),
        host=socket.gethostname(),
        hardware=dict(seat.hardware(chunk)),
        packages=read_package_versions(),
        revision=read_revision(),
    )
    sessions = add_session(store, run.fingerprint, session)
    with RunLog(running_log(store, run.fingerprint), store.root) as log, listen_in(run.key, log):
        tell(Event("start", device=seat.device))
        inputs = load_inputs(run, inventory, seat, find_teacher_folders(run.experiment, store))
        trained = train(run.experiment, inputs, folder, chunk)
        scores = evaluate(run, inventory, inputs, trained, store)
        log.write("done")

    return commit(store, make_result(run, inventory, seat, trained, scores, sessions), log.path)


def make_result(
    run: PlannedRun,
    inventory: Inventory,
    seat: Seat,
    trained: Trained,
    scores: list[Evaluation],
    sessions: list[Session],
) -> Result:
    """The record of a finished run: its scores, and what made them in which sessions."""
    last = sessions[-1]
    resolved = run.resolved
    record = trained.record
    profile = inventory.profile
    teachers = {}
    for role, use in run.experiment.features.items():
        teachers[role] = TeacherUse(
            teacher=use.feature.teacher,
            of=use.feature.of,
            source=use.source,
            fitted_on=use.teacher.fit_in_words,
        )

    gradients = {}
    for stream, points in record.gradients.items():
        gradients[stream] = [
            GradientPoint(step=step, shares=shares, cosines=cosines)
            for step, shares, cosines in points
        ]

    hardware = dict(last.hardware)
    if record.compiled:
        hardware["compiled"] = True

    findings = {name: getattr(trained.student.found, name) for name in EncoderTrial.model_fields}
    return Result(
        backend=BACKEND_VERSION,
        spec=resolved.spec,
        profile=profile.name,
        profile_origin=profile.origin,
        overrides=dict(resolved.overrides),
        fingerprint=run.fingerprint,
        group=run.group,
        hyperparameters={
            "method": dict(resolved.hyperparameters.named()),
            "training": resolved.training.model_dump() if resolved.trains else {},
            "encoder": {"pooling": resolved.pooling},
        },
        teachers=teachers,
        evaluations=scores,
        dev=DevCurve(
            task=resolved.dev,
            metric="spearman",
            steps=record.dev_steps,
            scores=record.dev_scores,
            best_step=record.kept_step,
            best_score=record.kept_score,
        ),
        losses=LossCurves(steps=record.loss_steps, terms=record.losses),
        train_seconds=record.seconds,
        peak_memory_mb=measure_peak_memory_mb(seat.device),
        hardware=hardware,
        packages=last.packages,
        revision=last.revision,
        started=sessions[0].started,
        finished=now(),
        warnings=list(trained.warnings),
        identity=run.experiment.identity,
        gradients=gradients,
        budget=trained.budget,
        parameters=trained.parameters,
        mixing=trained.mixing,
        inputs=_collect_census(run, inventory),
        sessions=sessions,
        trial=EncoderTrial(**findings),
    )


def _collect_census(run: PlannedRun, inventory: Inventory) -> list[InputCensus]:
    """The census of the inputs of a run's training and of its tests."""
    experiment = run.experiment
    tests = make_task_censuses(inventory, run.todo, experiment.named_encoder)
    return merge_censuses([*experiment.census, *tests])
