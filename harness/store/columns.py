"""The parts of many results that tables need, as columns of numbers: runs, evaluations, scores, and shared texts."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.store.schema import Evaluation, Protocol, Result, ScoresByPart, Spec, TeacherUse

ColumnArray = NDArray[Any]
#: column -> one number per row
Columns = Mapping[str, ColumnArray]

#: columns of runs that hold indices into `texts`
RUN_TEXTS = (
    *("path", "problem", "profile", "profile_origin", "method", "variant", "setting", "encoder", "seed"),
    *("fingerprint", "group", "started", "finished", "dev_task"),
)
#: columns of runs that hold indices of JSON values in `texts`
RUN_JSON = ("overrides", "hyperparameters", "teachers", "hardware", "packages", "revision", "warnings")
RUN_TYPES: dict[str, type[np.generic]] = {
    **dict.fromkeys((*RUN_TEXTS, *RUN_JSON), np.int32),
    **dict.fromkeys(("size", "mtime", "backend"), np.int64),
    **dict.fromkeys(("best", "train_seconds", "peak_memory_mb"), np.float64),
}
#: `run` is a row of runs, `key` the protocol's key; seconds are wall time
EVALUATION_TYPES: dict[str, type[np.generic]] = {
    **dict.fromkeys(("run", "suite", "protocol", "key", "warnings", "finished"), np.int32),
    "seconds": np.float64,
}
#: `evaluation` is a row of evaluations; `part` is '' for a whole task
SCORE_TYPES: dict[str, type[np.generic]] = {
    **dict.fromkeys(("evaluation", "task", "part", "metric"), np.int32),
    "value": np.float64,
}
#: table -> column -> type of its numbers; `parts` are scores too
TYPES: Mapping[str, Mapping[str, type[np.generic]]] = {
    "runs": RUN_TYPES,
    "evaluations": EVALUATION_TYPES,
    "scores": SCORE_TYPES,
    "parts": SCORE_TYPES,
}
#: columns that hold indices into `texts`, of all tables
TEXTS = frozenset(
    (*RUN_TEXTS, *RUN_JSON, *("suite", "protocol", "key", "warnings", "finished"), *("task", "part", "metric"))
)


@dataclass(frozen=True)
class Tables:
    """Runs, evaluations and scores as columns; a run's evaluations and scores are adjacent, in the order of the runs.

    Columns of texts and of JSON values hold indices into `texts`. A run with a `problem` is a file that cannot be used.
    `scores` are those of whole tasks. Scores of parts are several times as many, and looked up only when needed.
    """

    texts: Sequence[str]
    runs: Columns
    evaluations: Columns
    scores: Columns
    find_parts: Callable[[], Columns]

    @classmethod
    def made(cls, texts: Sequence[str], columns: Sequence[Columns]) -> Tables:
        """Tables of texts and of the columns of runs, evaluations, scores and parts."""
        runs, evaluations, scores, parts = columns
        return cls(texts, runs, evaluations, scores, lambda: parts)

    def __len__(self) -> int:
        return len(self.runs["path"])

    @cached_property
    def parts(self) -> Columns:
        return self.find_parts()

    @cached_property
    def evaluations_from(self) -> ColumnArray:
        """The row of each run's first evaluation; the last entry is the number of evaluations."""
        return _starts(self.evaluations["run"], 0, len(self) + 1)

    def text(self, column: ColumnArray, row: int) -> str:
        return self.texts[int(column[row])]

    def of_runs(self, name: str) -> list[str]:
        return list(map(self.texts.__getitem__, self.runs[name].tolist()))

    def take(self, rows: ColumnArray) -> Tables:
        """The tables of the runs at `rows`, in that order."""
        if np.array_equal(rows, np.arange(len(self))):
            return self
        evaluations, of_run = _gathered(self.evaluations_from, rows)
        return Tables(
            self.texts,
            {name: column[rows] for name, column in self.runs.items()},
            {name: of_run if name == "run" else column[evaluations] for name, column in self.evaluations.items()},
            self._of(self.scores, evaluations),
            lambda: self._of(self.parts, evaluations),
        )

    def with_more(self, more: Tables) -> Tables:
        """The tables of these runs, followed by the runs of `more`."""
        if not len(self):
            return more
        places = {text: number for number, text in enumerate(self.texts)}
        moved = np.array([places.setdefault(text, len(places)) for text in more.texts] or [0], dtype=np.int32)
        first = {"run": len(self), "evaluation": len(self.evaluations["run"])}

        def after(columns: Columns, others: Columns) -> Columns:
            added = {
                name: moved[column] if name in TEXTS else column + first.get(name, 0) for name, column in others.items()
            }
            return {name: np.concatenate([column, added[name]]) for name, column in columns.items()}

        return Tables(
            list(places),
            after(self.runs, more.runs),
            after(self.evaluations, more.evaluations),
            after(self.scores, more.scores),
            lambda: after(self.parts, more.parts),
        )

    def compact(self) -> Tables:
        """The same tables without texts that nothing refers to."""
        used = np.zeros(len(self.texts), dtype=bool)
        for columns in self.columns:
            for name in TEXTS & columns.keys():
                used[columns[name]] = True
        moved = (np.cumsum(used) - 1).astype(np.int32)
        texts = [text for text, kept in zip(self.texts, used.tolist(), strict=True) if kept]
        columns_of = [
            {name: moved[column] if name in TEXTS else column for name, column in columns.items()}
            for columns in self.columns
        ]
        return Tables.made(texts, columns_of)

    @property
    def columns(self) -> list[Columns]:
        """The columns of all tables, in the order of TYPES."""
        return [self.runs, self.evaluations, self.scores, self.parts]

    def evaluations_of(self, row: int) -> list[Evaluation]:
        """The evaluations of a run; tasks without scores are left out."""
        return [self._evaluation(at) for at in range(*self.evaluations_from[row : row + 2].tolist())]

    def protocol(self, evaluation: int) -> Protocol:
        """The protocol of an evaluation; equal protocols share one object."""
        text = self.text(self.evaluations["protocol"], evaluation)
        return self._protocols.setdefault(text, Protocol.model_validate_json(text))

    def fields(self, row: int) -> dict[str, Any]:
        """The fields of a run's result besides evaluations and curves; equal values share one object."""
        texts: dict[str, Any] = {name: self.text(self.runs[name], row) for name in RUN_TEXTS[2:]}
        del texts["dev_task"]
        names = ("method", "variant", "setting", "encoder")
        named: dict[str, Any] = {name: texts.pop(name) for name in names}
        spec = Spec.model_construct(**named, seed=int(texts.pop("seed")))
        values = {name: self._value(name, row) for name in RUN_JSON}
        numbers = {name: self.runs[name][row].item() for name in ("backend", "train_seconds", "peak_memory_mb")}
        return {"spec": spec, **texts, **values, **numbers}

    @cached_property
    def _protocols(self) -> dict[str, Protocol]:
        return {}

    @cached_property
    def _values(self) -> dict[tuple[str, int], Any]:
        return {}

    def _value(self, name: str, row: int) -> Any:
        number = int(self.runs[name][row])
        if (name, number) not in self._values:
            value = json.loads(self.texts[number])
            if name == "teachers":
                value = {role: TeacherUse.model_validate(use) for role, use in value.items()}
            self._values[name, number] = value
        return self._values[name, number]

    def _evaluation(self, at: int) -> Evaluation:
        scores = {task: values for (task, _), values in self._blocks(self.scores, at).items()}
        parts: ScoresByPart = {}
        for (task, part), values in self._blocks(self.parts, at).items():
            scores.setdefault(task, {})
            parts.setdefault(task, {})[part] = values
        return Evaluation.model_construct(
            suite=self.text(self.evaluations["suite"], at),
            protocol=self.protocol(at),
            scores=scores,
            parts=parts,
            seconds=self.evaluations["seconds"][at].item(),
            warnings=json.loads(self.text(self.evaluations["warnings"], at)),
            finished=self.text(self.evaluations["finished"], at),
        )

    def _blocks(self, columns: Columns, at: int) -> dict[tuple[str, str], dict[str, float]]:
        here = slice(*_starts(columns["evaluation"], at, at + 2).tolist())
        texts = (map(self.texts.__getitem__, columns[name][here].tolist()) for name in ("task", "part", "metric"))
        blocks: dict[tuple[str, str], dict[str, float]] = {}
        for task, part, metric, value in zip(*texts, columns["value"][here].tolist(), strict=True):
            blocks.setdefault((task, part), {})[metric] = value
        return blocks

    def _of(self, columns: Columns, evaluations: ColumnArray) -> Columns:
        starts = _starts(columns["evaluation"], 0, len(self.evaluations["run"]) + 1)
        scores, owners = _gathered(starts, evaluations)
        return {name: owners if name == "evaluation" else column[scores] for name, column in columns.items()}


def _starts(owners: ColumnArray, first: int, stop: int) -> ColumnArray:
    """The row of the first member of each owner in range(first, stop)."""
    # with numbers of another type, NumPy would convert a copy of the whole column to compare them
    return np.searchsorted(owners, np.arange(first, stop, dtype=owners.dtype))


def _gathered(starts: ColumnArray, rows: ColumnArray) -> tuple[ColumnArray, ColumnArray]:
    """The rows of all members of the owners at `rows`, in their order, and the new number of each member's owner."""
    first, counts = starts[rows], starts[rows + 1] - starts[rows]
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    before = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) - before[owners] + first[owners], owners


class TablesWriter:
    """Builds tables from results, or files that cannot be used, added one by one."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        # arrays of numbers: lists would hold four times the memory
        self._rows: dict[str, dict[str, array[Any]]] = {
            table: {name: array(np.dtype(kind).char) for name, kind in types.items()} for table, types in TYPES.items()
        }

    def add(self, path: str, size: int, mtime: int, content: Result | str) -> None:
        """Add the result of a file with its size in bytes and its time in ns, or what is wrong with the file."""
        at, runs = self._at, self._rows["runs"]
        row = len(runs["path"])
        values: dict[str, float] = dict.fromkeys((*RUN_TEXTS, *RUN_JSON), at(""))
        values |= {"path": at(path), "size": size, "mtime": mtime, "backend": 0}
        values |= {"best": math.nan, "train_seconds": 0.0, "peak_memory_mb": 0.0}
        if isinstance(content, str):
            values["problem"] = at(content)
        else:
            values |= self._values(content)
            for evaluation in content.evaluations:
                self._evaluate(row, evaluation)
        for name, value in values.items():
            runs[name].append(value)

    def tables(self) -> Tables:
        """The tables of everything added; nothing can be added afterwards."""
        columns = [{name: np.asarray(rows) for name, rows in table.items()} for table in self._rows.values()]
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
