"""Triplets of natural language inference in a file below the data root.

Two forms are read by their header: the CSV that SimCSE publishes (quoted; columns sent0, sent1, hard_neg)
and tab-separated text without quoting, plain or gzip, with those columns among others.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

from harness.corpora.base import CorpusSource, Triplets
from harness.errors import UserError
from harness.sources import FileSource, digest
from harness.textfiles import read_lines

COLUMNS = ("sent0", "sent1", "hard_neg")


class TripletsFile(FileSource, CorpusSource):
    """One triplet a line: premise, entailed and contradicted hypothesis; the first `limit` when one is given."""

    stream: Literal["sentences", "pairs", "triplets", "images", "audio"] = "triplets"

    def __init__(self, file: str, how: str, limit: int | None = None) -> None:
        super().__init__([file], how)
        if limit is not None and limit < 1:
            raise UserError(f"limit = {limit} leaves no triplet; give 1 or more in the profile, or leave it out")
        self.limit = limit

    def load(self, root: Path | None) -> Triplets:
        """Read the triplets. Raises UserError naming the file and the line."""
        path = self.paths(root)[0]
        rows = _rows(path)[: self.limit]
        if self.limit and len(rows) < self.limit:
            raise UserError(f"{path} has {len(rows)} triplets, fewer than the limit {self.limit}; fetch the whole file")
        return Triplets(*zip(*rows, strict=True))

    def fingerprint(self, root: Path | None) -> str:
        """Content and limit."""
        return digest(super().fingerprint(root), self.limit)


def _rows(path: Path) -> list[tuple[str, ...]]:
    lines = read_lines(path)
    tabs = "\t" in lines[0]
    broken = (f"{line}\n" for line in lines)
    reader = csv.reader(broken, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)
    try:
        header = [name.strip() for name in next(reader)]
        places = [header.index(name) for name in COLUMNS]
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; mend the line or fetch the file again") from error
    except ValueError as error:
        raise UserError(f"{path} is no file of triplets with the columns {', '.join(COLUMNS)}: {error}") from error
    if not rows:
        raise UserError(f"{path} has a header and no triplet; fetch it again")
    return [_checked(path, line, row, places) for line, row in rows]


def _checked(path: Path, line: int, row: list[str], places: list[int]) -> tuple[str, ...]:
    texts = tuple(row[place].strip() for place in places if place < len(row))
    if len(texts) < len(COLUMNS) or not all(texts):
        raise UserError(f"{path}, line {line}: a triplet needs three texts; remove the line or fetch the file again")
    return texts
