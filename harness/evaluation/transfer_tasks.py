"""SentEval's seven classification tasks, read from files below the data root.

Files (UTF-8, tab separated, a header row, no quoting, lines end with a single line feed; other columns are ignored,
so the order of columns is free):

    transfer/{MR,CR,SUBJ,MPQA}.tsv                          label, text
    transfer/SST2-{train,dev,test}.tsv (train as .tsv.gz)   label, text
    transfer/TREC-{train,test}.tsv                          label, text
    transfer/MRPC-{train,test}.tsv                          label, s1, s2

The order of samples decides the folds, so it is SentEval's: by the number of words (of the first sentence, then of
the second), then by label, otherwise as in the file. Runs of blanks become one blank, an empty text a full stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import UserError
from harness.evaluation.sts_files import read_lines
from harness.sources import FileSource

_HOW = (
    "put the transfer files below --data-root or HARNESS_DATA in the layout of docs/data.md; the "
    "originals are in SimCSE's SentEval archive (its download_dataset.sh)"
)


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
        """`files` by split: 'all' alone, 'train' and 'test', or those and 'dev'; `classes` are the labels in order."""
        super().__init__(files.values(), _HOW)
        self.name = name
        self.classes = classes.split()
        self._splits = tuple(files)
        self._columns = columns

    def load(self, root: Path | None) -> dict[str, Labelled]:
        """Split -> its samples in SentEval's order.

        Raises MissingData, or UserError naming the file and line that cannot be read.
        """
        return {split: self._read(path) for split, path in zip(self._splits, self.paths(root), strict=True)}

    def _read(self, path: Path) -> Labelled:
        rows = [self._sample(path, line, fields) for line, fields in _rows(path, ("label", *self._columns))]
        rows.sort(key=lambda row: (*(len(words) for words in row[1]), row[0]))
        sides = (list(side) for side in zip(*(words for _, words in rows), strict=True))
        return Labelled(
            tuple([" ".join(words) or "." for words in side] for side in sides),
            np.array([label for label, _ in rows], dtype=np.int64),
        )

    def _sample(self, path: Path, line: int, fields: list[str]) -> tuple[int, list[list[str]]]:
        label, *texts = fields
        if label not in self.classes:
            raise UserError(
                f"{path}, line {line}: the label '{label}' is none of {', '.join(self.classes)}; mend the line"
            )
        return self.classes.index(label), [text.split() for text in texts]


def _rows(path: Path, names: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """Each line's number and its fields in the columns named. Raises UserError."""
    lines = read_lines(path)
    header = lines[0].split("\t")
    absent = [name for name in names if name not in header]
    if absent:
        raise UserError(
            f"{path}, line 1: no column '{absent[0]}' among {header}; "
            "the file needs a tab-separated header, and lines that end with a line feed alone"
        )
    columns = [header.index(name) for name in names]
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split("\t")
        if len(fields) != len(header):
            raise UserError(
                f"{path}, line {number}: {len(fields)} tab-separated fields, the header has {len(header)}; "
                "mend the line or fetch the file again"
            )
        yield number, [fields[column] for column in columns]


def _whole(name: str) -> TransferFiles:
    return TransferFiles(name, {"all": f"transfer/{name}.tsv"})


MR = _whole("MR")
CR = _whole("CR")
SUBJ = _whole("SUBJ")
MPQA = _whole("MPQA")
SST2 = TransferFiles(
    "SST2",
    {"train": "transfer/SST2-train.tsv.gz", "dev": "transfer/SST2-dev.tsv", "test": "transfer/SST2-test.tsv"},
)
TREC = TransferFiles(
    "TREC",
    {"train": "transfer/TREC-train.tsv", "test": "transfer/TREC-test.tsv"},
    classes="ABBR DESC ENTY HUM LOC NUM",
)
MRPC = TransferFiles(
    "MRPC", {"train": "transfer/MRPC-train.tsv", "test": "transfer/MRPC-test.tsv"}, columns=("s1", "s2")
)
