"""Upgrades of records of earlier schemas when they are read.

Schema 2 had the same records as schema 3, in files without a digest of themselves.

Schema 1 had one protocol and one set of scores per suite, parts of tasks in the names of metrics (`spearman[MSRvid]`),
arrays named by text (`TASK.what[space]`), and file names from a fingerprint of training and suites together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.metrics import ArrayName, Metric
from harness.registry import get, names
from harness.store.schema import ScoresByPart, ScoresByTask

#: a parsed JSON object
Content = dict[str, Any]

_OLD_FAILURE = re.compile(r"[0-9a-f]{12}")
_OLD_FILE = re.compile(r"seed-[0-9]+-[0-9a-f]{12}")
_TEACHER = re.compile(r"(?P<teacher>.+) \((?P<of>image|caption|tokens)\)")
_ARRAY = re.compile(r"(?P<task>.+)\.(?P<what>\w+)(?:\[(?P<space>\w+)\])?")


def upgraded_result(content: Content) -> Content:
    """A result of an older schema in the current one, every number unchanged; others are returned as they are.

    Raises KeyError, TypeError, AttributeError or ValueError for damaged content.
    """
    known = _from_schema_1(content) if content["schema_version"] == 1 else content
    return {**known, "schema_version": 3} if known["schema_version"] == 2 else known


def upgraded_failure(content: Content) -> Content:
    """A failure record of an older schema in the current one. Schema 1 stated no version and no training."""
    known = content if "schema_version" in content else {**content, "schema_version": 2, "fingerprint": ""}
    return {**known, "schema_version": 3} if known["schema_version"] == 2 else known


def _from_schema_1(old: Content) -> Content:
    evaluations = [_evaluation(old, suite) for suite in old["scores"]]
    assigned = {line for evaluation in evaluations for line in evaluation["warnings"]}
    replaced = {"training_fingerprint", "scores", "protocols", "timings"}
    return {name: value for name, value in old.items() if name not in replaced} | {
        "schema_version": 2,
        "profile_origin": "unknown",
        "fingerprint": old["training_fingerprint"],
        "hyperparameters": {part: values for part, values in old["hyperparameters"].items() if part != "teachers"},
        "teachers": {role: _teacher(text) for role, text in old["hyperparameters"].get("teachers", {}).items()},
        "evaluations": evaluations,
        "train_seconds": old["timings"]["train_s"],
        "warnings": [line for line in old["warnings"] if line not in assigned],
    }


def _evaluation(old: Content, suite: str) -> Content:
    scores, parts = _split_parts(old["scores"][suite])
    return {
        "suite": suite,
        "protocol": {**old["protocols"][suite], "metrics": suite_metrics(suite)},
        "scores": scores,
        "parts": parts,
        "seconds": old["timings"]["evaluate_s"].get(suite, 0.0),
        "warnings": [line for line in old["warnings"] if line.startswith(f"{suite}: ")],
        "finished": old["finished"],
    }


def _split_parts(scores: ScoresByTask) -> tuple[ScoresByTask, ScoresByPart]:
    """Scores of whole tasks, and those of `metric[part]` by task and part."""
    whole: ScoresByTask = {task: {} for task in scores}
    parts: ScoresByPart = {}
    for task, row in scores.items():
        for name, value in row.items():
            metric, bracket, part = name.partition("[")
            place = parts.setdefault(task, {}).setdefault(part.removesuffix("]"), {}) if bracket else whole[task]
            place[metric] = value
    return whole, parts


def _teacher(text: str) -> dict[str, str]:
    """A teacher that schema 1 wrote as `clip (image)`."""
    match = _TEACHER.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a teacher of schema 1, NAME (image|caption|tokens)")
    return match.groupdict()


@cache
def suite_metrics(suite: str) -> tuple[Metric, ...]:
    """The metrics of an installed suite; none for an unknown one."""
    return tuple(get("suite", suite).metrics) if suite in names("suite") else ()


def array_names(texts: Iterable[str]) -> dict[str, ArrayName]:
    """Schema-1 array names `TASK.what[space]` as data. Raises UserError for a text of another form."""
    found = {}
    for text in texts:
        match = _ARRAY.fullmatch(text)
        if match is None:
            raise UserError(f"'{text}' is not the name of an array, TASK.what[space]; restore the file it is in")
        found[text] = ArrayName(match["task"], match["what"], match["space"] or "")
    return found


def has_old_name(path: Path) -> bool:
    """Whether a result file, or a file beside one, is named as schema 1 named it."""
    return _OLD_FILE.fullmatch(path.name.partition(".")[0]) is not None


def old_failures(folder: Path) -> list[Path]:
    """The failure records of schema 1, whose names are those of no training."""
    return [path for path in sorted(folder.glob("*.json")) if _OLD_FAILURE.fullmatch(path.stem)]


def old_files(path: Path, fingerprint: str) -> list[Path]:
    """The schema-1 files of a training, whose file in this schema is `path`, oldest first.

    Raises UserError for a damaged file.
    """
    found = []
    for each in filter(has_old_name, path.parent.glob(f"{path.stem.rpartition('-')[0]}-*.json")):
        try:
            content = json.loads(each.read_bytes())
            if content["training_fingerprint"] == fingerprint:
                found.append((content["finished"], each))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"the result {each} is damaged; restore it, or move it away to repeat that run") from error
    return [each for _, each in sorted(found)]
