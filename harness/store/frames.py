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
    COUNTED,
    MEASURES,
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


def scored_name(measure: str) -> str:
    """The column of a counted measure up to the weights that are scored."""
    return f"scored_{measure}"


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
    **{name: measure.meaning for name, measure in MEASURES.items()},
    **{
        scored_name(name): f"{MEASURES[name].title} up to the scored weights, by steps"
        for name in COUNTED
    },
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
        from harness.store.index import take_table_rows

        problem_by_row = list_texts(files["problem"])
        usable = [row for row, problem in enumerate(problem_by_row) if not problem]
        problems = [problem for problem in problem_by_row if problem]
        table = take_table_rows(files, usable) if problems else files

        fingerprints = list_texts(table["fingerprint"])
        counts = Counter(fingerprints)
        if len(counts) == len(fingerprints):
            return cls(table, root, read, {}, problems)

        paths = list_texts(table["path"])
        repeated = {}
        for row, fingerprint in enumerate(fingerprints):
            if counts[fingerprint] > 1:
                repeated[root / paths[row]] = row
        return cls._of_repeated(root, read, table, problems, repeated)

    @classmethod
    def _of_repeated(
        cls,
        root: Path,
        read: Callable[[Path], Result],
        table: pyarrow.Table,
        problems: list[str],
        repeated: Mapping[Path, int],
    ) -> Frames:
        """The results of usable files, of which those `repeated`, path -> row, share a training."""
        from harness.store.index import join_tables, make_arrow_table, make_row, take_table_rows

        results = {path: read(path) for path in repeated}
        merged, contradictions = merge_by_training(results)
        dropped_rows = {row for path, row in repeated.items() if path not in merged}
        changed = dict[int, Result]()
        for path, result in merged.items():
            if result is not results[path]:
                changed[repeated[path]] = result
        # runs of two profiles may share a training
        if not dropped_rows and not changed:
            return cls(table, root, read, {}, problems)

        # a changed result has a row of its own behind those of the files
        rows = list[int]()
        held = dict[int, Result]()
        for row in range(len(table)):
            if row in dropped_rows:
                continue
            if row in changed:
                held[len(rows)] = changed[row]
            rows.append(row)

        new_rows = {row: len(table) + number for number, row in enumerate(changed)}
        all_rows = join_tables(table, make_arrow_table(map(make_row, changed.values())))
        table = take_table_rows(all_rows, [new_rows.get(row, row) for row in rows])
        return cls(table, root, read, held, problems + contradictions)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> Frames: ...

    def __getitem__(self, index: int | slice) -> Result | Frames:
        rows = range(len(self))[index]
        if isinstance(rows, range):
            return self.take_rows(rows)
        return self.result(rows)

    def result(self, row: int) -> Result:
        """The result of a run, read from its file. Raises UserError where that is damaged, gone, or
        of another run.
        """
        if row in self.held:
            return self.held[row]

        path = self.root / self.table["path"][row].as_py()
        result = self.read(path)
        if result.fingerprint != self.table["fingerprint"][row].as_py():
            raise UserError(
                f"the result {path} has changed in the meantime; run the same command again"
            )
        return result

    def iterate_readable(self) -> Iterator[Result]:
        """The results whose files can still be read."""
        for row in range(len(self)):
            with suppress(UserError):
                yield self.result(row)

    def judge_by(self, judge: Judge | None) -> Frames:
        return replace(self, judge=judge)

    def take_rows(self, rows: Sequence[int]) -> Frames:
        """The results of these rows, in that order."""
        from harness.store.index import take_table_rows

        held = {}
        for new_row, row in enumerate(rows):
            if row in self.held:
                held[new_row] = self.held[row]
        return replace(self, table=take_table_rows(self.table, rows), held=held)

    def where(self, **texts: Collection[str]) -> Frames:
        """The results whose columns have one of these texts; these frames themselves if all have."""
        rows: Sequence[int] = range(len(self))
        for name, wanted_texts in texts.items():
            column = self.texts(name)
            rows = [row for row in rows if column[row] in wanted_texts]
        return self if len(rows) == len(self) else self.take_rows(rows)

    def texts(self, name: str) -> list[str]:
        """A column of texts of `table`, which costs no import of pandas."""
        return list_texts(self.table[name])

    @cached_property
    def keys(self) -> list[str]:
        """Each run's key."""
        variants = self.texts("variant")
        settings = self.texts("setting")
        encoders = self.texts("encoder")
        seeds = self.table["seed"].to_pylist()
        names = zip(variants, settings, encoders, seeds, strict=True)
        return [
            f"{variant}/{setting}/{encoder}/seed-{seed}"
            for variant, setting, encoder, seed in names
        ]

    @cached_property
    def earlier(self) -> list[bool]:
        """Whether an earlier backend trained each run; a run without training has no backend."""
        values = self.texts("hyperparameters")
        backends = self.table["backend"].to_pylist()
        # few texts that many runs share
        with_training = {text for text in set(values) if json.loads(text).get("training")}

        earlier = []
        for text, backend in zip(values, backends, strict=True):
            earlier.append(text in with_training and backend < BACKEND_VERSION)
        return earlier

    def seeds_by_group(self) -> dict[str, set[int]]:
        """The seeds of the runs that are the same training but for the seed, by their `group`."""
        seeds: dict[str, set[int]] = {}
        for group, seed in zip(self.texts("group"), self.table["seed"].to_pylist(), strict=True):
            seeds.setdefault(group, set()).add(seed)
        return seeds

    @cached_property
    def runs(self) -> pandas.DataFrame:
        """One row per run: the columns of the index but `evaluations`, and those of `flat` that are
        a run's.

        Columns of JSON texts are those named in `harness.store.index.JSON`; `overrides_json` is the
        one of overrides.
        """
        names = [name for name in self.table.column_names if name not in ("problem", "evaluations")]
        columns: pandas.DataFrame = self.table.select(names).to_pandas()
        runs = columns.rename(columns={"overrides": "overrides_json"})
        values = runs["hyperparameters"]
        runs["overrides"] = _rename_categories(runs["overrides_json"], _format_overrides_json)
        runs["training"] = _rename_categories(values, _format_training)
        runs["pooling"] = _rename_categories(values, _find_pooling)
        runs["minutes"] = runs["train_seconds"] / 60

        # what the training had read and computed when the weights that are scored were kept
        share = runs["kept_step"] / runs["steps"]
        for name in COUNTED:
            runs[scored_name(name)] = runs[name] * share
        return runs

    @cached_property
    def numbers(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """The columns of numbers of `runs`, (R,) each."""
        columns = self.runs.select_dtypes("number")
        return {str(name): column.to_numpy() for name, column in columns.items()}

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

        states: Sequence[str] = [UNKNOWN] * len(self.evaluations)
        if self.judge is not None:
            states = self.judge(self)
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
        evaluation_table, _ = self._evaluation_rows
        score_table, evaluations = _flatten_lists(evaluation_table[name])
        scores: pandas.DataFrame = score_table.to_pandas()
        return scores.assign(evaluation=evaluations)

    def newest(self) -> pandas.DataFrame:
        """The newest evaluation of each suite of a run."""
        return self.evaluations.drop_duplicates(["run", "suite"], keep="last")

    def collect_times(self) -> dict[tuple[str, str], dict[str, list[float]]]:
        """Method and encoder -> seconds of trainings (''), of a step of each ('step'), and of
        newest evaluations.
        """
        evaluation_table, runs = self._evaluation_rows
        names = list_texts(evaluation_table["suite"])
        suite_seconds: list[dict[str, float]] = [{} for _ in range(len(self))]
        # later evaluations of a suite replace earlier ones
        for run, suite, seconds in zip(
            runs.tolist(), names, evaluation_table["seconds"].to_pylist(), strict=True
        ):
            suite_seconds[run][suite] = seconds

        methods = self.texts("method")
        encoders = self.texts("encoder")
        train_seconds = self.table["train_seconds"].to_pylist()
        steps = self.table["steps"].to_pylist()
        times: dict[tuple[str, str], dict[str, list[float]]] = {}
        for run, key in enumerate(zip(methods, encoders, strict=True)):
            run_times = {"": train_seconds[run]}
            if steps[run]:
                run_times["step"] = train_seconds[run] / steps[run]
            run_times |= suite_seconds[run]

            times_of_kind = times.setdefault(key, {})
            for name, seconds in run_times.items():
                times_of_kind.setdefault(name, []).append(seconds)

        return times

    def flat(self) -> pandas.DataFrame:
        """One row per score of a task or a part of it, with the columns FRAME_COLUMNS, in the order
        of evaluations.
        """
        import pandas

        evaluations = self.evaluations.assign(present=self.present)
        evaluations = evaluations[["run", *_OF_EVALUATIONS]]
        not_of_runs = (*_OF_EVALUATIONS, *_OF_SCORES)
        runs = self.runs[[name for name in FRAME_COLUMNS if name not in not_of_runs]]

        scores = pandas.concat([self.scores, self.parts])
        scores = scores.sort_values("evaluation", kind="stable", ignore_index=True)
        frame = scores.join(evaluations, on="evaluation").join(runs, on="run")
        return frame[[*FRAME_COLUMNS]]


def frames_of(results: Sequence[Result]) -> Frames:
    """The frames of results, of a folder or in memory."""
    from harness.store.index import make_arrow_table, make_row

    if isinstance(results, Frames):
        return results
    table = make_arrow_table(map(make_row, results))
    return Frames(table, Path(), _refuse_unread, dict(enumerate(results)))


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
    return [names[number] for number in _read_int32(array.indices).tolist()]


def _flatten_lists(column: pyarrow.ChunkedArray) -> tuple[pyarrow.Table, np.ndarray[Any, Any]]:
    """The members of lists, and for each the number of its list."""
    import pyarrow

    # an index has one piece, which would be copied
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    lengths = np.diff(_read_int32(array.offsets))
    owners = np.arange(len(array), dtype=np.int32).repeat(lengths)
    return pyarrow.Table.from_struct_array(array.flatten()), owners


def _read_int32(array: pyarrow.Int32Array) -> np.ndarray[Any, Any]:
    """The numbers of an array without missing ones, read from its buffer: pyarrow's conversion
    imports pandas.
    """
    if not len(array):
        return np.empty(0, np.int32)
    _, numbers = array.buffers()
    return np.frombuffer(numbers, np.int32, len(array), array.offset * np.int32().itemsize)


def _rename_categories(column: pandas.Series, rename: Callable[[str], str]) -> pandas.Series:
    """A column of categories under other names, which several may share."""
    import pandas

    texts = [rename(category) for category in column.cat.categories]
    codes, names = pandas.factorize(pandas.Index(texts, dtype=object))
    renamed = pandas.Categorical.from_codes(codes[column.cat.codes], names)
    return pandas.Series(renamed, column.index)


def _format_overrides_json(text: str) -> str:
    return format_overrides(json.loads(text))


def _format_training(text: str) -> str:
    return format_overrides(complete_training_values(json.loads(text)))


def _find_pooling(text: str) -> str:
    """The pooling in the JSON text of hyperparameters; '' where older results do not name it."""
    return str(json.loads(text).get("encoder", {}).get("pooling", ""))


@cache
def list_unjudged_metrics(suite: str) -> frozenset[str]:
    """The metrics that an installed suite declares as not judged; none for a suite that cannot be
    used.
    """
    try:
        metrics = get("suite", suite).metrics
    except UserError:
        return frozenset()
    return frozenset(metric.name for metric in metrics if not metric.judged)


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
                judged = metric.judged and metric.name not in list_unjudged_metrics(suite)
                metrics.setdefault(suite, {})[metric.name] = replace(metric, judged=judged)

    return metrics


@cache
def read_declared_metrics(protocol: str) -> tuple[Metric, ...]:
    """The metrics of the JSON text of a protocol."""
    return Protocol.model_validate_json(protocol).metrics


def describe_unscored_runs(results: Sequence[Result]) -> dict[tuple[str, str], list[str]]:
    """One line for each run with unscored tasks, which are missing from a frame: (profile, suite)
    -> lines.
    """
    frames = frames_of(results)
    newest = frames.newest()
    marked = [text for text in newest["warnings"].cat.categories if f": {NO_SCORE}: " in text]
    newest = newest[newest["warnings"].isin(marked)]

    lines: dict[tuple[str, str], list[str]] = {}
    for run, suite, warnings in zip(
        newest["run"], newest["suite"], newest["warnings"], strict=True
    ):
        tasks = describe_unscored_tasks(suite, json.loads(warnings))
        if tasks:
            key = (frames.runs["profile"][run], suite)
            lines.setdefault(key, []).append(f"{frames.keys[run]}: {tasks}")

    return lines


def format_overrides(overrides: Mapping[str, object]) -> str:
    """Overrides, or values of the training, as the frame's column holds them."""
    return ",".join(f"{key}={value}" for key, value in sorted(overrides.items()))


def describe_earlier_backends(results: Sequence[Result]) -> str:
    """One line on the results made by earlier backends; empty if there are none."""
    frames = frames_of(results)
    earlier = list(compress(frames.table["backend"].to_pylist(), frames.earlier))
    if not earlier:
        return ""

    versions = " and ".join(str(version) for version in sorted(set(earlier)))
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

    problems = {}
    for fingerprint, files in trainings.items():
        contradiction = _describe_contradiction(files)
        if contradiction:
            problems[fingerprint] = contradiction

    # one training may have the keys of several profiles or variants
    runs: dict[tuple[str, str, str], dict[Path, Result]] = {}
    for path, result in results.items():
        if result.fingerprint not in problems:
            key = (result.profile, result.spec.key, result.fingerprint)
            runs.setdefault(key, {})[path] = result

    merged = {}
    for files in runs.values():
        oldest_first = sorted(files.values(), key=lambda result: result.finished)
        merged[next(iter(files))] = reduce(Result.merge, oldest_first)
    return merged, list(problems.values())


def _describe_contradiction(results: Mapping[Path, Result]) -> str:
    """One line where files of one training differ in what both hold; empty where they agree."""
    differences = dict[str, None]()
    for first, second in combinations(results.values(), 2):
        differences.update(dict.fromkeys(find_differences(first, second)))
    if not differences:
        return ""

    files = " and ".join(map(str, results))
    return (
        f"the results {files} are of the same training but differ in {', '.join(differences)}; "
        "none is used, keep the right one"
    )
