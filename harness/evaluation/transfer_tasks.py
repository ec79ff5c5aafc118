"""SentEval's seven classification tasks, read from files below the data root.

Files (UTF-8, tab separated, a header row, no quoting, lines end with a single line feed; other columns are ignored,
so the order of columns is free):

    transfer/{MR,CR,SUBJ,MPQA}.tsv                          label, text
    transfer/SST2-{train,dev,test}.tsv (train as .tsv.gz)   label, text
    transfer/TREC-{train,test}.tsv                          label, text
    transfer/MRPC-{train,test}.tsv                          label, s1, s2

The order of samples determines the folds, so it is SentEval's: by the number of words (of the first sentence, then of
the second), then by label, otherwise as in the file. Runs of blanks become one blank; an empty text stays
empty and is embedded as such, as in the evaluation of SimCSE and its forks (SentEval's examples replace it by a full
stop). CR has four empty texts, MPQA three.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import UserError
from harness.sources import FileSource
from harness.textfiles import read_table

_HOW = (
    "put the transfer files below --data-root or HARNESS_DATA in the layout of docs/data.md; the "
    "originals are in SimCSE's SentEval archive (its download_dataset.sh)"
)
#: the registry kind of classification tasks
TRANSFER = "transfer task"


@dataclass(frozen=True)
class Labelled:
    """n samples: their texts, one or two each, and their classes.

    `sides` holds one list of n texts, or two where a sample is a pair; `labels` is int64 (n,), from 0.
    """

    sides: tuple[list[str], ...]
    labels: np.ndarray


class TransferFiles(FileSource):
    """A classification task in one file a split."""

    def __init__(
        self, name: str, files: dict[str, str], columns: tuple[str, ...] = ("text",), classes: str = "0 1"
    ) -> None:
        """`files` by split: 'all', or 'train' and 'test', or these and 'dev'; `classes` are the labels in order."""
        super().__init__(files.values(), _HOW)
        self.name, self.classes = name, classes.split()
        self._splits, self._columns = tuple(files), columns

    def load(self, root: Path | None) -> dict[str, Labelled]:
        """Read the samples of each split in SentEval's order. Raises MissingData, or UserError naming the line."""
        return {split: self._read(path) for split, path in zip(self._splits, self.paths(root), strict=True)}

    def _read(self, path: Path) -> Labelled:
        table = read_table(path, "label", *self._columns)
        rows = [
            ([row[column].split() for column in self._columns], self._class(path, line, row["label"]))
            for line, row in enumerate(table, start=2)
        ]
        return in_order(rows)

    def _class(self, path: Path, line: int, label: str) -> int:
        if label not in self.classes:
            raise UserError(
                f"{path}, line {line}: the label '{label}' is not one of {', '.join(self.classes)}; correct the line"
            )
        return self.classes.index(label)


def in_order(rows: list[tuple[list[list[str]], int]]) -> Labelled:
    """Samples in SentEval's order, from the words of each side, and the class, of one or more samples."""
    rows.sort(key=lambda row: (*map(len, row[0]), row[1]))
    texts, labels = zip(*rows, strict=True)
    sides = tuple([" ".join(words) for words in side] for side in zip(*texts, strict=True))
    return Labelled(sides, np.array(labels, dtype=np.int64))


def _files(name: str) -> dict[str, str]:
    return {split: f"transfer/{name}-{split}.tsv" for split in ("train", "test")}


MR, CR, SUBJ, MPQA = (TransferFiles(name, {"all": f"transfer/{name}.tsv"}) for name in ("MR", "CR", "SUBJ", "MPQA"))
SST2 = TransferFiles(
    "SST2", {"train": "transfer/SST2-train.tsv.gz", "dev": "transfer/SST2-dev.tsv", "test": "transfer/SST2-test.tsv"}
)
TREC = TransferFiles("TREC", _files("TREC"), classes="ABBR DESC ENTY HUM LOC NUM")
MRPC = TransferFiles("MRPC", _files("MRPC"), columns=("s1", "s2"))
