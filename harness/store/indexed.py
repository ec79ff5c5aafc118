"""Results from the index: light records that read their curves from the result files on demand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from pydantic import PrivateAttr

from harness.errors import UserError
from harness.formatting import count_of
from harness.store.columns import ColumnArray, Tables, tables_of
from harness.store.schema import BACKEND_VERSION, Result

#: reads a result file; raises UserError for one that cannot be used
ReadResult = Callable[[Path], Result]
#: finds for each evaluation whether it is PRESENT, or what has changed since: indices into texts, and the texts
Judge = Callable[["IndexedResults"], tuple[ColumnArray, list[str]]]
#: judgements of an evaluation: a plan would use the same code, data and values of run and suite now; or unknown
PRESENT, UNKNOWN = "present", ""


class StaleIndexError(UserError):
    """A result file differs from its entry in the index."""


class IndexedResult(Result):
    """A result of the index. Evaluations come from the index, curves from the result file at each use.

    A file that has become unusable raises StaleIndexError then.
    """

    _owner: IndexedResults = PrivateAttr()
    _row: int = PrivateAttr()

    @property
    def best_dev(self) -> float | None:
        """The best dev score; None for a method that does not train."""
        best = float(self._owner.tables.runs["best"][self._row])
        return None if math.isnan(best) else best

    @property
    def suites(self) -> list[str]:
        tables = self._owner.tables
        places = tables.evaluations["suite"][slice(*tables.evaluations_from[self._row : self._row + 2])]
        return list(dict.fromkeys(map(tables.texts.__getitem__, places.tolist())))

    @property
    def stamp(self) -> str:
        """Identifies the state of its file; empty if uncertain."""
        runs = self._owner.tables.runs
        mtime = int(runs["mtime"][self._row])
        return "" if self._row in self._owner.joined or mtime < 0 else f"{runs['size'][self._row]} {mtime}"

    def whole(self) -> Result:
        """The result as stored in its file. Raises StaleIndexError if that is gone, damaged or of another training."""
        owner, runs = self._owner, self._owner.tables.runs
        if self._row in owner.joined:
            return owner.joined[self._row]
        path = owner.root / owner.tables.text(runs["path"], self._row)
        try:
            stored = owner.read(path)
        except UserError as error:
            raise StaleIndexError(str(error)) from error
        if stored.fingerprint != owner.tables.text(runs["fingerprint"], self._row):
            raise StaleIndexError(f"the result {path} has changed in the meantime; run the same command again")
        return stored

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "evaluations":
                return self._owner.tables.evaluations_of(self._row)
            return getattr(self.whole(), name) if name in ("dev", "losses", "identity") else super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        return self.whole() == (other.whole() if isinstance(other, IndexedResult) else other)

    __hash__ = None  # type: ignore[assignment]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Result:  # type: ignore[override]
        return self.whole().model_copy(update=update, deep=deep)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return self.whole().model_dump(**options)

    def model_dump_json(self, **options: Any) -> str:
        return self.whole().model_dump_json(**options)


class IndexedResults(Sequence[Result]):
    """The results of a folder, or some of them. `problems` has one line for each file that cannot be used."""

    def __init__(
        self,
        root: Path,
        read: ReadResult,
        tables: Tables,
        joined: Mapping[int, Result],
        problems: Sequence[str],
        judge: Judge | None = None,
    ) -> None:
        """`joined` are the results, by row, that were merged from several files; `judge` is called by `frame_of`."""
        self.root, self.read, self.tables, self.joined, self.problems = root, read, tables, joined, problems
        self.judge = judge

    @classmethod
    def of(cls, root: Path, read: ReadResult, files: Tables) -> IndexedResults:
        """The results of files: those of one training are merged, those that cannot be used are left out."""
        problem = files.runs["problem"]
        usable = np.flatnonzero(problem == _place(files.texts, ""))
        problems = [files.text(problem, row) for row in np.setdiff1d(np.arange(len(files)), usable)]
        tables, joined, contradictions = _one_a_training(root, read, files.take(usable) if problems else files)
        return cls(root, read, tables, joined, problems + contradictions)

    def __len__(self) -> int:
        return len(self.tables)

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> IndexedResults: ...

    def __getitem__(self, index: int | slice) -> Result | IndexedResults:
        rows = range(len(self))[index]
        if isinstance(rows, range):
            return self._some(np.array(rows, dtype=np.int64))
        result = IndexedResult.model_construct(**self.tables.fields(rows))
        del result.__dict__["identity"]  # the default; the file's own is read on access
        result._owner, result._row = self, rows
        return result

    def judged(self, judge: Judge | None) -> IndexedResults:
        return IndexedResults(self.root, self.read, self.tables, self.joined, self.problems, judge)

    def where(self, kept: Sequence[bool]) -> IndexedResults:
        """The results marked true in `kept`, which has one mark per result."""
        return self._some(np.flatnonzero(kept))

    def of_profile(self, name: str) -> IndexedResults:
        return self._some(np.flatnonzero(self.tables.runs["profile"] == _place(self.tables.texts, name)))

    def times(self) -> Iterator[tuple[str, str, float, dict[str, float]]]:
        """For each result: method, encoder, and the seconds of training and of each suite's newest evaluation."""
        tables = self.tables
        suites = [tables.texts[number] for number in tables.evaluations["suite"].tolist()]
        seconds, starts = tables.evaluations["seconds"].tolist(), tables.evaluations_from.tolist()
        runs = tables.of_runs("method"), tables.of_runs("encoder"), tables.runs["train_seconds"].tolist()
        for method, encoder, training, start, stop in zip(*runs, starts, starts[1:], strict=False):
            yield method, encoder, training, dict(zip(suites[start:stop], seconds[start:stop], strict=True))

    def _some(self, rows: ColumnArray) -> IndexedResults:
        if np.array_equal(rows, np.arange(len(self))):
            return self
        joined = {new: self.joined[old] for new, old in enumerate(rows.tolist()) if old in self.joined}
        return IndexedResults(self.root, self.read, self.tables.take(rows), joined, self.problems, self.judge)


class Chosen(Sequence[Result]):
    """Some of many results in a given order; each is created on access and not kept."""

    def __init__(self, results: Sequence[Result], places: Sequence[int]) -> None:
        """`places` are the indices of the chosen results."""
        self.results, self.places = results, places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> Chosen: ...

    def __getitem__(self, index: int | slice) -> Result | Chosen:
        chosen = self.places[index]
        return self.results[chosen] if isinstance(chosen, int) else Chosen(self.results, chosen)


def tables_in(results: Sequence[Result]) -> Tables:
    """The columns of results."""
    return results.tables if isinstance(results, IndexedResults) else tables_of(results)


def of_profile(results: Sequence[Result], name: str) -> Sequence[Result]:
    """The results of one profile."""
    if isinstance(results, IndexedResults):
        return results.of_profile(name)
    return [result for result in results if result.profile == name]


def without_overrides(
    results: Sequence[Result], profiles: Collection[str], variants: Collection[str] | None = None
) -> Sequence[Result]:
    """The results of some profiles, and of some variants unless they are None, without overrides."""
    tables = tables_in(results)
    columns = (tables.of_runs(name) for name in ("profile", "variant", "overrides"))
    kept = [
        profile in profiles and (variants is None or variant in variants) and overrides == "{}"
        for profile, variant, overrides in zip(*columns, strict=True)
    ]
    return some_of(results, kept)


def some_of(results: Sequence[Result], kept: Sequence[bool]) -> Sequence[Result]:
    """The results marked true in `kept`, which has one mark per result."""
    if isinstance(results, IndexedResults):
        return results.where(kept)
    return [result for result, mark in zip(results, kept, strict=True) if mark]


def earlier_backends(results: Sequence[Result]) -> str:
    """One line on the results made by earlier backends; empty if there are none."""
    tables = tables_in(results)
    places, used = np.unique(tables.runs["hyperparameters"], return_inverse=True)
    trained = [bool(json.loads(tables.texts[number]).get("training")) for number in places.tolist()]
    backends = tables.runs["backend"][np.array(trained, dtype=bool)[used]]
    earlier: list[int] = backends[backends < BACKEND_VERSION].tolist()
    if not earlier:
        return ""
    versions = " and ".join(map(str, sorted(set(earlier))))
    were = "was" if len(earlier) == 1 else "were"
    return (
        f"{count_of(len(earlier), 'result')} {were} made by backend {versions}, the current one is {BACKEND_VERSION}: "
        "the numbers have changed (CHANGELOG.md); `harness run` with their options trains them again"
    )


def joined(results: Mapping[Path, Result]) -> tuple[dict[Path, Result], list[str]]:
    """Results by path, those of one training and key merged under their first, and a line for each contradiction."""
    trainings: dict[str, dict[Path, Result]] = {}
    for path, result in results.items():
        trainings.setdefault(result.fingerprint, {})[path] = result
    lines = {fingerprint: _contradiction(files) for fingerprint, files in trainings.items()}
    agreeing: dict[tuple[str, str, str], dict[Path, Result]] = {}
    for path, result in results.items():
        if not lines[result.fingerprint]:
            agreeing.setdefault((result.profile, result.spec.key, result.fingerprint), {})[path] = result
    merged = {
        next(iter(files)): reduce(Result.merged, sorted(files.values(), key=lambda result: result.finished))
        for files in agreeing.values()
    }
    return merged, [line for line in lines.values() if line]


def _contradiction(results: Mapping[Path, Result]) -> str:
    """One line where files of one training differ in what both hold; empty where they agree."""
    scores: dict[tuple[str, str], Any] = {}
    differ: dict[str, None] = {}
    for result in results.values():
        held = {evaluation.key: (evaluation.scores, evaluation.parts) for evaluation in result.evaluations}
        for key, value in {**held, ("dev scores", ""): result.dev.scores}.items():
            if scores.setdefault(key, value) != value:
                differ[key[0]] = None
    if not differ:
        return ""
    files = " and ".join(map(str, results))
    return (
        f"the results {files} are of the same training but differ in {', '.join(differ)}; none "
        "is used, keep the right one"
    )


def _one_a_training(root: Path, read: ReadResult, tables: Tables) -> tuple[Tables, dict[int, Result], list[str]]:
    """The tables with one row per training, the merged results by row, and a line for each contradiction."""
    fingerprints = tables.runs["fingerprint"]
    several = np.flatnonzero(np.bincount(fingerprints, minlength=1)[fingerprints] > 1).tolist()
    rows = {root / tables.text(tables.runs["path"], row): row for row in several}
    results = {path: read(path) for path in rows}
    kept, contradictions = joined(results)
    dropped = {row for path, row in rows.items() if path not in kept}
    if not dropped:
        return tables, {}, []
    firsts = {rows[path]: result for path, result in kept.items() if result is not results[path]}
    places = dict(zip(firsts, range(len(tables), len(tables) + len(firsts)), strict=True))
    order = [places.get(row, row) for row in range(len(tables)) if row not in dropped]
    both = tables.with_more(tables_of(firsts.values())).take(np.array(order, dtype=np.int64))
    back = {row: first for first, row in places.items()}
    return both, {new: firsts[back[row]] for new, row in enumerate(order) if row in back}, contradictions


def _place(texts: Sequence[str], text: str) -> int:
    """The index of a text; -1 if it does not occur."""
    return texts.index(text) if text in texts else -1
