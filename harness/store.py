"""results/ as the database: one JSON file a run, whole or not there, never overwritten.

RESULTS/PROFILE/VARIANT/SETTING/ENCODER/seed-N-FINGERPRINT.json   a run that ended well
RESULTS/.../seed-N-FINGERPRINT.figures.npz                        arrays that figures of it are drawn from
RESULTS/.../seed-N-FINGERPRINT.log                                what happened while it ran, a line an event
RESULTS/failed/FINGERPRINT.json                                   the last failure of a run, its log beside it
RESULTS/.work/TRAINING-FINGERPRINT/                               checkpoints and best models
RESULTS/.locks/                                                   one lock a run
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import UserError
from harness.sources import read_arrays, write_arrays, write_text

if TYPE_CHECKING:
    import numpy as np
    import pandas

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
_SAFE = "[]=,+@.:-_"


class Record(BaseModel):
    """A part of a result file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Spec(Record):
    """What was run. `variant` is the whole method variant, `method` its name alone."""

    method: str
    variant: str
    setting: str
    encoder: str
    seed: int

    @property
    def key(self) -> str:
        """The run's key, as `str(RunSpec)` prints it."""
        return f"{self.variant}/{self.setting}/{self.encoder}/seed-{self.seed}"


class DevCurve(Record):
    """The dev score every eval_every steps; empty for a method that does not train."""

    task: str
    metric: str
    steps: list[int]
    scores: list[float]
    best_step: int | None
    best_score: float | None


class LossCurves(Record):
    """Mean of each unweighted loss term since the last point; null where the term did not occur."""

    steps: list[int]
    terms: dict[str, list[float | None]]


class Protocol(Record):
    """What a suite's scores were computed by and on."""

    version: int
    data: str


class Timings(Record):
    """Wall time in seconds."""

    train_s: float
    evaluate_s: dict[str, float]
    total_s: float


class Result(Record):
    """A result file. Correlations are x 100; `scores[suite]['Avg']` is the mean over the suite's tasks."""

    schema_version: int
    spec: Spec
    profile: str
    overrides: dict[str, Any]
    fingerprint: str
    group: str
    training_fingerprint: str
    hyperparameters: dict[str, dict[str, Any]]
    scores: dict[str, dict[str, dict[str, float]]]
    protocols: dict[str, Protocol]
    dev: DevCurve
    losses: LossCurves
    timings: Timings
    peak_memory_mb: float
    hardware: dict[str, Any]
    packages: dict[str, str]
    revision: str | None
    started: str
    finished: str
    warnings: list[str]


class Failure(Record):
    """A run that did not end well: listed, not tabled."""

    spec: Spec
    profile: str
    fingerprint: str
    error: str
    traceback: str
    when: str


class Store:
    """The results below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, result: Result) -> Path:
        """Where a result belongs."""
        parts = self.parts(result.profile, result.spec)
        return self.root.joinpath(*parts) / f"seed-{result.spec.seed}-{result.fingerprint[:12]}.json"

    @staticmethod
    def parts(profile: str, spec: Any) -> tuple[str, str, str, str]:
        """The folders of a run's results, from a Spec or a RunSpec."""
        variant, setting, encoder = (
            quote(str(part), safe=_SAFE) for part in (spec.variant, spec.setting, spec.encoder)
        )
        return quote(profile, safe=_SAFE), variant, setting, encoder

    def work(self, training_fingerprint: str) -> Path:
        """The folder of a training: its checkpoint and best model."""
        return self.root / ".work" / training_fingerprint[:32]

    def save(self, result: Result) -> Path:
        """Write a result. Suites may be added to a finished one; a score that is there is never changed."""
        path = self.path(result)
        if path.exists():
            result = _extended(self.read(path), result)
        write_text(path, json.dumps(result.model_dump(), ensure_ascii=False, allow_nan=False) + "\n")
        for suffix in (".log", ".json"):
            self._failure(result.fingerprint).with_suffix(suffix).unlink(missing_ok=True)
        return path

    def save_arrays(self, result: Result, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a result's arrays, before the result; names may be added, an array that is there is never changed."""
        there = self.arrays(result)
        if not arrays.keys() <= there.keys():
            write_arrays(self.path(result).with_suffix(".figures.npz"), {**arrays, **there})

    def arrays(self, result: Result) -> Mapping[str, np.ndarray]:
        """A result's arrays by name; empty where there are none. Raises UserError for a damaged file."""
        path = self.path(result).with_suffix(".figures.npz")
        return read_arrays(path) if path.is_file() else {}

    def save_log(self, result: Result, text: str) -> None:
        """Write a result's log, before the result; lines may be added, a line that is there is never changed."""
        there = self.log(result)
        write_text(self.path(result).with_suffix(".log"), text if text.startswith(there) else there + text)

    def log(self, result: Result) -> str:
        """A result's log, a line an event; empty where there is none."""
        path = self.path(result).with_suffix(".log")
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def read(self, path: Path) -> Result:
        """Read one file. Raises UserError naming it when it is cut short or edited into nonsense."""
        try:
            result = Result.model_validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise UserError(
                f"the result {path} cannot be used ({place + ': ' if place else ''}{first['msg']}); "
                "restore it, or move it away to run that experiment again"
            ) from error
        if result.schema_version != SCHEMA_VERSION:
            raise UserError(f"the result {path} has schema {result.schema_version}, this version has {SCHEMA_VERSION}")
        return result

    def load(self) -> tuple[list[Result], list[str]]:
        """All results, and one line for each file that cannot be used."""
        results, problems = [], []
        for path in self.files():
            try:
                results.append(self.read(path))
            except UserError as error:
                problems.append(str(error))
        return results, problems

    def files(self) -> list[Path]:
        """All result files, sorted; work, locks and failures are not among them."""
        return sorted(self.root.glob("[!.]*/*/*/*/seed-*.json"))

    def index(self) -> dict[str, Path]:
        """Result files by the first twelve digits of their fingerprint, from their names alone."""
        return {path.stem.rpartition("-")[2]: path for path in self.files()}

    def find(self, fingerprint: str, index: dict[str, Path] | None = None) -> Result | None:
        """The finished result of an experiment. Raises UserError when its file is damaged."""
        path = (self.index() if index is None else index).get(fingerprint[:12])
        result = self.read(path) if path else None
        return result if result and result.fingerprint == fingerprint else None

    def frame(self, results: list[Result] | None = None) -> pandas.DataFrame:
        """One row a number, with the columns FRAME_COLUMNS; `dev` is the run's best dev score, None without one."""
        import pandas

        columns: dict[str, list[Any]] = {name: [] for name in FRAME_COLUMNS}
        for result in self.load()[0] if results is None else results:
            for row in _rows(result):
                for name, value in zip(FRAME_COLUMNS, row, strict=True):
                    columns[name].append(value)
        return pandas.DataFrame(columns)

    @contextmanager
    def lock(self, training_fingerprint: str) -> Iterator[bool]:
        """Hold a run's lock; gives False at once when another process holds it."""
        folder = self.root / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        guard = FileLock(folder / f"{training_fingerprint[:32]}.lock")
        try:
            guard.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            guard.release()

    def save_failure(self, failure: Failure, log: str = "") -> Path:
        """Record a failure and the run's log; the latest of a run replaces the one before."""
        path = self._failure(failure.fingerprint)
        if log:
            write_text(path.with_suffix(".log"), log)
        write_text(path, json.dumps(failure.model_dump(), ensure_ascii=False, indent=1) + "\n")
        return path

    def failures(self) -> list[Failure]:
        """The failures on record, by run."""
        found = []
        for path in sorted((self.root / "failed").glob("*.json")):
            try:
                found.append(Failure.model_validate_json(path.read_bytes()))
            except ValidationError as error:
                log.warning("the failure record %s cannot be read (%s); remove it", path, error.errors()[0]["msg"])
        return sorted(found, key=lambda failure: failure.spec.key)

    def _failure(self, fingerprint: str) -> Path:
        return self.root / "failed" / f"{fingerprint[:12]}.json"


FRAME_COLUMNS = (
    *("profile", "method", "variant", "setting", "encoder", "seed", "overrides", "fingerprint", "group"),
    *("suite", "task", "metric", "value", "finished", "dev", "minutes"),
)


def _rows(result: Result) -> Iterator[tuple[Any, ...]]:
    overrides = ",".join(f"{key}={value}" for key, value in sorted(result.overrides.items()))
    names = (getattr(result.spec, name) for name in FRAME_COLUMNS[1:6])
    head = (result.profile, *names, overrides, result.fingerprint, result.group)
    tail = (result.finished, result.dev.best_score, result.timings.train_s / 60)
    for suite, tasks in result.scores.items():
        for task, metrics in tasks.items():
            for metric, value in metrics.items():
                yield (*head, suite, task, metric, value, *tail)


def _extended(old: Result, new: Result) -> Result:
    """The old result with the suites that only the new one has."""
    if old.fingerprint != new.fingerprint:
        raise UserError(f"two experiments share the file of {old.spec.key}; move one of them away")
    added = [suite for suite in new.scores if suite not in old.scores]
    seconds = {suite: new.timings.evaluate_s[suite] for suite in added}
    return old.model_copy(
        update={
            "scores": {**old.scores, **{suite: new.scores[suite] for suite in added}},
            "protocols": {**old.protocols, **{suite: new.protocols[suite] for suite in added}},
            "timings": old.timings.model_copy(update={"evaluate_s": {**old.timings.evaluate_s, **seconds}}),
            "warnings": [*old.warnings, *(line for line in new.warnings if line not in old.warnings)],
        }
    )
