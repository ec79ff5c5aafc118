"""Many results as data frames: one row per run, per evaluation and per score.

Columns of texts are categories, so that a group-by over several of them needs `observed=True`. What
commands need before they do anything is read from `table`, the index's Arrow table, since pandas
takes long to import.
"""

from __future__ import annotations

import json
import typing
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import combinations, compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from harness.errors import UserError
from harness.formatting import count_of
from harness.metrics import NO_SCORE, Metric, Metrics
from harness.registry import get
from harness.store.schema import (
    BACKEND_VERSION,
    Evaluation,
    Protocol,
    Result,
    complete_training_values,
    describe_unscored_tasks,
    find_differences,
)

if TYPE_CHECKING:
    import pandas
    import pyarrow

#: judgements of an evaluation: a plan would use the same code, data and values of run and suite
#: now; or unknown
PRESENT = "present"
UNKNOWN = ""

#: what is counted of a training: columns of the frame, which has each of them up to the weights that
#: are scored too, as `scored_NAME`
COUNTED = ("steps", "text_rows", "other_rows", "flops")

#: column of `Frames.flat` -> what it holds
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
    "dev": "dev score of the weights that are scored; missing for an untrained encoder",
    "dev_task": "task that selected the run's weights; empty for an untrained encoder",
    "last_dev": "dev score at the last step",
    "steps": "steps of the training; missing for an untrained encoder",
    "text_rows": "rows of text that the training read, repeated ones counted; missing in results of schema 4",
    "other_rows": "images or recordings that it read, repeated ones counted; missing in results of schema 4",
    "flops": "operations of the encoder in training, counted by formula; missing in results of schema 4",
    "scored_steps": "steps up to the weights that are scored",
    "scored_text_rows": "rows of text up to these, in proportion to the steps",
    "scored_other_rows": "images or recordings up to these, in proportion to the steps",
    "scored_flops": "operations up to these, in proportion to the steps",
    "peak_memory_mb": "most memory in use, in MB: of the GPU, or of the process",
    "minutes": "training time in minutes, of this machine and its load",
}
#: columns of the frame that are those of evaluations; the others are of runs, or of scores
_OF_EVALUATIONS = ("suite", "protocol", "finished", "present")
_OF_SCORES = ("task", "part", "metric", "value")


class Judge(typing.Protocol):
    """Compares results with the code, data and values of now."""

    def __call__(self, frames: Frames) -> Sequence[str]:
        """Whether each evaluation is PRESENT, or what has changed since."""

    def sentences(self, profile: str, evaluation: Evaluation, task: str) -> list[tuple[str, ...]]:
        """Both sentences of the pairs, or each caption, that an evaluation read; none where these
        are not at hand.
        """


@dataclass(eq=False, repr=False)
class Frames(Sequence[Result]):
    """Results as data frames, and as a sequence that reads a result's file when it is asked for.

    `held` are the results, by row of `table`, that are in memory; `judge` fills the column
    `present`. `problems` has one line for each file that cannot be used, which is in no frame.
    """

    table: pyarrow.Table
    root: Path
    read: Callable[[Path], Result]
    held: Mapping[int, Result]
    problems: Sequence[str] = ()
    judge: Judge | None = None

    @classmethod
    def of_files(cls, root: Path, read: Callable[[Path], Result], files: pyarrow.Table) -> Frames:
        """The results of files: those of one training are merged, those that cannot be used are
        left out.
        """
        from harness.store.index import join_tables, make_arrow_table, make_row, take_table_rows

        found = list_texts(files["problem"])
        usable = [row for row, problem in enumerate(found) if not problem]
        table = files if len(usable) == len(found) else take_table_rows(files, usable)
        problems = [*filter(None, found)]
        paths, fingerprints = (list_texts(table[name]) for name in ("path", "fingerprint"))
        counts = Counter(fingerprints)
        if len(counts) == len(fingerprints):
            return cls(table, root, read, {}, problems)
        rows = {root / paths[row]: row for row, each in enumerate(fingerprints) if counts[each] > 1}
        results = {path: read(path) for path in rows}
        kept, contradictions = merge_by_training(results)
        merged = {
            rows[path]: result for path, result in kept.items() if result is not results[path]
        }
        places = {row: len(table) + number for number, row in enumerate(merged)}
        left = [
            row
            for row in range(len(table))
            if root / paths[row] not in results or root / paths[row] in kept
        ]
        both = join_tables(table, make_arrow_table(map(make_row, merged.values())))
        held = {new: merged[row] for new, row in enumerate(left) if row in merged}
        return cls(
            take_table_rows(both, [places.get(row, row) for row in left]),
            root,
            read,
            held,
            problems + contradictions,
        )

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> Frames: ...

    def __getitem__(self, index: int | slice) -> Result | Frames:
        rows = range(len(self))[index]
        return self.take_rows(rows) if isinstance(rows, range) else self.result(rows)

    def result(self, row: int) -> Result:
        """The result of a run, read from its file. Raises UserError where that is damaged, gone, or
        of another run.
        """
        if row in self.held:
            return self.held[row]
        path, fingerprint = (self.table[name][row].as_py() for name in ("path", "fingerprint"))
        result = self.read(self.root / path)
        if result.fingerprint != fingerprint:
            raise UserError(
                f"the result {self.root / path} has changed in the meantime; run the same command again"
            )
        return result

    def iterate_readable(self) -> Iterator[Result]:
        """The results whose files can still be read."""
        for row in range(len(self)):
            with suppress(UserError):
                yield self.result(row)

    def judged(self, judge: Judge | None) -> Frames:
        return replace(self, judge=judge)

    def take_rows(self, rows: Sequence[int]) -> Frames:
        """The results of these rows, in that order."""
        from harness.store.index import take_table_rows

        held = {new: self.held[row] for new, row in enumerate(map(int, rows)) if row in self.held}
        return replace(self, table=take_table_rows(self.table, rows), held=held)

    def where(self, **texts: Collection[str]) -> Frames:
        """The results whose columns have one of these texts."""
        columns = [(self.texts(name), wanted) for name, wanted in texts.items()]
        return self.take_rows(
            [row for row in range(len(self)) if all(found[row] in some for found, some in columns)]
        )

    def texts(self, name: str) -> list[str]:
        """A column of texts of `table`, which costs no import of pandas."""
        return list_texts(self.table[name])

    @cached_property
    def keys(self) -> list[str]:
        """Each run's key."""
        named = (self.texts(name) for name in ("variant", "setting", "encoder"))
        seeds = self.table["seed"].to_pylist()
        return [
            f"{'/'.join(names)}/seed-{seed}" for *names, seed in zip(*named, seeds, strict=True)
        ]

    @cached_property
    def earlier(self) -> list[bool]:
        """Whether an earlier backend trained each run; a run without training has no backend."""
        values = self.texts("hyperparameters")
        backends = self.table["backend"].to_pylist()
        trained = {text for text in set(values) if json.loads(text).get("training")}
        return [
            text in trained and made < BACKEND_VERSION
            for text, made in zip(values, backends, strict=True)
        ]

    @cached_property
    def runs(self) -> pandas.DataFrame:
        """One row per run: the columns of the index but `evaluations`, and those of `flat` that are
        a run's.

        Columns of JSON texts are those named in `harness.store.index.JSON`; `overrides_json` is the
        one of overrides.
        """
        names = [name for name in self.table.column_names if name not in ("problem", "evaluations")]
        table: pandas.DataFrame = self.table.select(names).to_pandas()
        runs = table.rename(columns={"overrides": "overrides_json"})
        values = runs["hyperparameters"]
        return runs.assign(
            overrides=_rename_categories(
                runs["overrides_json"], lambda text: format_overrides(json.loads(text))
            ),
            training=_rename_categories(
                values, lambda text: format_overrides(complete_training_values(json.loads(text)))
            ),
            pooling=_rename_categories(
                values, lambda text: str(json.loads(text).get("encoder", {}).get("pooling", ""))
            ),
            minutes=runs["train_seconds"] / 60,
            **_count_scored_part(runs),
        )

    @cached_property
    def numbers(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """The columns of numbers of `runs`, (R,) each."""
        return {
            str(name): column.to_numpy()
            for name, column in self.runs.select_dtypes("number").items()
        }

    @cached_property
    def evaluations(self) -> pandas.DataFrame:
        """One row per evaluation: `run` (a row of runs), suite, protocol, declared, warnings,
        finished, seconds.
        """
        table, runs = self._evaluation_rows
        evaluations: pandas.DataFrame = table.drop_columns(["scores", "parts"]).to_pandas()
        return evaluations.assign(run=runs)

    @cached_property
    def present(self) -> pandas.Series:
        """Each evaluation's state: PRESENT, UNKNOWN, or what has changed since."""
        import pandas

        states = self.judge(self) if self.judge else [UNKNOWN] * len(self.evaluations)
        return pandas.Series(states, self.evaluations.index, dtype="category")

    @cached_property
    def scores(self) -> pandas.DataFrame:
        """One row per score of a whole task: `evaluation` (a row of evaluations), task, part (''),
        metric, value.
        """
        return self._flatten_scores("scores")

    @cached_property
    def parts(self) -> pandas.DataFrame:
        """One row per score of a part of a task, with the columns of `scores`; several times as
        many as these.
        """
        return self._flatten_scores("parts")

    @cached_property
    def _evaluation_rows(self) -> tuple[pyarrow.Table, np.ndarray[Any, Any]]:
        return _flatten_lists(self.table["evaluations"])

    def _flatten_scores(self, name: str) -> pandas.DataFrame:
        table, evaluations = _flatten_lists(self._evaluation_rows[0][name])
        scores: pandas.DataFrame = table.to_pandas()
        return scores.assign(evaluation=evaluations)

    def newest(self) -> pandas.DataFrame:
        """The newest evaluation of each suite of a run."""
        return self.evaluations.drop_duplicates(["run", "suite"], keep="last")

    def collect_times(self) -> dict[tuple[str, str], dict[str, list[float]]]:
        """Method and encoder -> seconds of trainings (''), of a step of each ('step'), and of
        newest evaluations.
        """
        table, runs = self._evaluation_rows
        suites: list[dict[str, float]] = [{} for _ in range(len(self))]
        for run, suite, seconds in zip(
            runs.tolist(), list_texts(table["suite"]), table["seconds"].to_pylist(), strict=True
        ):
            suites[run][suite] = seconds
        times: dict[tuple[str, str], dict[str, list[float]]] = {}
        numbers = (self.table[name].to_pylist() for name in ("train_seconds", "steps"))
        columns = self.texts("method"), self.texts("encoder"), *numbers, suites
        for method, encoder, training, steps, evaluated in zip(*columns, strict=True):
            for what, seconds in {
                "": training,
                **({"step": training / steps} if steps else {}),
                **evaluated,
            }.items():
                times.setdefault((method, encoder), {}).setdefault(what, []).append(seconds)
        return times

    def flat(self) -> pandas.DataFrame:
        """One row per score of a task or a part of it, with the columns FRAME_COLUMNS, in the order
        of evaluations.
        """
        import pandas

        evaluations = self.evaluations.assign(present=self.present)[["run", *_OF_EVALUATIONS]]
        runs = self.runs[
            [name for name in FRAME_COLUMNS if name not in (*_OF_EVALUATIONS, *_OF_SCORES)]
        ]
        scores = pandas.concat([self.scores, self.parts]).sort_values(
            "evaluation", kind="stable", ignore_index=True
        )
        return scores.join(evaluations, on="evaluation").join(runs, on="run")[[*FRAME_COLUMNS]]


def frames_of(results: Sequence[Result]) -> Frames:
    """The frames of results, of a folder or in memory."""
    from harness.store.index import make_arrow_table, make_row

    if isinstance(results, Frames):
        return results
    return Frames(
        make_arrow_table(map(make_row, results)), Path(), _refuse_unread, dict(enumerate(results))
    )


def _refuse_unread(path: Path) -> Result:
    raise UserError(f"the result {path} is in no file")


def lines_of(frame: pandas.DataFrame) -> Iterator[Any]:
    """The lines of a frame as named tuples, with their `Index`."""
    return iter(frame.itertuples())


def list_texts(column: pyarrow.ChunkedArray) -> list[str]:
    """The texts of a column; '' for missing ones."""
    array = column.combine_chunks()
    if not hasattr(array, "dictionary"):
        return [text or "" for text in array.to_pylist()]
    names = array.dictionary.to_pylist()
    return [names[number] for number in array.indices.to_numpy().tolist()]


def _flatten_lists(column: pyarrow.ChunkedArray) -> tuple[pyarrow.Table, np.ndarray[Any, Any]]:
    """The members of lists, and for each the number of its list."""
    import pyarrow
    from pyarrow import compute

    array = column.combine_chunks()
    owners = compute.list_parent_indices(array).to_numpy().astype(np.int32)
    return pyarrow.Table.from_struct_array(compute.list_flatten(array)), owners


def _rename_categories(column: pandas.Series, name: Callable[[str], str]) -> pandas.Series:
    """A column of categories under other names, which several may share."""
    import pandas

    codes, names = pandas.factorize(
        pandas.Index([name(text) for text in column.cat.categories], dtype=object)
    )
    return pandas.Series(
        pandas.Categorical.from_codes(codes[column.cat.codes], names), column.index
    )


@cache
def unjudged(suite: str) -> frozenset[str]:
    """The metrics that an installed suite declares as not judged; none for a suite that cannot be
    used.
    """
    try:
        return frozenset(metric.name for metric in get("suite", suite).metrics if not metric.judged)
    except UserError:
        return frozenset()


def metrics_of(results: Sequence[Result]) -> Metrics:
    """Suite -> name -> metric, as the protocols of the results declare them; of several, the newest
    counts.

    Results of earlier versions do not say which metrics are not judged; the installed suite does.
    """
    evaluations = frames_of(results).evaluations.sort_values("finished", kind="stable")
    metrics: dict[str, dict[str, Metric]] = {}
    # the first declarations give the order of a suite's metrics, the last ones what they are
    for keep in ("first", "last"):
        declared = evaluations.drop_duplicates(["suite", "declared"], keep=keep)
        for suite, protocol in zip(declared["suite"], declared["declared"], strict=True):
            for metric in read_declared_metrics(protocol):
                judged = metric.judged and metric.name not in unjudged(suite)
                metrics.setdefault(suite, {})[metric.name] = replace(metric, judged=judged)
    return metrics


@cache
def read_declared_metrics(protocol: str) -> tuple[Metric, ...]:
    """The metrics of the JSON text of a protocol."""
    return Protocol.model_validate_json(protocol).metrics


def unscored(results: Sequence[Result]) -> dict[tuple[str, str], list[str]]:
    """One line for each run with unscored tasks, which are missing from a frame: (profile, suite)
    -> lines.
    """
    frames = frames_of(results)
    newest = frames.newest()
    marked = [text for text in newest["warnings"].cat.categories if f": {NO_SCORE}: " in text]
    lines: dict[tuple[str, str], list[str]] = {}
    some = newest[newest["warnings"].isin(marked)]
    for run, suite, warnings in zip(some["run"], some["suite"], some["warnings"], strict=True):
        if why := describe_unscored_tasks(suite, json.loads(warnings)):
            lines.setdefault((frames.runs["profile"][run], suite), []).append(
                f"{frames.keys[run]}: {why}"
            )
    return lines


def format_overrides(overrides: Mapping[str, object]) -> str:
    """Overrides, or values of the training, as the frame's column holds them."""
    return ",".join(f"{key}={value}" for key, value in sorted(overrides.items()))


def _count_scored_part(runs: pandas.DataFrame) -> Mapping[str, pandas.Series]:
    """What trainings had read and computed when the weights that are scored were kept."""
    share = runs["kept_step"] / runs["steps"]
    return {f"scored_{name}": runs[name] * share for name in COUNTED}


def describe_earlier_backends(results: Sequence[Result]) -> str:
    """One line on the results made by earlier backends; empty if there are none."""
    frames = frames_of(results)
    earlier = [*compress(frames.table["backend"].to_pylist(), frames.earlier)]
    if not earlier:
        return ""
    versions = " and ".join(map(str, sorted(set(earlier))))
    were = "was" if len(earlier) == 1 else "were"
    return (
        f"{count_of(len(earlier), 'result')} {were} made by backend {versions}, the current one is {BACKEND_VERSION}: "
        "the numbers have changed; `harness run` with their options trains them again"
    )


def merge_by_training(results: Mapping[Path, Result]) -> tuple[dict[Path, Result], list[str]]:
    """Results by path, those of one training and key merged under their first, and a line for each
    contradiction.
    """
    trainings: dict[str, dict[Path, Result]] = {}
    for path, result in results.items():
        trainings.setdefault(result.fingerprint, {})[path] = result
    lines = {
        fingerprint: _describe_contradiction(files) for fingerprint, files in trainings.items()
    }
    agreeing: dict[tuple[str, str, str], dict[Path, Result]] = {}
    for path, result in results.items():
        if not lines[result.fingerprint]:
            agreeing.setdefault((result.profile, result.spec.key, result.fingerprint), {})[path] = (
                result
            )
    merged = {
        next(iter(files)): reduce(
            Result.merge, sorted(files.values(), key=lambda result: result.finished)
        )
        for files in agreeing.values()
    }
    return merged, [line for line in lines.values() if line]


def _describe_contradiction(results: Mapping[Path, Result]) -> str:
    """One line where files of one training differ in what both hold; empty where they agree."""
    differ = dict.fromkeys(
        what for pair in combinations(results.values(), 2) for what in find_differences(*pair)
    )
    if not differ:
        return ""
    files = " and ".join(map(str, results))
    return (
        f"the results {files} are of the same training but differ in {', '.join(differ)}; none is used, keep the right "
        "one"
    )
