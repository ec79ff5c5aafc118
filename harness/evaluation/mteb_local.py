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

from harness.datafiles import column_names, read_rows
from harness.errors import UserError
from harness.evaluation.sts import STSB
from harness.evaluation.suites import pairs_of
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
    made = type(
        task.name,
        (bases.get(task.type, AbsTaskRetrieval),),
        {"metadata": metadata, **task.settings},
    )()
    made.dataset = _dataset(task.type, task.load(root))
    made.data_loaded = True
    return made


def _dataset(kind: str, data: Mapping[str, Any]) -> Any:
    from datasets import Dataset, DatasetDict

    if kind == "STS":
        first, second, gold = zip(*data["pairs"], strict=True)
        table = {"sentence1": list(first), "sentence2": list(second), "score": list(gold)}
        return DatasetDict({"test": Dataset.from_dict(table)})
    if kind == "Classification":
        # labels as numbers: mteb's average precision of two classes does not accept names
        numbers = {
            label: number
            for number, label in enumerate(sorted({label for label, _ in data["train"]}))
        }
        labelled = {
            split: {
                "label": [numbers[label] for label, _ in data[split]],
                "text": [text for _, text in data[split]],
            }
            for split in ("train", "test")
        }
        return DatasetDict({split: Dataset.from_dict(table) for split, table in labelled.items()})
    texts = {
        part: Dataset.from_dict({"id": list(data[part]), "text": list(data[part].values())})
        for part in ("corpus", "queries")
    }
    judgements = {"relevant_docs": dict(data["relevant"]), "top_ranked": data.get("candidates")}
    return {"default": {"test": texts | judgements}}


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


def classification(
    name: str, train: str, test: str, language: str = "eng-Latn", samples: int = 8
) -> FileTask:
    """Labelled texts: one file with a column `split`, or one file per split.

    `samples` per label train mteb's classifier, as in mteb's own task with these data.
    """
    settings = {"samples_per_label": samples}
    return FileTask(
        name, "Classification", (train, test), labelled_texts, language=language, settings=settings
    )


def labelled_texts(paths: Sequence[Path]) -> dict[str, Any]:
    """Label and text of each row of a split; of all rows if its table has no column `split`. Raises
    UserError for one table without it, whose rows would be trained on and tested.
    """
    if paths[0] == paths[-1] and "split" not in column_names(paths[0]):
        raise UserError(
            f"{paths[0]} has no column split, so that a probe would be tested on its training rows; add it, with "
            "the values train and test"
        )

    def rows(path: Path, split: str) -> list[tuple[str, ...]]:
        columns = ("label", "text", *(["split"] if "split" in column_names(path) else []))
        return [
            row.values[:2] for row in read_rows(path, *columns) if row.values[2:] in ((), (split,))
        ]

    return {"train": rows(paths[0], "train"), "test": rows(paths[-1], "test")}


def retrieval(paths: Sequence[Path]) -> dict[str, Any]:
    """Documents, queries and judgements of the test split, a file each."""
    corpus, queries, judgements = paths
    relevant: dict[str, dict[str, int]] = {}
    for _, (split, query, document, score) in read_rows(
        judgements, "split", "query_id", "doc_id", "score"
    ):
        if split == "test":
            relevant.setdefault(query, {})[document] = int(score)
    rows = (row.values for row in read_rows(corpus, "doc_id", "title", "text"))
    documents = {document: f"{title} {text}".strip() for document, title, text in rows}
    texts = (row.values for row in read_rows(queries, "query_id", "text"))
    judged = {query: text for query, text in texts if query in relevant}
    return {"corpus": documents, "queries": judged, "relevant": relevant}


def reranking(paths: Sequence[Path]) -> dict[str, Any]:
    """Queries with correct and wrong candidates; the test split's queries with both."""
    data: dict[str, Any] = {"corpus": {}, "queries": {}, "relevant": {}, "candidates": {}}
    answers_to: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for _, (split, *row) in read_rows(paths[0], "split", "query_no", "query", "label", "candidate"):
        if split == "test":
            number, text, label, candidate = row
            answers_to.setdefault((number, text), []).append((label, candidate))
    for (query, text), answers in answers_to.items():
        if {label for label, _ in answers} == {"0", "1"}:
            texts = {
                f"{query}-{number}": candidate for number, (_, candidate) in enumerate(answers)
            }
            right = [name for name, (label, _) in zip(texts, answers, strict=True) if label == "1"]
            data["corpus"] |= texts
            data["queries"][query] = text
            data["relevant"][query] = dict.fromkeys(right, 1)
            data["candidates"][query] = list(texts)
    return data


def similarity(paths: Sequence[Path]) -> dict[str, Any]:
    """The test pairs of the STS Benchmark."""
    return {"pairs": pairs_of(STSB.read(paths))}


STSB_FILE = FileTask("STSBenchmark-file", "STS", STSB.files, similarity, how=STSB.how)
BANKING77 = classification("Banking77-file", "mteb/banking77_train.tsv", "mteb/banking77_test.tsv")
COUNTERFACTUAL_EN = classification("AmazonCounterfactual-en-file", _EN, _EN, samples=32)
COUNTERFACTUAL_DE = classification(
    "AmazonCounterfactual-de-file", _DE, _DE, language="deu-Latn", samples=32
)
IMDB_SAMPLE = classification("Imdb-sample", "mteb/imdb_subset.tsv.gz", "mteb/imdb_subset.tsv.gz")
SCIFACT = FileTask(
    "SciFact-file",
    "Retrieval",
    ("mteb/scifact_corpus.jsonl.gz", "mteb/scifact_queries.tsv", "mteb/scifact_qrels.tsv"),
    retrieval,
)
TRECQA = FileTask("TRECQA", "Reranking", ["mteb/trecqa_rerank.tsv.gz"], reranking)
