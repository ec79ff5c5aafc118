"""The similarity tasks of the papers, read from files below the data root.

Files (UTF-8, tab separated, a header row, no quoting, lines end with a single line feed; other
columns are ignored, so the order of columns is free):

    sts/STS12.tsv ... sts/STS16.tsv     subset, score, sentence1, sentence2
    sts/STSB-{train,dev,test}.tsv       score, sentence1, sentence2
    sts/SICK-{trial,test}.tsv           relatedness, sentence1, sentence2

The multilingual STS Benchmark lies in sts/multilingual/stsb-LANGUAGE.tsv.gz (gzip): split, score, sentence1,
sentence2 (see `harness.evaluation.sts_multi`).

Scores run from 0 to 5 (SICK: 1 to 5). Pairs without a gold score (2015, 2016) are not in the files. Runs of
blanks inside a sentence become one blank, as SentEval splits and joins the words again.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

from harness.errors import UserError
from harness.sources import FileSource, digest

#: sentence, sentence, gold score
Pair = tuple[str, str, float]

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

        With `split` the task is the rows whose column 'split' says so.
        """
        super().__init__([file], how)
        self.name = name
        self._score = score
        self._subset = subset
        self._split = split

    def fingerprint(self, root: Path | None) -> str:
        """The file's content, and the split where it has several."""
        content = super().fingerprint(root)
        return digest(content, self._split) if self._split else content

    def load(self, root: Path | None) -> dict[str, list[Pair]]:
        """Subset -> its pairs with their gold scores, both in the order of the file.

        Raises MissingData, or UserError naming the file and line that cannot be read.
        """
        (path,) = self.paths(root)
        lines = read_lines(path)
        header = lines[0].split("\t")
        columns = [_column(path, header, name) for name in (self._score, "sentence1", "sentence2")]
        subset = None if self._subset is None else _column(path, header, self._subset)
        split = None if self._split is None else _column(path, header, "split")
        found: dict[str, list[Pair]] = {}
        for number, line in enumerate(lines[1:], start=2):
            fields = line.split("\t")
            if len(fields) != len(header):
                raise UserError(
                    f"{path}, line {number}: {len(fields)} tab-separated fields, the header has {len(header)}; "
                    "mend the line or fetch the file again"
                )
            if split is not None and fields[split] != self._split:
                continue
            gold, first, second = (fields[column] for column in columns)
            name = "" if subset is None else fields[subset]
            found.setdefault(name, []).append((_plain(first), _plain(second), _number(path, number, gold)))
        return found


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file, gzip by its suffix: a header and at least one more. Raises UserError."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; convert it or fetch the file again") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}; fetch the file again") from error
    # Not str.splitlines: sentences may hold other Unicode line separators.
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < 2:
        raise UserError(f"{path}: no pairs or other rows, only {len(text)} characters; fetch the file again")
    return lines


def _column(path: Path, header: list[str], name: str) -> int:
    if name not in header:
        raise UserError(
            f"{path}, line 1: no column '{name}' among {header}; "
            "the file needs a tab-separated header, and lines that end with a line feed alone"
        )
    return header.index(name)


def _number(path: Path, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{path}, line {line}: the gold score '{text}' is not a number; mend or remove the line")
    return value


def _plain(sentence: str) -> str:
    return " ".join(sentence.split())


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
