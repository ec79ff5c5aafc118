"""Reading of schema 1, the result files of earlier versions.

A schema-1 file had one protocol and one set of scores a suite, parts of tasks in the names of metrics
(`spearman[MSRvid]`), arrays named by text (`TASK.what[space]`), and a file name made of a fingerprint of training and
suites together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import JsonValue

from harness.errors import UserError
from harness.metrics import ArrayName, Metric
from harness.registry import get, names
from harness.store.schema import (
    DevCurve,
    Evaluation,
    LossCurves,
    Protocol,
    Result,
    ScoresByPart,
    ScoresByTask,
    Spec,
    Stored,
    TeacherUse,
)

_OLD_FILE = re.compile(r"seed-[0-9]+-[0-9a-f]{12}")
_TEACHER = re.compile(r"(?P<teacher>.+) \((?P<of>image|caption|tokens)\)")
_ARRAY = re.compile(r"(?P<task>.+)\.(?P<what>\w+)(?:\[(?P<space>\w+)\])?")


class OldTimings(Stored):
    """Wall time in seconds."""

    train_s: float
    evaluate_s: dict[str, float]
    total_s: float


class OldResult(Stored):
    """A result file of schema 1."""

    schema_version: Literal[1]
    spec: Spec
    profile: str
    overrides: dict[str, JsonValue]
    fingerprint: str
    group: str
    training_fingerprint: str
    hyperparameters: dict[str, dict[str, JsonValue]]
    scores: dict[str, ScoresByTask]
    protocols: dict[str, Protocol]
    dev: DevCurve
    losses: LossCurves
    timings: OldTimings
    peak_memory_mb: float
    hardware: dict[str, JsonValue]
    packages: dict[str, str]
    revision: str | None
    started: str
    finished: str
    warnings: list[str]

    def upgraded(self) -> Result:
        """The same result in schema 2, every number unchanged."""
        hyperparameters = dict(self.hyperparameters)
        teachers = hyperparameters.pop("teachers", {})
        evaluations = [self._evaluation(suite) for suite in self.scores]
        assigned = {line for evaluation in evaluations for line in evaluation.warnings}
        shared = OldResult.model_fields.keys() & Result.model_fields.keys() - {"schema_version"}
        fields = {name: getattr(self, name) for name in shared}
        changes = {
            "profile_origin": "unknown",
            "fingerprint": self.training_fingerprint,
            "hyperparameters": hyperparameters,
            "teachers": {role: _teacher(str(text)) for role, text in teachers.items()},
            "evaluations": evaluations,
            "train_seconds": self.timings.train_s,
            "warnings": [line for line in self.warnings if line not in assigned],
        }
        return Result.model_validate(fields | changes)

    def _evaluation(self, suite: str) -> Evaluation:
        scores, parts = split_parts(self.scores[suite])
        return Evaluation(
            suite=suite,
            protocol=self.protocols[suite].model_copy(update={"metrics": suite_metrics(suite)}),
            scores=scores,
            parts=parts,
            seconds=self.timings.evaluate_s.get(suite, 0.0),
            warnings=[line for line in self.warnings if line.startswith(f"{suite}: ")],
            finished=self.finished,
        )


def has_old_name(path: Path) -> bool:
    """Whether a result file, or a file beside one, is named as schema 1 named it."""
    return _OLD_FILE.fullmatch(path.name.partition(".")[0]) is not None


class OldHeader(NamedTuple):
    """What finds the files of one training, since their names do not."""

    training_fingerprint: str
    finished: str


def old_header(path: Path) -> OldHeader:
    """The header of a schema-1 file. Raises UserError for a damaged file."""
    return _old_header(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=100_000)
def _old_header(path: Path, modified: int) -> OldHeader:
    try:
        content = json.loads(path.read_bytes())
        return OldHeader(str(content["training_fingerprint"]), str(content["finished"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"the result {path} is damaged; restore it, or move it away to repeat that run") from error


def split_parts(scores: ScoresByTask) -> tuple[ScoresByTask, ScoresByPart]:
    """Scores of whole tasks, and those that schema 1 wrote as `metric[part]` by task and part."""
    whole: ScoresByTask = {}
    parts: ScoresByPart = {}
    for task, row in scores.items():
        whole[task] = {}
        for name, value in row.items():
            metric, bracket, part = name.partition("[")
            if bracket:
                parts.setdefault(task, {}).setdefault(part.removesuffix("]"), {})[metric] = value
            else:
                whole[task][metric] = value
    return whole, parts


def array_names(texts: Iterable[str]) -> dict[str, ArrayName]:
    """Schema-1 array names `TASK.what[space]` as data. Raises UserError for a text of another form."""
    found = {text: _ARRAY.fullmatch(text) for text in texts}
    wrong = [text for text, match in found.items() if match is None]
    if wrong:
        raise UserError(f"'{wrong[0]}' is not the name of an array, TASK.what[space]; restore the file it is in")
    return {text: ArrayName(m["task"], m["what"], m["space"] or "") for text, m in found.items() if m}


def upgraded_failure(content: bytes) -> dict[str, JsonValue]:
    """A failure record of any schema as one of schema 2. Raises ValueError for text that is no JSON object."""
    record = dict(json.loads(content))
    return record if "schema_version" in record else {**record, "fingerprint": ""}


def version_of(content: bytes) -> int | None:
    """The schema version that a result file states; None where it states none."""
    try:
        version = json.loads(content)["schema_version"]
    except (ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) else None


def _teacher(text: str) -> TeacherUse:
    """A teacher that schema 1 wrote as `clip (image)`."""
    match = _TEACHER.fullmatch(text)
    if match is None:
        raise UserError(f"'{text}' is not a teacher of schema 1, NAME (image|caption|tokens)")
    return TeacherUse.model_validate(match.groupdict())


@cache
def suite_metrics(suite: str) -> tuple[Metric, ...]:
    """The metrics of an installed suite; none for an unknown one."""
    if suite not in names("suite"):
        return ()
    return tuple(metric for metric in get("suite", suite).metrics if isinstance(metric, Metric))
