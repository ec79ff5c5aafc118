"""Results as tables of the index: rows of columns, written run by run."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from harness.store.columns import RUN_JSON, RUN_TEXTS, TYPES, Tables
from harness.store.schema import Evaluation, Result, Spec


class TablesWriter:
    """Adds results, or files that cannot be used, one by one."""

    def __init__(self) -> None:
        """Start without any."""
        self._places: dict[str, int] = {}
        # arrays of numbers: lists would hold four times the memory
        self._rows: dict[str, dict[str, array[Any]]] = {
            table: {name: array(np.dtype(kind).char) for name, kind in _types(table).items()}
            for table in ("runs", "evaluations", "scores", "parts")
        }

    def add(self, path: str, size: int, mtime: int, found: Result | str) -> None:
        """Add the result of a file with its size in bytes and its time in ns, or what is wrong with the file."""
        at, runs = self._at, self._rows["runs"]
        row = len(runs["path"])
        values: dict[str, float] = dict.fromkeys((*RUN_TEXTS, *RUN_JSON), at(""))
        values |= {"path": at(path), "size": size, "mtime": mtime, "backend": 0}
        values |= {"best": math.nan, "train_seconds": 0.0, "peak_memory_mb": 0.0}
        if isinstance(found, str):
            values["problem"] = at(found)
        else:
            values |= self._values(found)
            for evaluation in found.evaluations:
                self._evaluate(row, evaluation)
        for name, value in values.items():
            runs[name].append(value)

    def tables(self) -> Tables:
        """Everything that was added; nothing can be added any more."""
        columns = [{name: np.asarray(rows) for name, rows in found.items()} for found in self._rows.values()]
        return Tables.made(list(self._places), columns)

    def _at(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def _json(self, value: object) -> int:
        return self._at(json.dumps(value))

    def _values(self, result: Result) -> dict[str, float]:
        spec, best = result.spec, result.dev.best_score
        texts = {name: getattr(result, name) for name in RUN_TEXTS[2:] if name in Result.model_fields}
        texts |= {name: str(getattr(spec, name)) for name in Spec.model_fields}
        texts["dev_task"] = "" if result.dev.best_step is None else str(result.dev.task)
        values = {name: getattr(result, name) for name in RUN_JSON}
        values["teachers"] = {role: use.model_dump() for role, use in result.teachers.items()}
        return {
            **{name: self._at(text) for name, text in texts.items()},
            **{name: self._json(value) for name, value in values.items()},
            "best": math.nan if best is None else best,
            **{name: getattr(result, name) for name in ("backend", "train_seconds", "peak_memory_mb")},
        }

    def _evaluate(self, row: int, evaluation: Evaluation) -> None:
        at, there = self._at, self._rows["evaluations"]
        number = len(there["run"])
        there["run"].append(row)
        there["suite"].append(at(evaluation.suite))
        there["protocol"].append(at(evaluation.protocol.model_dump_json()))
        there["key"].append(at(evaluation.protocol.key))
        there["warnings"].append(self._json(evaluation.warnings))
        there["finished"].append(at(evaluation.finished))
        there["seconds"].append(evaluation.seconds)
        for task, metrics in evaluation.scores.items():
            self._score("scores", number, task, "", metrics)
            for part, values in evaluation.parts.get(task, {}).items():
                self._score("parts", number, task, part, values)

    def _score(self, table: str, evaluation: int, task: str, part: str, metrics: Mapping[str, float]) -> None:
        columns, at = self._rows[table], self._at
        count = len(metrics)
        columns["evaluation"].extend([evaluation] * count)
        columns["task"].extend([at(task)] * count)
        columns["part"].extend([at(part)] * count)
        columns["metric"].extend(map(at, metrics))
        columns["value"].extend(metrics.values())


def tables_of(results: Iterable[Result]) -> Tables:
    """The tables of results that are in memory."""
    writer = TablesWriter()
    for result in results:
        writer.add("", 0, 0, result)
    return writer.tables()


def _types(table: str) -> Mapping[str, type[np.generic]]:
    return TYPES["scores" if table == "parts" else table]
