"""The papers' similarity tasks, read from files below the data root.

Files (UTF-8, tab separated, a header row, no quoting, lines end with a single line feed; other
columns are ignored, so the order of columns is free):

    sts/STS12.tsv ... sts/STS16.tsv     subset, score, sentence1, sentence2
    sts/STSB-{train,dev,test}.tsv       score, sentence1, sentence2
    sts/SICK-{trial,test}.tsv           relatedness, sentence1, sentence2

The multilingual STS Benchmark is in `harness.evaluation.sts_multi`.

Scores run from 0 to 5 (SICK: 1 to 5). Pairs without a gold score (2015, 2016) are not in the files. Runs of
blanks inside a sentence become one blank, as in SentEval.
"""

from __future__ import annotations

import math
from pathlib import Path

from harness.errors import UserError
from harness.evaluation.suites import SentencePair
from harness.sources import FileSource, digest
from harness.textfiles import read_table

_HOW = (
    "put the STS files below --data-root or HARNESS_DATA in the layout of docs/data.md; the "
    "originals are in SimCSE's SentEval archive (its download_dataset.sh) and on the SemEval STS pages"
)


class SimilarityFile(FileSource):
    """A similarity task in one file."""

    def __init__(
        self,
        name: str,
        file: str,
        score: str = "score",
        subset: str | None = None,
        split: str | None = None,
        how: str = _HOW,
    ) -> None:
        """`score` and `subset` are columns; without `subset` the task is one set, named ''.

        With `split` the task is the rows with this value in the column 'split'.
        """
        super().__init__([file], how)
        self.name = name
        self._score = score
        self._subset = subset
        self._split = split

    def fingerprint(self, root: Path | None) -> str:
        """Hash the file's content, and the split where it has several."""
        content = super().fingerprint(root)
        return digest(content, self._split) if self._split else content

    def load(self, root: Path | None) -> dict[str, list[SentencePair]]:
        """Read the pairs of each subset, both in the order of the file.

        Raises MissingData, or UserError naming the file and line that cannot be read.
        """
        (path,) = self.paths(root)
        selected = [name for name in (self._subset, "split" if self._split else None) if name]
        found: dict[str, list[SentencePair]] = {}
        for line, row in enumerate(read_table(path, self._score, "sentence1", "sentence2", *selected), start=2):
            if self._split is None or row["split"] == self._split:
                first, second = (" ".join(row[side].split()) for side in ("sentence1", "sentence2"))
                subset = row[self._subset] if self._subset else ""
                found.setdefault(subset, []).append((first, second, _number(path, line, row[self._score])))
        return found


def _number(path: Path, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{path}, line {line}: the gold score '{text}' is not a number; correct or remove the line")
    return value


STS12 = SimilarityFile("STS12", "sts/STS12.tsv", subset="subset")
STS13 = SimilarityFile("STS13", "sts/STS13.tsv", subset="subset")
STS14 = SimilarityFile("STS14", "sts/STS14.tsv", subset="subset")
STS15 = SimilarityFile("STS15", "sts/STS15.tsv", subset="subset")
STS16 = SimilarityFile("STS16", "sts/STS16.tsv", subset="subset")
STSB = SimilarityFile("STS-B", "sts/STSB-test.tsv")
STSB_DEV = SimilarityFile("STS-B-dev", "sts/STSB-dev.tsv")
STSB_TRAIN = SimilarityFile("STS-B-train", "sts/STSB-train.tsv")
SICK = SimilarityFile("SICK-R", "sts/SICK-test.tsv", score="relatedness")
SICK_DEV = SimilarityFile("SICK-R-dev", "sts/SICK-trial.tsv", score="relatedness")
