"""All scores of results as one tidy table, and what their metrics mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from harness.metrics import Metric, Metrics
from harness.store.schema import Evaluation, Result

if TYPE_CHECKING:
    import pandas

#: column of `frame_of` -> what it holds
FRAME_COLUMNS: Mapping[str, str] = {
    "profile": "profile of the run",
    "profile_origin": "'package' for a shipped profile, 'file' for a user's own, 'unknown' before schema 2",
    "method": "name of the method",
    "variant": "method with its reading and options",
    "setting": "training setting; 'none' for an untrained encoder",
    "encoder": "name of the encoder",
    "seed": "seed of the run",
    "overrides": "values set with --set, as key=value,key=value in order of keys; empty without any",
    "training": "values of the training, as key=value,key=value; empty for an untrained encoder",
    "fingerprint": "identity of the training, 64 hex digits",
    "group": "identity of the training without its seed",
    "suite": "evaluation suite",
    "protocol": "identity of the suite's version, options and data, 12 hex digits",
    "task": "task of the suite; 'Avg' for the plain mean over its tasks",
    "part": "subset of the task; empty for the whole task",
    "metric": "name of the metric",
    "value": "the score; correlations are x 100",
    "finished": "when the suite was evaluated, ISO 8601 in UTC",
    "dev": "best dev score of the run; missing for an untrained encoder",
    "minutes": "training time in minutes",
}
Value = str | int | float | None


def frame_of(results: Iterable[Result]) -> pandas.DataFrame:
    """One row a score, with the columns FRAME_COLUMNS, in the order of the results and of their evaluations."""
    import pandas

    rows = (row for result in results for row in _rows(result))
    return pandas.DataFrame.from_records(list(rows), columns=list(FRAME_COLUMNS))


def metrics_of(results: Iterable[Result]) -> Metrics:
    """Suite -> name -> metric, as the protocols of the results declare them; of several, the newest counts."""
    found: dict[str, dict[str, Metric]] = {}
    evaluations = (evaluation for result in results for evaluation in result.evaluations)
    for evaluation in sorted(evaluations, key=lambda one: one.finished):
        found.setdefault(evaluation.suite, {}).update({one.name: one for one in evaluation.protocol.metrics})
    return found


def overrides_text(overrides: Mapping[str, object]) -> str:
    """Overrides, or values of the training, as the frame's column holds them."""
    return ",".join(f"{key}={value}" for key, value in sorted(overrides.items()))


def _rows(result: Result) -> Iterator[tuple[Value, ...]]:
    spec = result.spec
    run = (result.profile, result.profile_origin, spec.method, spec.variant, spec.setting, spec.encoder, spec.seed)
    values = overrides_text(result.overrides), overrides_text(result.hyperparameters.get("training", {}))
    head = (*run, *values, result.fingerprint, result.group)
    for evaluation in result.evaluations:
        place = (*head, evaluation.suite, evaluation.protocol.key)
        tail = (evaluation.finished, result.dev.best_score, result.train_seconds / 60)
        for task, part, metrics in _blocks(evaluation):
            for metric, value in metrics.items():
                yield (*place, task, part, metric, value, *tail)


def _blocks(evaluation: Evaluation) -> Iterator[tuple[str, str, Mapping[str, float]]]:
    """(task, part, scores) of the whole tasks, each followed by its parts."""
    for task, metrics in evaluation.scores.items():
        yield task, "", metrics
        for part, values in evaluation.parts.get(task, {}).items():
            yield task, part, values
