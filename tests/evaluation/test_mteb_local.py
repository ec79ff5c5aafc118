"""Offline tasks: files in mteb's task classes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.errors import UserError
from harness.evaluation.mteb_local import (
    FileTask,
    build,
    make_classification,
    read_reranking,
    read_retrieval,
)
from harness.evaluation.mteb_suite import MTEBSuite

TASKS = registry.list_registered("mteb task")
FILES = [
    name
    for name in TASKS
    if registry.find_target("mteb task", name).startswith("harness.evaluation")
]
#: name -> samples that mteb scores: texts of test, pairs, or documents and queries
COUNTS = {
    **{
        "Banking77-file": 3080,
        "AmazonCounterfactual-en-file": 670,
        "AmazonCounterfactual-de-file": 934,
    },
    **{"Imdb-sample": 1000, "SciFact-file": 5183 + 300},
}


def test_every_file_task_is_listed_when_missing(tmp_path: Path) -> None:
    missing = [absent.what for absent in MTEBSuite(FILES).missing(tmp_path)]
    assert len(missing) == 10
    assert {"sts/STSB-test.tsv", "mteb/banking77_train.tsv", "mteb/banking77_test.tsv"} < set(
        missing
    )


@pytest.mark.parametrize("name", [name for name in FILES if name != "STSBenchmark-file"])
def test_real_files_go_into_mtebs_classes(data_root: Path, name: str) -> None:
    data: Any = build(registry.get("mteb task", name), data_root).dataset
    if "test" in data:
        assert len(data["test"]) == COUNTS[name]
        assert set(data["train"]["label"]) == set(data["test"]["label"])
        assert all(data["test"]["text"])
        return
    split = data["default"]["test"]
    known, relevant = set(split["corpus"]["id"]), split["relevant_docs"]
    assert set(relevant) == set(split["queries"]["id"])
    assert all(document in known for documents in relevant.values() for document in documents)
    if name == "TRECQA":
        assert len(relevant) == 68
        assert all(
            0 < len(documents) < len(split["top_ranked"][query])
            for query, documents in relevant.items()
        )
    else:
        assert len(known) + len(relevant) == COUNTS[name]


def test_one_file_without_a_split_is_refused(tmp_path: Path) -> None:
    """Its rows would be trained on and tested."""
    (tmp_path / "c.tsv").write_text("label\ttext\na\tone\nb\ttwo\n")
    (tmp_path / "d.tsv").write_text("label\ttext\nb\tthree\n")
    with pytest.raises(UserError, match="has no column split"):
        make_classification("c", "c.tsv", "c.tsv").load(tmp_path)
    assert make_classification("c", "c.tsv", "d.tsv").load(tmp_path)["test"] == [("b", "three")]


def test_splits_labels_titles_and_judgements_are_read(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(
        "split\tlabel\ttext\ntrain\tb\tone\ntest\ta\ttwo\nvalid\ta\tno\ntrain\ta\tthree\n"
    )
    assert make_classification("c", "c.tsv", "c.tsv").load(tmp_path) == {
        "train": [("b", "one"), ("a", "three")],
        "test": [("a", "two")],
    }
    lines = [
        {"doc_id": "1", "title": "T", "text": "x\u2028y"},
        {"doc_id": "2", "title": "", "text": "z"},
    ]
    (tmp_path / "d.jsonl.gz").write_bytes(
        gzip.compress(
            "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        )
    )
    (tmp_path / "q.tsv").write_text("query_id\ttext\nq\twhat\nr\twho\n")
    (tmp_path / "j.tsv").write_text(
        "split\tquery_id\tdoc_id\tscore\ntrain\tr\t1\t1\ntest\tq\t2\t2\n"
    )
    assert FileTask("r", "Retrieval", ("d.jsonl.gz", "q.tsv", "j.tsv"), read_retrieval).load(
        tmp_path
    ) == {
        "corpus": {"1": "T x\u2028y", "2": "z"},
        "queries": {"q": "what"},
        "relevant": {"q": {"2": 2}},
    }
    (tmp_path / "k.tsv").write_text(
        "split\tquery_no\tlabel\tquery\tcandidate\n"
        "test\t0\t1\twhat\tyes\ntest\t0\t0\twhat\tno\ntest\t1\t1\tall right\tx\ntrain\t2\t0\twho\ty\n"
    )
    assert FileTask("k", "Reranking", ["k.tsv"], read_reranking).load(tmp_path) == {
        "corpus": {"0-0": "yes", "0-1": "no"},
        "queries": {"0": "what"},
        "relevant": {"0": {"0-0": 1}},
        "candidates": {"0": ["0-0", "0-1"]},
    }
