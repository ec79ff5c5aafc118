"""The encoders of runs to do, tried before anything is trained, unless the cache knows the answers."""

from __future__ import annotations

from dataclasses import replace

from harness.encoders.trial import TrialFindings, TrialKey
from harness.errors import UserError
from harness.planning.plan import LEFT_ALONE, Plan, PlannedRun, check_left


def with_tried_encoders(plan: Plan) -> Plan:
    """A plan without the runs to do whose encoder cannot be used: `refused` says why, and with
    what trials say of the others. Raises UserError if none is left.

    An encoder is tried as the runs read it; a missing one is not.
    """
    refused = dict(plan.refused)
    kept = list[PlannedRun]()
    remarks = list(plan.remarks)
    answers = dict[TrialKey, TrialFindings | UserError]()
    unusable = dict[str, UserError]()
    for run in plan.runs:
        try:
            if lost := next(
                (unusable[each.key] for each in run.experiment.teachers if each.key in unusable),
                None,
            ):
                raise lost
            if run.state not in LEFT_ALONE and not run.experiment.encoder.missing:
                findings = _check(run, answers)
                name = run.resolved.spec.encoder
                remarks += [f"encoder {name}: {line}" for line in findings.remarks]
        except UserError as error:
            unusable[run.key] = error
            refused[str(run.resolved.spec).rpartition("/")[0]] = str(error)
        else:
            kept.append(run)
    check_left(kept, plan.skipped, refused)
    return replace(plan, runs=tuple(kept), remarks=tuple(dict.fromkeys(remarks)), refused=refused)


def _check(run: PlannedRun, answers: dict[TrialKey, TrialFindings | UserError]) -> TrialFindings:
    """Look up or find what the trial of a run's encoder says. Raises UserError for one that cannot
    be used.
    """
    resolved = run.resolved
    source = run.experiment.encoder.source
    trains = resolved.trains
    key = TrialKey(
        source.path(),
        resolved.pooling,
        own_head=not trains,
        trusted=source.trusted and not trains,
        max_length=resolved.training.max_length if trains else 0,
        rates=resolved.dropout,
    )
    if key not in answers:
        try:
            answers[key] = key.known() or _tried(key)
        except UserError as error:
            answers[key] = error
    found = answers[key]
    if isinstance(found, UserError):
        raise found
    if trains and not found.views and max(key.rates) < 0:
        _check_views(run)
    return found


def _tried(key: TrialKey) -> TrialFindings:
    from harness.encoders.student import Student, open_model

    if key.own_head:
        return open_model(key.folder, key.pooling, trusted=key.trusted).found
    loaded = Student.load(
        key.folder, key.pooling, own_head=False, max_length=key.max_length, rates=key.rates
    )
    return loaded.found


def _check_views(run: PlannedRun) -> None:
    """Raise UserError if the method compares dropout views of a sentence, for an encoder without
    dropout.
    """
    from harness.method.samples import count_text_views

    resolved = run.resolved
    spec = run.resolved.spec
    if count_text_views(resolved.method, resolved.hyperparameters) < 2:
        return
    raise UserError(
        f"{spec.variant} compares two dropout views of a sentence, and the encoder {spec.encoder} has no dropout, so "
        "they are equal; give it one with --set dropout=0.1"
    )
