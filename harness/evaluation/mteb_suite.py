"""MTEB tasks, run by the mteb package: its task classes, its scores, its result files.

A task name is one of:

- a registered offline task, such as `Banking77-file` (entry points `harness.mteb`);
- a task of mteb, such as `SICK-R`, with all its languages, mteb's default;
- BENCHMARK:PART, the tasks of one type of a benchmark, or one task, in the benchmark's languages:
  `MTEB(eng, v1):STS`. DALR Table 5 reports the types Reranking, Classification, Retrieval and STS
  of that benchmark (Muennighoff et al., 2023).

The data of mteb's own tasks must be in the local cache: nothing is downloaded. Importing mteb takes
seconds, so what it knows of a task is kept in the cache folder, by mteb's version.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import registry
from harness.caches import read_or_make_note
from harness.errors import MissingData, UserError
from harness.evaluation.mteb_local import OfflineTask, build
from harness.evaluation.suites import (
    Embedded,
    Embedder,
    NotFiniteError,
    Suite,
    SuiteScores,
    TaskScores,
    Values,
    score_tasks,
)
from harness.files import expand
from harness.metrics import AVERAGE, NO_SCORE, Metric, MetricWords
from harness.sources import Missing, Source, digest

if TYPE_CHECKING:
    from mteb import ResultCache
    from mteb.abstasks import AbsTask
    from mteb.models.model_meta import ModelMeta

#: Sentences in a batch of mteb; all batches of a call are embedded together, so it changes no
#: score.
_BATCH = 1024


class MTEBSuite(Suite):
    """Main scores (x100) of mteb tasks, and their means by type.

    Metrics of a task: `main_score`, and `n`, the samples of the scored splits (documents and
    queries of a retrieval task), where mteb counts them for these languages. The rows `Avg[STS]`,
    `Avg[Classification]` ... are means over the tasks of a type, `Avg` is the mean over all tasks.
    Where the embedder has a folder (`keep`), mteb's result files are kept below it in the layout of
    its ResultCache, and a task with one is not evaluated again.
    """

    name = "mteb"
    title = "MTEB"
    hub_task = "feature-extraction"
    version = 1
    metrics = (Metric("main_score"),)
    words: ClassVar[Mapping[str, MetricWords]] = {
        "main_score": MetricWords("main score of each task")
    }
    kind = "mteb task"
    remembers = False

    @classmethod
    def find(cls, task: str) -> OfflineTask | OwnTasks:
        """Return a registered offline task, else mteb's tasks of that name, looked up when first
        used.
        """
        if task in registry.list_registered(cls.kind):
            offline: OfflineTask = registry.get(cls.kind, task)
            return offline
        return OwnTasks(task)

    def identity(self, root: Path | None) -> str:
        """Identify offline tasks by their content, mteb's own by name and by mteb's version, which
        pins their data.
        """
        parts: list[str | list[str]] = []
        for task in self._tasks.values():
            if isinstance(task, OwnTasks):
                parts.append(task.name)
            else:
                absent = [str(missing) for missing in task.missing(root)]
                parts.append(absent or task.fingerprint(root))
        return digest(self.name, self.version, version("mteb"), list(self._tasks), parts)

    def fingerprint(self, root: Path | None) -> str:
        """Add the version of mteb, which defines the protocol, to `Suite.fingerprint`."""
        return digest(super().fingerprint(root), version("mteb"))

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        from datasets import disable_progress_bars
        from mteb import ResultCache

        disable_progress_bars()
        tasks = self._build(root)
        cache = None
        model_name = "unnamed"
        if embed.keep:
            cache = ResultCache(embed.keep / "mteb" / self.fingerprint(root)[:12])
            model_name = embed.keep.name
        model = MTEBModel(embed, model_name)

        def score(name: str, task: AbsTask) -> TaskScores:
            return _score_task(model, task, cache)

        with warnings.catch_warnings():
            # warnings of scikit-learn for classes that a weak model never predicts
            warnings.simplefilter("ignore")
            per_task = score_tasks(embed, tasks, score)

        scores = {}
        lines = []
        by_type: dict[str, dict[str, Values]] = {}
        for name, scored in per_task.items():
            scores[name] = scored.scores
            lines += [f"{self.name}: {name}: {line}" for line in scored.warnings]
            by_type.setdefault(str(tasks[name].metadata.type), {})[name] = scored.scores
        means = {f"{AVERAGE}[{kind}]": self.average(rows) for kind, rows in by_type.items()}
        return SuiteScores({**scores, **means, AVERAGE: self.average(scores)}, warnings=lines)

    def _build(self, root: Path | None) -> dict[str, AbsTask]:
        """mteb's tasks by name. Raises MissingData or UserError."""
        tasks: list[AbsTask] = []
        for task in self._tasks.values():
            tasks += task.build() if isinstance(task, OwnTasks) else [build(task, root)]

        names = [task.metadata.name for task in tasks]
        self.refuse_repeated(names)
        return dict(zip(names, tasks, strict=True))


class MTEBModel:
    """An embedder as mteb's EncoderProtocol: cosine similarity, no normalisation.

    mteb itself embeds with a model of sentence-transformers whose vectors depend on the task: it
    chooses among the model's prompts, and between `encode_query` and `encode_document`. The length
    of the vectors matters to mteb's classifiers: to compare with published scores of a model that
    normalises, normalise too.
    """

    def __init__(self, embed: Embedder, name: str) -> None:
        from mteb.models.model_meta import ModelMeta, ScoringFunction

        self._embed = embed
        self.mteb_model_meta: ModelMeta = ModelMeta.create_empty(
            {
                "name": f"harness/{name}",
                "revision": "1",
                "similarity_fn_name": ScoringFunction.COSINE,
            }
        )

    def encode(self, inputs: Any, **settings: Any) -> np.ndarray:
        """Embed the texts of mteb's batches, (n, d) float32; other settings are ignored. Raises
        NotFiniteError.
        """
        library = self._embed.library
        if library is None:
            texts = list(chain.from_iterable(batch["text"] for batch in inputs))
            return Embedded(self._embed, texts).rows(texts)

        from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper

        settings["batch_size"] = 32
        rows = np.asarray(SentenceTransformerEncoderWrapper(library).encode(inputs, **settings))
        not_finite = np.count_nonzero(~np.isfinite(rows).all(axis=1))
        if not_finite:
            raise NotFiniteError(f"{not_finite:,} vectors are not finite")
        return rows

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        from mteb.similarity_functions import cos_sim

        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        from mteb.similarity_functions import pairwise_cos_sim

        return pairwise_cos_sim(embeddings1, embeddings2)


def _score_task(model: MTEBModel, task: AbsTask, cache: ResultCache | None) -> TaskScores:
    """Evaluate one task. Raises MissingData where its data cannot be loaded."""
    import mteb

    settings: Any = {"batch_size": _BATCH, "show_progress_bar": False}
    try:
        results = mteb.evaluate(
            model,
            task,
            co2_tracker=False,
            encode_kwargs=settings,
            cache=cache,
            show_progress_bar=False,
        )
    except (OSError, ValueError) as error:
        # raised by `datasets` for an incomplete download
        if isinstance(error, ValueError) and not str(error).startswith("Couldn't find cache"):
            raise
        raise MissingData(
            f"{KnownTask.from_task(task).missing} ({str(error).splitlines()[0]})"
        ) from error

    # mteb's files keep six decimals: a result read back equals the computed one
    main = 100 * round(float(results.task_results[0].get_score()), 6)
    count = _count(task)
    counted: Values = {} if count is None else {"n": count}
    if not math.isfinite(main):
        return TaskScores(counted, warnings=[f"{NO_SCORE}: undefined"])
    return TaskScores({"main_score": main} | counted)


def _count(task: AbsTask) -> int | None:
    """Count the samples of the scored splits as mteb does; None if it has no count for these
    languages.
    """
    counts = None if task.metadata.is_multilingual else task.metadata.n_samples
    if counts is not None and set(task.eval_splits) <= set(counts):
        return sum(int(counts[split]) for split in task.eval_splits)
    if not task.data_loaded or task.dataset is None:
        return None

    data: Any = task.dataset
    if "test" in data:
        return len(data["test"])
    retrieval = data["default"]["test"]
    return len(retrieval["corpus"]) + len(retrieval["queries"])


@dataclass(frozen=True)
class MissingTask(Missing):
    """A task of mteb without its data: its name and subsets, and the hub's data set with its commit
    and licence.
    """

    task: str
    subsets: tuple[str, ...]
    hub: str
    revision: str
    licence: str | None

    def fetch(self) -> None:
        """Download the data into the cache that the task is read from. Raises any error of mteb and
        its clients.
        """
        import mteb
        from datasets import disable_progress_bars

        disable_progress_bars()
        mteb.get_task(self.task, hf_subsets=list(self.subsets)).load_data()


@dataclass(frozen=True)
class KnownTask:
    """What mteb knows of a task. `folder` is the name of its data in the cache of `datasets`,
    `tables` the minimum number of tables in a complete download: a retrieval task needs documents,
    queries and judgements.
    """

    name: str
    dataset: Mapping[str, Any]
    splits: tuple[str, ...]
    subsets: tuple[str, ...]
    licence: str | None
    folder: str
    tables: int

    @classmethod
    def from_task(cls, task: AbsTask) -> KnownTask:
        from datasets.naming import camelcase_to_snakecase
        from mteb.abstasks import AbsTaskRetrieval

        metadata = task.metadata
        *owner, name = metadata.dataset["path"].split("/")
        return cls(
            metadata.name,
            metadata.dataset,
            tuple(task.eval_splits),
            tuple(task.hf_subsets),
            metadata.license,
            folder="___".join([*owner, camelcase_to_snakecase(name)]),
            tables=3 if isinstance(task, AbsTaskRetrieval) else 1,
        )

    @property
    def is_cached(self) -> bool:
        """Whether the cache of `datasets` has the data, in folders name/config/version/revision."""
        folders = (find_datasets_cache() / self.folder).glob(f"*/*/{self.dataset['revision']}")
        return sum(1 for _ in folders) >= self.tables

    @property
    def missing(self) -> MissingTask:
        how = f"download it when online, with: python -c \"import mteb; mteb.get_task('{self.name}').load_data()\""
        path = self.dataset["path"]
        revision = self.dataset["revision"]
        return MissingTask(
            f"the mteb task {self.name}", how, self.name, self.subsets, path, revision, self.licence
        )


class OwnTasks(Source):
    """Tasks of mteb: one by its name, or a part of a benchmark."""

    def __init__(self, name: str) -> None:
        self.name = name

    def missing(self, root: Path | None) -> list[Missing]:
        return [task.missing for task in self.list_known() if not task.is_cached]

    def fingerprint(self, root: Path | None) -> str:
        tasks = self.list_known()
        return digest([[task.name, task.dataset, task.splits, task.subsets] for task in tasks])

    def list_known(self) -> list[KnownTask]:
        """List the tasks with data: an aggregate such as CQADupstackRetrieval counts as its parts.
        Raises UserError.
        """
        note = f"mteb/{digest('tasks', version('mteb'), self.name)}.json"

        def read() -> dict[str, Any]:
            tasks: list[AbsTask] = []
            for task in self.build():
                tasks += getattr(task.metadata, "tasks", None) or [task]
            return {"tasks": [asdict(KnownTask.from_task(task)) for task in tasks]}

        tasks = []
        for row in read_or_make_note(note, "it is read from mteb again", read)["tasks"]:
            # JSON has no tuples
            splits, subsets = tuple(row["splits"]), tuple(row["subsets"])
            tasks.append(KnownTask(**row | {"splits": splits, "subsets": subsets}))
        return tasks

    def build(self) -> list[AbsTask]:
        """Instantiate mteb's task classes. Raises UserError for a name that mteb does not know."""
        import mteb

        benchmark, colon, part = self.name.rpartition(":")
        try:
            if not colon:
                return [mteb.get_task(self.name)]
            tasks = list(mteb.get_benchmark(benchmark).tasks)
        except KeyError as error:
            why = error.args[0].removeprefix("KeyError: ")
            raise UserError(f"mteb task '{self.name}': {why}") from error

        named = [task for task in tasks if part in (task.metadata.type, task.metadata.name)]
        if not named:
            types = ", ".join(sorted({task.metadata.type for task in tasks}))
            raise UserError(
                f"the mteb benchmark '{benchmark}' has no type or task '{part}'; its types are {types}"
            )
        return named


def find_datasets_cache() -> Path:
    """The folder in which `datasets` keeps its data, by the variables that it reads; its import
    takes seconds.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or Path(cache, "huggingface")
    return Path(os.environ.get("HF_DATASETS_CACHE") or expand(Path(home, "datasets")))
