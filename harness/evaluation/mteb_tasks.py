"""mteb's own tasks by name: their type, whether their data are present, and how to get them.

Importing mteb takes seconds. Its facts on a task are therefore kept in the cache folder, by mteb's version, so that
planning a suite imports it once; evaluating and fetching always do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.checksums import keep_note, kept_note
from harness.errors import UserError
from harness.sources import Missing, Source, digest

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask


@dataclass(frozen=True)
class MissingTask(Missing):
    """A task of mteb without its data: its name and subsets, and the hub's data set with its commit and licence."""

    task: str
    subsets: tuple[str, ...]
    hub: str
    revision: str
    licence: str | None

    def fetch(self) -> None:
        """Download the data into the cache that the task is read from. Raises what mteb and its clients raise."""
        import mteb
        from datasets import disable_progress_bars

        disable_progress_bars()
        mteb.get_task(self.task, hf_subsets=list(self.subsets)).load_data()


@dataclass(frozen=True)
class KnownTask:
    """mteb's facts on a task. `folder` is the name of its data in the cache of `datasets`, `tables` the least
    number of tables that a complete download has: a retrieval task needs documents, queries and judgements.
    """

    name: str
    dataset: Mapping[str, Any]
    splits: tuple[str, ...]
    subsets: tuple[str, ...]
    licence: str | None
    folder: str
    tables: int

    @classmethod
    def of(cls, task: AbsTask) -> KnownTask:
        """Read it from an instance of mteb's task class."""
        from datasets.naming import camelcase_to_snakecase
        from mteb.abstasks import AbsTaskRetrieval

        about = task.metadata
        *owner, name = about.dataset["path"].split("/")
        return cls(
            about.name,
            about.dataset,
            tuple(task.eval_splits),
            tuple(task.hf_subsets),
            about.license,
            "___".join([*owner, camelcase_to_snakecase(name)]),
            3 if isinstance(task, AbsTaskRetrieval) else 1,
        )

    @property
    def is_cached(self) -> bool:
        """Whether `datasets` has its data, in the folders name/config/version/revision."""
        found = (datasets_cache() / self.folder).glob(f"*/*/{self.dataset['revision']}")
        return sum(1 for _ in found) >= self.tables

    @property
    def missing(self) -> MissingTask:
        """The task as a missing input of a run."""
        how = f"download it when online, with: python -c \"import mteb; mteb.get_task('{self.name}').load_data()\""
        path, revision = self.dataset["path"], self.dataset["revision"]
        return MissingTask(f"the mteb task {self.name}", how, self.name, self.subsets, path, revision, self.licence)


class OwnTasks(Source):
    """Tasks of mteb: one by its name, or a part of a benchmark."""

    def __init__(self, name: str) -> None:
        self.name = name

    def missing(self, root: Path | None) -> list[Missing]:
        """List the tasks whose data are not in the local cache."""
        return [task.missing for task in self.known() if not task.is_cached]

    def fingerprint(self, root: Path | None) -> str:
        """Hash names, pinned revisions, splits and subsets."""
        return digest([[task.name, task.dataset, task.splits, task.subsets] for task in self.known()])

    def known(self) -> list[KnownTask]:
        """List the tasks with data: an aggregate such as CQADupstackRetrieval counts as its parts. Raises UserError."""
        note = f"mteb/{digest('tasks', version('mteb'), self.name)}.json"
        noted = kept_note(note, "it is read from mteb again")
        if noted is not None:
            return [_task(row) for row in noted["tasks"]]
        parts = [part for task in self.build() for part in getattr(task.metadata, "tasks", None) or [task]]
        found = [KnownTask.of(part) for part in parts]
        keep_note(note, {"tasks": [asdict(task) for task in found]})
        return found

    def build(self) -> list[AbsTask]:
        """Instantiate mteb's task classes. Raises UserError for a name that mteb does not know."""
        import mteb

        benchmark, colon, part = self.name.rpartition(":")
        try:
            if not colon:
                return [mteb.get_task(self.name)]
            tasks = list(mteb.get_benchmark(benchmark).tasks)
        except KeyError as error:
            raise UserError(f"mteb task '{self.name}': {error.args[0].removeprefix('KeyError: ')}") from error
        chosen = [task for task in tasks if part in (task.metadata.type, task.metadata.name)]
        if not chosen:
            types = ", ".join(sorted({task.metadata.type for task in tasks}))
            raise UserError(f"the mteb benchmark '{benchmark}' has no type or task '{part}'; its types are {types}")
        return chosen


def _task(row: Mapping[str, Any]) -> KnownTask:
    """A task as kept in the cache folder."""
    return KnownTask(**{**row, "splits": tuple(row["splits"]), "subsets": tuple(row["subsets"])})


def datasets_cache() -> Path:
    """The folder in which `datasets` keeps its data, by the variables that it reads; its import takes seconds."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.environ.get("HF_DATASETS_CACHE") or Path(home, "datasets").expanduser())
