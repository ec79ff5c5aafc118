"""Offline MTEB tasks: local files in mteb's task classes, scored by mteb's code.

Files below the data root (see `harness.datafiles`; gzip by suffix):

    mteb/banking77_{train,test}.tsv               label, text
    mteb/amazon_counterfactual_{en,de}.tsv.gz     split (train, valid, test), label, text
    mteb/imdb_subset.tsv.gz                       split (train, test), label, text; a sample of 2,000 of 50,000
    mteb/scifact_corpus.jsonl.gz                  doc_id, title, text; one JSON object a line
    mteb/scifact_{queries,qrels}.tsv              query_id, text; split, query_id, doc_id, score
    mteb/trecqa_rerank.tsv.gz                     split, query_no, label (1 correct), query, candidate; not in MTEB

A name ends in `-file` where mteb has a task with the same data, to keep their results apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from harness.datarows import read_column_names, read_rows
from harness.errors import UserError
from harness.evaluation.sts import STSB
from harness.evaluation.suites import list_pairs
from harness.sources import Checkable, FileSource, digest

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

TaskType = Literal["STS", "Classification", "Retrieval", "Reranking"]
#: mteb's main score of each type
MAIN_SCORES: Mapping[TaskType, str] = {
    "STS": "cosine_spearman",
    "Classification": "accuracy",
    "Retrieval": "ndcg_at_10",
    "Reranking": "map_at_1000",
}
_HOW = "put the file there, with the columns that harness/evaluation/mteb_local.py names"

_EN, _DE = (f"mteb/amazon_counterfactual_{language}.tsv.gz" for language in ("en", "de"))


class OfflineTask(Checkable, Protocol):
    """A task of the entry points `harness.mteb`.

    `load` returns, by the type of the task:

    - STS: `pairs`, (sentence, sentence, gold score from 0 to 5) each;
    - Classification: `train` and `test`, (label, text) each;
    - Retrieval: `corpus` and `queries`, text by id, and `relevant`, score by document by query;
    - Reranking: as Retrieval, and `candidates`, ids of documents by query.
    """

    name: str
    type: TaskType
    #: as mteb writes it, such as eng-Latn
    language: str
    #: attributes that override those of mteb's task class, such as `samples_per_label`
    settings: Mapping[str, Any]

    def load(self, root: Path | None) -> Mapping[str, Any]:
        """Read the data."""


def build(task: OfflineTask, root: Path | None) -> AbsTask:
    """Instantiate mteb's task class with the data. Raises MissingData or UserError."""
    from mteb.abstasks import AbsTaskClassification, AbsTaskRetrieval, AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    bases: dict[TaskType, type[AbsTask]] = {
        "STS": AbsTaskSTS,
        "Classification": AbsTaskClassification,
    }
    base = bases.get(task.type, AbsTaskRetrieval)

    metadata = TaskMetadata(
        type=task.type,
        name=task.name,
        description=f"Data of the task {task.name}, read without a hub.",
        main_score=MAIN_SCORES[task.type],
        dataset={"path": f"harness/{task.name}", "revision": task.fingerprint(root)},
        category="t2c" if task.type == "Classification" else "t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=[task.language],
    )

    built = type(task.name, (base,), {"metadata": metadata, **task.settings})()
    built.dataset = _make_dataset(task.type, task.load(root))
    built.data_loaded = True
    return built


def _make_dataset(kind: str, data: Mapping[str, Any]) -> Any:
    from datasets import Dataset, DatasetDict

    if kind == "STS":
        columns = zip(*data["pairs"], strict=True)
        pairs = dict(zip(("sentence1", "sentence2", "score"), map(list, columns), strict=True))
        return DatasetDict({"test": Dataset.from_dict(pairs)})

    if kind == "Classification":
        # labels as numbers: mteb's average precision of two classes does not accept names
        classes = sorted({label for label, _ in data["train"]})
        numbers = {label: number for number, label in enumerate(classes)}
        splits = DatasetDict()
        for split in ("train", "test"):
            labels, texts = zip(*data[split], strict=True)
            labelled = {"label": [numbers[label] for label in labels], "text": list(texts)}
            splits[split] = Dataset.from_dict(labelled)
        return splits

    parts = {"relevant_docs": dict(data["relevant"]), "top_ranked": data.get("candidates")}
    for name in ("corpus", "queries"):
        texts = data[name]
        parts[name] = Dataset.from_dict({"id": list(texts), "text": list(texts.values())})
    return {"default": {"test": parts}}


class FileTask(FileSource):
    """A task in files below the data root."""

    def __init__(
        self,
        name: str,
        kind: TaskType,
        files: Iterable[str],
        read: Callable[[Sequence[Path]], dict[str, Any]],
        *,
        how: str = _HOW,
        language: str = "eng-Latn",
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`read` makes the data (see `OfflineTask`) from the paths of the files."""
        super().__init__(dict.fromkeys(files), how)
        self.name = name
        self.type = kind
        self.language = language
        self.settings = settings
        self._read = read

    def fingerprint(self, root: Path | None) -> str:
        content = super().fingerprint(root)
        return digest(content, self.settings) if self.settings else content

    def load(self, root: Path | None) -> dict[str, Any]:
        return self._read(self.paths(root))


def make_classification(
    name: str, train: str, test: str, language: str = "eng-Latn", samples: int = 8
) -> FileTask:
    """Labelled texts: one file with a column `split`, or one file per split.

    `samples` per label train mteb's classifier, as in mteb's own task with these data.
    """
    settings = {"samples_per_label": samples}
    return FileTask(
        name,
        "Classification",
        (train, test),
        read_labelled_texts,
        language=language,
        settings=settings,
    )


def read_labelled_texts(paths: Sequence[Path]) -> dict[str, Any]:
    """Label and text of each row of a split; of all rows if its table has no column `split`. Raises
    UserError for one table without it, whose rows would be trained on and tested.
    """
    train, test = paths[0], paths[-1]
    if train == test and "split" not in read_column_names(train):
        raise UserError(
            f"{train} has no column split, so that a probe would be tested on its training rows; add it, with "
            "the values train and test"
        )
    return {
        "train": _read_labelled_split(train, "train"),
        "test": _read_labelled_split(test, "test"),
    }


def _read_labelled_split(path: Path, split: str) -> list[tuple[str, str]]:
    columns = ["label", "text"]
    if "split" in read_column_names(path):
        columns.append("split")
    rows = []
    for _, (label, text, *part) in read_rows(path, *columns):
        if not part or part[0] == split:
            rows.append((label, text))
    return rows


def read_retrieval(paths: Sequence[Path]) -> dict[str, Any]:
    """Documents, queries and judgements of the test split, a file each."""
    corpus_path, queries_path, judgements_path = paths
    relevant: dict[str, dict[str, int]] = {}
    columns = ("split", "query_id", "doc_id", "score")
    for _, (split, query, document, score) in read_rows(judgements_path, *columns):
        if split == "test":
            relevant.setdefault(query, {})[document] = int(score)

    corpus = {}
    for _, (document, title, text) in read_rows(corpus_path, "doc_id", "title", "text"):
        corpus[document] = f"{title} {text}".strip()

    queries = {}
    for _, (query, text) in read_rows(queries_path, "query_id", "text"):
        if query in relevant:
            queries[query] = text
    return {"corpus": corpus, "queries": queries, "relevant": relevant}


def read_reranking(paths: Sequence[Path]) -> dict[str, Any]:
    """Queries with correct and wrong candidates; the test split's queries with both."""
    answers_to: dict[tuple[str, str], list[tuple[str, str]]] = {}
    columns = ("split", "query_no", "query", "label", "candidate")
    for _, (split, query, text, label, candidate) in read_rows(paths[0], *columns):
        if split == "test":
            answers_to.setdefault((query, text), []).append((label, candidate))

    data: dict[str, Any] = {"corpus": {}, "queries": {}, "relevant": {}, "candidates": {}}
    for (query, text), answers in answers_to.items():
        if {label for label, _ in answers} != {"0", "1"}:
            continue

        candidates = []
        relevant = {}
        for number, (label, candidate) in enumerate(answers):
            name = f"{query}-{number}"
            data["corpus"][name] = candidate
            candidates.append(name)
            if label == "1":
                relevant[name] = 1
        data["queries"][query] = text
        data["relevant"][query] = relevant
        data["candidates"][query] = candidates
    return data


def read_similarity(paths: Sequence[Path]) -> dict[str, Any]:
    """The test pairs of the STS Benchmark."""
    return {"pairs": list_pairs(STSB.read(paths))}


STSB_FILE = FileTask("STSBenchmark-file", "STS", STSB.files, read_similarity, how=STSB.how)
BANKING77 = make_classification(
    "Banking77-file", "mteb/banking77_train.tsv", "mteb/banking77_test.tsv"
)
COUNTERFACTUAL_EN = make_classification("AmazonCounterfactual-en-file", _EN, _EN, samples=32)
COUNTERFACTUAL_DE = make_classification(
    "AmazonCounterfactual-de-file", _DE, _DE, language="deu-Latn", samples=32
)
IMDB_SAMPLE = make_classification(
    "Imdb-sample", "mteb/imdb_subset.tsv.gz", "mteb/imdb_subset.tsv.gz"
)
SCIFACT = FileTask(
    "SciFact-file",
    "Retrieval",
    ("mteb/scifact_corpus.jsonl.gz", "mteb/scifact_queries.tsv", "mteb/scifact_qrels.tsv"),
    read_retrieval,
)
TRECQA = FileTask("TRECQA", "Reranking", ["mteb/trecqa_rerank.tsv.gz"], read_reranking)
