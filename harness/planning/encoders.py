"""The encoders of runs to do, tried before anything is trained, unless the cache knows the answers."""

from __future__ import annotations

import json
from collections.abc import Iterable

from harness.encoders.modules import transformer_folder
from harness.encoders.trial import Findings, TrialKey
from harness.errors import UserError
from harness.files import read_regular
from harness.planning.plan import PlannedRun


def check_encoders(runs: Iterable[PlannedRun]) -> None:
    """Try each encoder as the runs read it, unless it is missing. Raises UserError for one that cannot be used."""
    answers: dict[TrialKey, Findings] = {}
    for run in runs:
        resolved, encoder = run.resolved, run.experiment.encoder
        if encoder.missing:
            continue
        trains, source = resolved.trains, encoder.source
        key = TrialKey(
            source.path(),
            resolved.pooling,
            own_head=not trains,
            trusted=source.trusted and not trains,
            max_length=resolved.training.max_length if trains else 0,
        )
        if key not in answers:
            answers[key] = key.known() or _tried(key)
        if trains and not answers[key].views:
            _check_views(run, key)


def _tried(key: TrialKey) -> Findings:
    from harness.encoders.student import Student, open_model

    if key.own_head:
        return open_model(key.folder, key.pooling, trusted=key.trusted).found
    return Student.load(key.folder, key.pooling, own_head=False, max_length=key.max_length).found


def _check_views(run: PlannedRun, key: TrialKey) -> None:
    """Raise UserError if the method compares dropout views of a sentence, for an encoder without dropout."""
    from harness.method.conformance import text_views

    resolved, spec = run.resolved, run.resolved.spec
    if text_views(resolved.method, resolved.hyperparameters) < 2:
        return
    file = transformer_folder(key.folder) / "config.json"
    keys = [key for key in json.loads(read_regular(file)) if "drop" in key and "classifier" not in key]
    raise UserError(
        f"{spec.variant} compares two dropout views of a sentence, and the encoder {spec.encoder} has no dropout, so "
        f"they are equal; set {' and '.join(keys) or 'its dropout'} to 0.1 in a copy of {file}"
    )
