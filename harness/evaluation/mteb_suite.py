"""MTEB tasks, run by the mteb package: its task classes, its scores, its result files.

A task name is one of:

- a registered offline task, such as `Banking77-file` (entry points `harness.mteb`);
- a task of mteb, such as `SICK-R`, with all its languages, mteb's default;
- BENCHMARK:PART, the tasks of one type of a benchmark, or one task, in the benchmark's languages:
  `MTEB(eng, v1):STS`. DALR Table 5 reports the types Reranking, Classification, Retrieval and STS of that benchmark
  (Muennighoff et al., 2023).

The data of mteb's own tasks must be in the local cache: nothing is downloaded. mteb is imported lazily.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import registry
from harness.errors import MissingData, UserError
from harness.evaluation.embed import Embedded, Embedder, EmbedFunction, HasFolder, told
from harness.evaluation.mteb_local import OfflineTask, build
from harness.evaluation.suites import Suite, SuiteScores, Values
from harness.metrics import AVERAGE, Metric
from harness.sources import Missing, Source, digest

if TYPE_CHECKING:
    from mteb import ResultCache
    from mteb.abstasks import AbsTask
    from mteb.models.model_meta import ModelMeta
    from mteb.results import TaskResult

#: Sentences in a batch of mteb; all batches of a call are embedded together, so it changes no score.
_BATCH = 1024


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


class OwnTasks(Source):
    """Tasks of mteb: one by its name, or a part of a benchmark."""

    def __init__(self, name: str) -> None:
        self.name = name

    def missing(self, root: Path | None) -> list[Missing]:
        """List the tasks whose data are not in the local cache."""
        return [_absent(task) for task in self._parts() if not _is_cached(task)]

    def fingerprint(self, root: Path | None) -> str:
        """Hash names, pinned revisions, splits and subsets."""
        return digest(
            [[t.metadata.name, t.metadata.dataset, list(t.eval_splits), list(t.hf_subsets)] for t in self._parts()]
        )

    def _parts(self) -> list[AbsTask]:
        """List the tasks with data: an aggregate such as CQADupstackRetrieval counts as its parts."""
        return [part for task in self.build() for part in getattr(task.metadata, "tasks", None) or [task]]

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


class MTEBSuite(Suite):
    """Main scores (x100) of mteb tasks, and their means by type.

    Metrics of a task: `main_score`, and `n`, the samples of the scored splits (documents and queries of a retrieval
    task), where mteb counts them for these languages. The rows `Avg[STS]`, `Avg[Classification]` ... are means over the
    tasks of a type, `Avg` is the mean over all tasks. Where the embedder has a folder (`HasFolder`), mteb's result
    files are kept below it in the layout of its ResultCache, and a task with one is not evaluated again.
    """

    name = "mteb"
    hub_task = "feature-extraction"
    version = 1
    metrics = (Metric("main_score"),)
    kind = "mteb task"
    remembers = False

    @classmethod
    def find(cls, task: str) -> OfflineTask | OwnTasks:
        """Return a registered offline task, else mteb's tasks of that name, which are looked up lazily."""
        if task in registry.names(cls.kind):
            offline: OfflineTask = registry.get(cls.kind, task)
            return offline
        return OwnTasks(task)

    def identity(self, root: Path | None) -> str:
        """Identify offline tasks by their content, mteb's own by name and by mteb's version, which pins their data."""
        parts = [
            task.name if isinstance(task, OwnTasks) else list(map(str, task.missing(root))) or task.fingerprint(root)
            for task in self._tasks.values()
        ]
        return digest(self.name, self.version, version("mteb"), list(self._tasks), parts)

    def fingerprint(self, root: Path | None) -> str:
        """Add the version of mteb, which defines the protocol, to `Suite.fingerprint`."""
        return digest(super().fingerprint(root), version("mteb"))

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        """Evaluate every task by mteb. Raises MissingData or UserError."""
        from datasets import disable_progress_bars
        from mteb import ResultCache

        disable_progress_bars()
        tasks: list[AbsTask] = []
        for given in self._tasks.values():
            tasks += given.build() if isinstance(given, OwnTasks) else [build(given, root)]
        names = [task.metadata.name for task in tasks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UserError(f"the suite '{self.name}' names {', '.join(twice)} twice; list each task once")
        keep = embed.keep if isinstance(embed, HasFolder) else None
        cache = ResultCache(keep / "mteb" / self.fingerprint(root)[:12]) if keep else None
        model = MTEBModel(embed, keep.name if keep else "unnamed")
        with warnings.catch_warnings():
            # of scikit-learn, for classes that a weak model never predicts
            warnings.simplefilter("ignore")
            named = {task.metadata.name: task for task in tasks}
            scores = {name: _scores(_evaluated(model, task, cache), task) for name, task in told(embed, named)}
        remarks = [f"{name}: main_score left out, undefined" for name, row in scores.items() if "main_score" not in row]
        if model.not_finite:
            remarks.append(f"{model.not_finite} sentence vectors are not finite; NaN counted as 0")
        by_type: dict[str, dict[str, Values]] = {}
        for task in tasks:
            by_type.setdefault(str(task.metadata.type), {})[task.metadata.name] = scores[task.metadata.name]
        means = {f"{AVERAGE}[{kind}]": self.average(rows) for kind, rows in by_type.items()}
        warned = [f"{self.name}: {line}" for line in remarks]
        return SuiteScores({**scores, **means, AVERAGE: self.average(scores)}, warnings=warned)


class MTEBModel:
    """An embedder as mteb's EncoderProtocol: no prompts, cosine similarity, no normalisation.

    The length of the vectors matters to mteb's classifiers: compare published scores of models that normalise their
    output with an embedder that does so too.
    """

    def __init__(self, embed: EmbedFunction, name: str) -> None:
        """`name` is the model's name in mteb's result files; `not_finite` counts sentences with not finite values."""
        from mteb.models.model_meta import ModelMeta, ScoringFunction

        self._embed = embed
        self.not_finite = 0
        self.mteb_model_meta: ModelMeta = ModelMeta.create_empty(
            {"name": f"harness/{name}", "revision": "1", "similarity_fn_name": ScoringFunction.COSINE}
        )

    def encode(self, inputs: Iterable[Mapping[str, Any]], **settings: Any) -> np.ndarray:
        """Embed the texts of mteb's batches, (n, d) float32; its settings are ignored."""
        texts = [text for batch in inputs for text in batch["text"]]
        vectors = Embedded(self._embed, texts)
        self.not_finite += vectors.not_finite
        return vectors.rows(texts)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Compute all cosines, (n, d) and (m, d) -> (n, m)."""
        from mteb.similarity_functions import cos_sim

        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Compute the cosine of each pair of rows, (n, d) and (n, d) -> (n,)."""
        from mteb.similarity_functions import pairwise_cos_sim

        return pairwise_cos_sim(embeddings1, embeddings2)


def _evaluated(model: MTEBModel, task: AbsTask, cache: ResultCache | None) -> TaskResult:
    """Evaluate one task. Raises MissingData where its data cannot be loaded."""
    import mteb

    settings: Any = {"batch_size": _BATCH, "show_progress_bar": False}
    try:
        found = mteb.evaluate(
            model, task, co2_tracker=False, encode_kwargs=settings, cache=cache, show_progress_bar=False
        )
    except (OSError, ValueError) as error:
        # what `datasets` raises for an incomplete download
        if isinstance(error, ValueError) and not str(error).startswith("Couldn't find cache"):
            raise
        raise MissingData(f"{_absent(task)} ({str(error).splitlines()[0]})") from error
    return found.task_results[0]


def _scores(result: TaskResult, task: AbsTask) -> Values:
    # mteb's files keep six decimals: a result read back equals the computed one
    main, count = 100 * round(float(result.get_score()), 6), _count(task)
    return ({"main_score": main} if math.isfinite(main) else {}) | ({} if count is None else {"n": count})


def _count(task: AbsTask) -> int | None:
    """Count the samples of the scored splits as mteb does; None where it has no count for these languages."""
    counts = None if task.metadata.is_multilingual else task.metadata.n_samples
    if counts is not None and set(task.eval_splits) <= set(counts):
        return sum(int(counts[split]) for split in task.eval_splits)
    if not task.data_loaded or task.dataset is None:
        return None
    data: Any = task.dataset
    return len(data["test"]) if "test" in data else sum(len(data["default"]["test"][k]) for k in ("corpus", "queries"))


def _is_cached(task: AbsTask) -> bool:
    """Whether `datasets` has the task's data in its cache (in the folder name/config/version/revision).

    A retrieval task needs three of its tables: documents, queries and judgements.
    """
    from datasets import config
    from datasets.naming import camelcase_to_snakecase
    from mteb.abstasks import AbsTaskRetrieval

    dataset = task.metadata.dataset
    *owner, name = dataset["path"].split("/")
    folder = Path(config.HF_DATASETS_CACHE, "___".join([*owner, camelcase_to_snakecase(name)]))
    tables = 3 if isinstance(task, AbsTaskRetrieval) else 1
    return sum(1 for _ in folder.glob(f"*/*/{dataset['revision']}")) >= tables


def _absent(task: AbsTask) -> MissingTask:
    about = task.metadata
    how = f"python -c \"import mteb; mteb.get_task('{about.name}').load_data()\""
    path, revision = about.dataset["path"], about.dataset["revision"]
    what, how = f"the mteb task {about.name}", f"download it when online, with: {how}"
    return MissingTask(what, how, about.name, tuple(task.hf_subsets), path, revision, about.license)
