"""The papers' similarity tasks, read from files below the data root.

Files (UTF-8, tab separated, a header row, no quoting, lines end with a single line feed; other
columns are ignored, so the order of columns is free):

    sts/STS12.tsv ... sts/STS16.tsv     subset, score, sentence1, sentence2
    sts/STSB-{train,dev,test}.tsv       score, sentence1, sentence2
    sts/SICK-{trial,test}.tsv           relatedness, sentence1, sentence2
    sts/multilingual/stsb-LANGUAGE.tsv.gz (machine translations)   split, score, sentence1, sentence2

Scores run from 0 to 5 (SICK: 1 to 5). Pairs without a gold score (2015, 2016) are not in the files. Runs of
blanks inside a sentence become one blank, as in SentEval.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

from harness.errors import UserError
from harness.evaluation.suites import SentencePair
from harness.sources import FileSource, digest
from harness.textfiles import read_table

_HOW = (
    "put the STS files below --data-root or HARNESS_DATA in the layout of docs/data.md; the "
    "originals are in SimCSE's SentEval archive (its download_dataset.sh) and on the SemEval STS pages"
)
_HOW_TRANSLATED = "put the data set stsb_multi_mt there, gzip, with the columns split, score, sentence1 and sentence2"


class SimilarityFile(FileSource):
    """A similarity task in one file."""

    def __init__(
        self, name: str, file: str, score: str = "score", subset: str = "", split: str = "", how: str = _HOW
    ) -> None:
        """`score` and `subset` are columns; without `subset` the task is one set, named ''.

        With `split` the task is the rows with this value in the column 'split'.
        """
        super().__init__([file], how)
        self.name, self._score, self._subset, self._split = name, score, subset, split

    def fingerprint(self, root: Path | None) -> str:
        """Hash the file's content, and the split where it has several."""
        content = super().fingerprint(root)
        return digest(content, self._split) if self._split else content

    def load(self, root: Path | None) -> dict[str, list[SentencePair]]:
        """Read the pairs of each subset, both in the order of the file.

        Raises MissingData, or UserError naming the file and line that cannot be read.
        """
        (path,) = self.paths(root)
        selected = filter(None, (self._subset, "split" if self._split else ""))
        found: dict[str, list[SentencePair]] = {}
        for line, row in enumerate(read_table(path, self._score, "sentence1", "sentence2", *selected), start=2):
            if not self._split or row["split"] == self._split:
                first, second = (" ".join(row[side].split()) for side in ("sentence1", "sentence2"))
                subset = row[self._subset] if self._subset else ""
                found.setdefault(subset, []).append((first, second, _number(path, line, row[self._score])))
        return found


def _number(path: Path, line: int, text: str) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise UserError(f"{path}, line {line}: the gold score '{text}' is not a number; correct or remove the line")


def _translated(language: str, split: str = "test") -> SimilarityFile:
    name = f"STS-B-{language}" if split == "test" else f"STS-B-{language}-{split}"
    return SimilarityFile(name, f"sts/multilingual/stsb-{language}.tsv.gz", split=split, how=_HOW_TRANSLATED)


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
DE, DE_DEV = _translated("de"), _translated("de", "dev")
ES, ES_DEV = _translated("es"), _translated("es", "dev")
FR, FR_DEV = _translated("fr"), _translated("fr", "dev")
IT, IT_DEV = _translated("it"), _translated("it", "dev")
JA, JA_DEV = _translated("ja"), _translated("ja", "dev")
NL, NL_DEV = _translated("nl"), _translated("nl", "dev")
PL, PL_DEV = _translated("pl"), _translated("pl", "dev")
PT, PT_DEV = _translated("pt"), _translated("pt", "dev")
RU, RU_DEV = _translated("ru"), _translated("ru", "dev")
ZH, ZH_DEV = _translated("zh"), _translated("zh", "dev")
