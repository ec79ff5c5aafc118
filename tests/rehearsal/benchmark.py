"""The data sets of mteb's tasks that a profile names, in the hub's layouts and at the commits that mteb names."""

from __future__ import annotations

import io
from typing import Any

import pyarrow
from pyarrow import parquet
from standin import StandIn
from words import Writer

from harness.evaluation.mteb_suite import OwnTasks
from harness.profiles import Profile

ROWS = 12


def publish_tasks(standin: StandIn, profile: Profile) -> list[str]:
    """Put the data sets of a profile's suite `mteb` on the hub; the names of their tasks."""
    names = []
    for part in profile.suites["mteb"].tasks:
        own = (each for task in OwnTasks(part).build() for each in getattr(task.metadata, "tasks", None) or [task])
        for task in own:
            _publish(standin, task)
            names.append(str(task.metadata.name))
    return names


def _publish(standin: StandIn, task: Any) -> None:
    from mteb.abstasks import AbsTaskRetrieval

    about, (split, *_) = task.metadata.dataset, task.eval_splits
    if isinstance(task, AbsTaskRetrieval):
        tables = _retrieval(split)
    else:
        rows = _pairs() if task.metadata.type == "STS" else _classes()
        splits = {split} if task.metadata.type == "STS" else {"train", split}
        named = {config: {**rows, "lang": [config] * ROWS} for config in task.hf_subsets}
        tables = {(config, own): columns for config, columns in named.items() for own in sorted(splits)}
    lines = ["---", "configs:"]
    for config in dict.fromkeys(config for config, _ in tables):
        own = [f"{{split: {name}, path: {config}/{name}.parquet}}" for at, name in tables if at == config]
        lines += [f"- config_name: {config}", f"  data_files: [{', '.join(own)}]"]
    standin.hub_file(about["path"], "README.md", "\n".join([*lines, "---", ""]).encode(), about["revision"])
    for (config, name), rows in tables.items():
        stream = io.BytesIO()
        parquet.write_table(pyarrow.table(rows), stream)
        standin.hub_file(about["path"], f"{config}/{name}.parquet", stream.getvalue(), about["revision"])


def _pairs() -> dict[str, list[object]]:
    first, second = Writer(30).groups(2, ROWS, 8)
    return {"sentence1": [*first], "sentence2": [*second], "score": [row / 3 for row in range(ROWS)]}


def _classes() -> dict[str, list[object]]:
    return {"text": [*Writer(31).sentences(ROWS, 8)], "label": [row % 2 for row in range(ROWS)]}


def _retrieval(split: str) -> dict[tuple[str, str], dict[str, list[object]]]:
    """Documents, queries, judgements, and the candidates that a reranking task orders."""
    texts, numbers = Writer(32).sentences(ROWS, 8), [str(row) for row in range(ROWS)]
    queries = [f"q{number}" for number in numbers]
    return {
        ("default", split): {"query-id": [*queries], "corpus-id": [*numbers], "score": [1] * ROWS},
        ("corpus", "corpus"): {"_id": [*numbers], "title": [""] * ROWS, "text": [*texts]},
        ("queries", "queries"): {"_id": [*queries], "text": [*texts]},
        ("top_ranked", split): {"query-id": [*queries], "corpus-ids": [numbers] * ROWS},
    }
