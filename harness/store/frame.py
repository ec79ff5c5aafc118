"""All scores of results as one tidy table, and what their metrics mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from harness.errors import UserError
from harness.metrics import NO_SCORE, Metric, Metrics
from harness.registry import get
from harness.store.columns import ColumnArray, Columns, Tables
from harness.store.indexed import UNKNOWN, IndexedResults, tables_in
from harness.store.schema import Result

if TYPE_CHECKING:
    import pandas

#: column of `frame_of` -> what it holds
FRAME_COLUMNS: Mapping[str, str] = {
    "profile": "profile of the run",
    "profile_origin": "'package' for a shipped profile, 'file' for a user's own",
    "method": "name of the method",
    "variant": "method with its reading and options",
    "setting": "training setting; 'none' for an untrained encoder",
    "encoder": "name of the encoder",
    "seed": "seed of the run",
    "overrides": "values set with --set, as key=value,key=value in order of keys; empty without any",
    "training": "values of the training, as key=value,key=value; empty for an untrained encoder",
    "pooling": "how token vectors become the vector of a sentence",
    "fingerprint": "identity of the training, 64 hex digits",
    "group": "identity of the training without its seed",
    "suite": "evaluation suite",
    "protocol": "identity of the suite's version, options and data, 12 hex digits",
    "task": "task of the suite; 'Avg' for the plain mean over its tasks",
    "part": "subset of the task; empty for the whole task",
    "metric": "name of the metric",
    "value": "the score; correlations are x 100",
    "finished": "when the suite was evaluated, ISO 8601 in UTC",
    "present": "'present', or what has changed since in code, data or values; empty where that is not known",
    "dev": "best dev score of the run; missing for an untrained encoder",
    "dev_task": "task that selected the run's weights; empty for an untrained encoder",
    "minutes": "training time in minutes",
}


def frame_of(results: Sequence[Result], parts: Collection[str] | None = None) -> pandas.DataFrame:
    """One row per score, with the columns FRAME_COLUMNS, in the order of the results and of their evaluations.

    `parts` are the parts of tasks that are included besides the whole tasks, None for all. Columns of texts are
    categorical, so that a group-by over several of them needs `observed=True`.
    """
    import pandas

    tables = tables_in(results)
    runs, evaluations, scores = tables.runs, tables.evaluations, _scores(tables, parts)
    of_evaluation = scores["evaluation"]
    of_run = evaluations["run"][of_evaluation] if len(of_evaluation) else of_evaluation

    judged, states = np.zeros(len(evaluations["run"]), np.int8), [UNKNOWN]
    if isinstance(results, IndexedResults) and results.judge:
        judged, states = results.judge(results)

    def category(column: ColumnArray, rows: ColumnArray | None = None, named: Callable[[str], str] = str) -> object:
        codes, names = _categories(tables.texts, column, named)
        return pandas.Categorical.from_codes(codes if rows is None else codes[rows], categories=pandas.Index(names))

    seeds = np.array([int(text) for text in tables.of_runs("seed")] or np.zeros(0, np.int64))
    columns: dict[str, object] = {
        name: category(runs[name], of_run)
        for name in ("profile", "profile_origin", "method", "variant", "setting", "encoder", "fingerprint", "group")
    }
    columns |= {
        "seed": seeds[of_run],
        "overrides": category(runs["overrides"], of_run, lambda text: overrides_text(json.loads(text))),
        "training": category(runs["hyperparameters"], of_run, _training_text),
        "pooling": category(runs["hyperparameters"], of_run, _pooling),
        "suite": category(evaluations["suite"], of_evaluation),
        "protocol": category(evaluations["key"], of_evaluation),
        **{name: category(scores[name]) for name in ("task", "part", "metric")},
        "value": scores["value"],
        "finished": category(evaluations["finished"], of_evaluation),
        "present": pandas.Categorical.from_codes(judged[of_evaluation], categories=pandas.Index(states)),
        "dev": runs["best"][of_run],
        "dev_task": category(runs["dev_task"], of_run),
        "minutes": runs["train_seconds"][of_run] / 60,
    }
    return pandas.DataFrame({name: columns[name] for name in FRAME_COLUMNS}, copy=False)


@cache
def unjudged(suite: str) -> frozenset[str]:
    """The metrics that an installed suite declares as not judged; none for a suite that cannot be used."""
    try:
        return frozenset(metric.name for metric in get("suite", suite).metrics if not metric.judged)
    except UserError:
        return frozenset()


def metrics_of(results: Sequence[Result]) -> Metrics:
    """Suite -> name -> metric, as the protocols of the results declare them; of several, the newest counts.

    Results of earlier versions do not say which metrics are not judged; the installed suite does.
    """
    tables = tables_in(results)
    suites, protocols = (tables.evaluations[name].tolist() for name in ("suite", "protocol"))
    finished = [tables.texts[number] for number in tables.evaluations["finished"].tolist()]
    metrics: dict[str, dict[str, Metric]] = {}
    newest: dict[int, int] = {}
    for at in sorted(range(len(finished)), key=finished.__getitem__):
        if newest.get(suites[at]) != protocols[at]:
            newest[suites[at]] = protocols[at]
            suite = tables.texts[suites[at]]
            for declared in tables.protocol(at).metrics:
                metric = replace(declared, judged=False) if declared.name in unjudged(suite) else declared
                metrics.setdefault(suite, {})[metric.name] = metric
    return metrics


def unscored(results: Sequence[Result]) -> dict[tuple[str, str], list[str]]:
    """One line for each run with unscored tasks, which are missing from a frame: (profile, suite) -> lines."""
    tables = tables_in(results)
    marked = [number for number, text in enumerate(tables.texts) if f": {NO_SCORE}: " in text]
    rows = tables.evaluations["run"][np.isin(tables.evaluations["warnings"], marked)]
    lines: dict[tuple[str, str], list[str]] = {}
    for result in (results[row] for row in dict.fromkeys(rows.tolist())):
        for evaluation in result.current:
            if evaluation.unscored:
                why = f"{result.spec.key}: {evaluation.unscored}"
                lines.setdefault((result.profile, evaluation.suite), []).append(why)
    return lines


def overrides_text(overrides: Mapping[str, object]) -> str:
    """Overrides, or values of the training, as the frame's column holds them."""
    return ",".join(f"{key}={value}" for key, value in sorted(overrides.items()))


def _scores(tables: Tables, parts: Collection[str] | None) -> Columns:
    """The scores of each evaluation, of whole tasks first."""
    if parts is not None and not parts:
        return tables.scores
    of_parts = tables.parts
    if parts is not None:
        wanted = [number for number, text in enumerate(tables.texts) if text in parts]
        if not wanted:
            return tables.scores
        rows = np.flatnonzero(np.isin(of_parts["part"], wanted))
        of_parts = {name: column[rows] for name, column in of_parts.items()}
    both = {name: np.concatenate([column, of_parts[name]]) for name, column in tables.scores.items()}
    order = np.argsort(both["evaluation"], kind="stable")
    return {name: column[order] for name, column in both.items()}


def _training_text(hyperparameters: str) -> str:
    return overrides_text(json.loads(hyperparameters).get("training", {}))


def _pooling(hyperparameters: str) -> str:
    return str(json.loads(hyperparameters).get("encoder", {}).get("pooling", ""))


def _categories(
    texts: Sequence[str], column: ColumnArray, named: Callable[[str], str]
) -> tuple[ColumnArray, list[str]]:
    used, codes = np.unique(column, return_inverse=True)
    names: dict[str, int] = {}
    renamed = np.array([names.setdefault(named(texts[number]), len(names)) for number in used.tolist()] or [0])
    small = np.min_scalar_type(-max(1, len(names)))
    return renamed.astype(small)[codes], list(names)
