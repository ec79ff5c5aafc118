"""report.csv: one row a run, that is one a seed, with its hyperparameters and unrounded scores as columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import TextIO

from harness.method.naming import name_of
from harness.plaintext import for_csv
from harness.store import Result, overrides_text

#: columns of every run; those of hyperparameters (GROUP.NAME), teachers (teacher.ROLE) and scores (SUITE.TASK.METRIC)
#: follow, empty where a run has none
RUN_COLUMNS = (
    *("profile", "variant", "name", "method", "setting", "encoder", "seed", "overrides"),
    *("fingerprint", "group", "backend", "dev", "minutes"),
)


def write_runs(results: Sequence[Result], stream: TextIO) -> None:
    """Write report.csv, one result at a time. Scores are those of whole tasks, in the metrics that tables show."""
    values: dict[str, None] = {}
    scores: dict[str, None] = {}
    for one in results:
        values.update(dict.fromkeys(name for name, _ in _values(one)))
        scores.update(dict.fromkeys(name for name, _ in _scores(one)))
    writer = csv.DictWriter(stream, (*RUN_COLUMNS, *sorted(values), *scores), restval="", lineterminator="\n")
    writer.writerow({name: for_csv(name) for name in writer.fieldnames})
    for one in results:
        fields = dict([*_fields(one), *_values(one), *_scores(one)])
        writer.writerow({name: for_csv(value) for name, value in fields.items()})


def _fields(one: Result) -> Iterator[tuple[str, object]]:
    overrides = overrides_text(one.overrides)
    yield from (("profile", one.profile), ("variant", one.spec.variant))
    yield from (("name", name_of(one.spec.variant, overrides).text), ("method", one.spec.method))
    yield from (("setting", one.spec.setting), ("encoder", one.spec.encoder), ("seed", one.spec.seed))
    yield from (("overrides", overrides), ("fingerprint", one.fingerprint), ("group", one.group))
    yield from (("backend", one.backend), ("dev", one.best_dev), ("minutes", one.train_seconds / 60))


def _values(one: Result) -> Iterator[tuple[str, object]]:
    """Hyperparameters and teachers."""
    for group, values in one.hyperparameters.items():
        for name, value in values.items():
            yield f"{group}.{name}", value
    for role, used in one.teachers.items():
        yield f"teacher.{role}", used.teacher


def _scores(one: Result) -> Iterator[tuple[str, object]]:
    for suite in one.suites:
        found = one.latest(suite)
        shown = {metric.name for metric in found.protocol.metrics if metric.shown} if found else set()
        for task, values in found.scores.items() if found else ():
            for name, value in values.items():
                if not shown or name in shown:
                    yield f"{suite}.{task}.{name}", value
