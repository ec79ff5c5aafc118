from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from harness.errors import MissingData, UserError
from harness.evaluation import transfer
from harness.evaluation.transfer import CR, MR, MRPC, SST2, TREC, TransferFiles

TASKS = {value.name: value for value in vars(transfer).values() if isinstance(value, TransferFiles)}

#: name -> samples of each class by split, as SentEval counts them
COUNTS = {
    "MR": {"all": [5331, 5331]},
    "CR": {"all": [1368, 2407]},
    "SUBJ": {"all": [5000, 5000]},
    "MPQA": {"all": [7294, 3312]},
    "SST2": {"train": [29780, 37569], "dev": [428, 444], "test": [912, 909]},
    "TREC": {"train": [86, 1162, 1250, 1223, 835, 896], "test": [9, 138, 94, 65, 81, 113]},
    "MRPC": {"train": [1323, 2753], "test": [578, 1147]},
}


def put(root: Path, file: str, content: str) -> Path:
    path = root / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content.encode()) if file.endswith(".gz") else content.encode())
    return path


def test_samples_are_in_order_of_words_then_label_then_file(tmp_path: Path) -> None:
    rows = ["1\tc d", "1\ta  b", "1\tone", "0\tlonger than all", "0\tx y", "1\t", "0\tz z"]
    put(tmp_path, "transfer/CR.tsv", "\n".join(["label\ttext", *rows]) + "\n")
    loaded = CR.load(tmp_path)
    assert list(loaded) == ["all"]
    assert loaded["all"].sides == (["", "one", "x y", "z z", "c d", "a b", "longer than all"],)
    assert loaded["all"].labels.tolist() == [1, 1, 0, 0, 1, 1, 0]
    assert loaded["all"].labels.dtype == np.int64


def test_pairs_are_in_order_of_the_words_of_both_sides(tmp_path: Path) -> None:
    rows = ["1\t7\t8\ta b\tc", "0\t7\t8\ta\tb c d", '1\t7\t8\ta\t"b c', "0\t7\t8\tx\ty z"]
    for split in ("train", "test"):
        put(tmp_path, f"transfer/MRPC-{split}.tsv", "\n".join(["label\tid1\tid2\ts1\ts2", *rows]) + "\n")
    train = MRPC.load(tmp_path)["train"]
    assert train.sides == (["x", "a", "a", "a b"], ["y z", '"b c', "b c d", "c"])
    assert train.labels.tolist() == [0, 1, 0, 1]


def test_columns_are_found_by_name_and_classes_numbered_in_order(tmp_path: Path) -> None:
    for split in ("train", "test"):
        put(tmp_path, f"transfer/TREC-{split}.tsv", "text\tfine\tlabel\nwho ?\tind\tHUM\nwhat\u2028is\tdef\tABBR\n")
    test = TREC.load(tmp_path)["test"]
    assert test.sides == (["what is", "who ?"],)
    assert test.labels.tolist() == [0, 3]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    for file in SST2.files:
        put(tmp_path, file, "label\ttext\n1\tgood\n")
    assert {split: data.sides for split, data in SST2.load(tmp_path).items()} == dict.fromkeys(
        ("train", "dev", "test"), (["good"],)
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("label\tsentence\n1\ta\n", r"MR.tsv, line 1: no column 'text'"),
        ("label\ttext\n1\ta\n2\tb\n", r"MR.tsv, line 3: the label '2' is not one of 0, 1"),
        ("label\ttext\n1\ta\tb\n", r"MR.tsv, line 2: 3 tab-separated fields, the header has 2"),
        ("label\ttext\n", r"MR.tsv has a header and no rows"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, content: str, message: str) -> None:
    put(tmp_path, "transfer/MR.tsv", content)
    with pytest.raises(UserError, match=message):
        MR.load(tmp_path)


def test_missing_files_are_told_with_the_way_to_get_them(tmp_path: Path) -> None:
    put(tmp_path, "transfer/TREC-train.tsv", "label\ttext\nHUM\twho\n")
    (lacking,) = TREC.missing(tmp_path)
    assert lacking.what == "transfer/TREC-test.tsv"
    assert "HARNESS_DATA" in lacking.how
    with pytest.raises(MissingData, match="TREC-test"):
        TREC.load(tmp_path)


def test_the_seven_tasks_are_those_of_the_papers() -> None:
    assert list(TASKS) == list(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_the_real_files_hold_what_senteval_counts(data_root: Path, name: str) -> None:
    loaded = TASKS[name].load(data_root)
    assert {split: np.bincount(data.labels).tolist() for split, data in loaded.items()} == COUNTS[name]
    for data in loaded.values():
        words = [[len(text.split()) for text in side] for side in data.sides]
        empty = sum(not text for side in data.sides for text in side)
        assert empty == {"CR": 4, "MPQA": 3}.get(name, 0), "embedded as empty strings"
        order = list(zip(*words, data.labels.tolist(), strict=True))
        assert order == sorted(order)
