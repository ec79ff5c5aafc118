"""The encoders of runs to do, tried before anything is trained, unless the cache knows the answers."""

from __future__ import annotations

from dataclasses import replace

from harness.encoders.adapters import check_peft
from harness.encoders.trial import TrialFindings, TrialKey
from harness.errors import UserError
from harness.planning.plan import LEFT_ALONE, Plan, PlannedRun, check_left


def try_encoders(plan: Plan) -> Plan:
    """A plan without the runs to do whose encoder cannot be used: `refused` says why, and with
    what trials say of the others. Raises UserError if none is left.

    An encoder is tried as the runs read it; a missing one is not.
    """
    refused = dict(plan.refused)
    remarks = list(plan.remarks)
    usable = list[PlannedRun]()
    unusable = dict[str, UserError]()
    answers = dict[TrialKey, TrialFindings | UserError]()
    for run in plan.runs:
        try:
            for teacher in run.experiment.teachers:
                if teacher.key in unusable:
                    raise unusable[teacher.key]

            if run.state not in LEFT_ALONE and not run.experiment.encoder.missing:
                findings = _check_encoder(run, answers)
                name = run.resolved.spec.encoder
                remarks += [f"encoder {name}: {line}" for line in findings.remarks]
        except UserError as error:
            unusable[run.key] = error
            refused[run.experiment.key_without_seed] = str(error)
        else:
            usable.append(run)

    check_left(usable, plan.skipped, refused)
    return replace(plan, runs=tuple(usable), remarks=tuple(dict.fromkeys(remarks)), refused=refused)


def _check_encoder(
    run: PlannedRun, answers: dict[TrialKey, TrialFindings | UserError]
) -> TrialFindings:
    """Look up or find what the trial of a run's encoder says. Raises UserError for one that cannot
    be used.
    """
    resolved = run.resolved
    source = run.experiment.encoder.source
    trains = resolved.trains
    if trains and resolved.identity.get("lora_rank"):
        check_peft()
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
            answers[key] = key.get_known() or _try_encoder(key)
        except UserError as error:
            answers[key] = error

    answer = answers[key]
    if isinstance(answer, UserError):
        raise answer
    if trains and not answer.views and max(key.rates) < 0:
        _check_views(run)
    return answer


def _try_encoder(key: TrialKey) -> TrialFindings:
    from harness.encoders.sentence_modules import open_model
    from harness.encoders.student import Student

    if key.own_head:
        return open_model(key.folder, key.pooling, trusted=key.trusted).found
    student = Student.load(
        key.folder, key.pooling, own_head=False, max_length=key.max_length, rates=key.rates
    )
    return student.found


def _check_views(run: PlannedRun) -> None:
    """Raise UserError if the method compares dropout views of a sentence, for an encoder without
    dropout.
    """
    from harness.method.samples import count_text_views

    resolved = run.resolved
    spec = resolved.spec
    if count_text_views(resolved.method, resolved.hyperparameters) >= 2:
        raise UserError(
            f"{spec.variant} compares two dropout views of a sentence, and the encoder {spec.encoder} has no dropout, "
            "so they are equal; give it one with --set dropout=0.1"
        )
