"""Triplets of natural language inference in a file below the data root.

Two formats are recognised by the header line: the CSV published by SimCSE (quoted; columns sent0, sent1, hard_neg),
and tab-separated text without quoting, plain or gzip, with at least those columns.
"""

from __future__ import annotations

import csv
from pathlib import Path

from harness.corpora.base import CorpusSource, Triplets, check_positive
from harness.errors import UserError
from harness.sources import FileSource, digest
from harness.textfiles import read_lines

COLUMNS = ("sent0", "sent1", "hard_neg")


class TripletsFile(FileSource, CorpusSource):
    """One triplet per line: premise, entailed and contradicted hypothesis; the first `limit` if a limit is set."""

    stream = "triplets"

    def __init__(self, file: str, how: str, limit: int | None = None) -> None:
        super().__init__([file], how)
        check_positive("limit", limit)
        self.limit = limit

    def load(self, root: Path | None) -> Triplets:
        """Read the triplets. Raises MissingData, or UserError naming the line."""
        path = self.paths(root)[0]
        rows = _read_triplets(path)[: self.limit]
        if self.limit and len(rows) < self.limit:
            raise UserError(f"{path} has {len(rows)} triplets, fewer than the limit {self.limit}; fetch the whole file")
        return Triplets(*zip(*rows, strict=True))

    def fingerprint(self, root: Path | None) -> str:
        """Hash of content and limit."""
        return digest(super().fingerprint(root), self.limit)


def _read_triplets(path: Path) -> list[tuple[str, ...]]:
    lines = read_lines(path)
    tabs = "\t" in lines[0]
    broken = (f"{line}\n" for line in lines)
    reader = csv.reader(broken, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)
    try:
        header = [name.strip() for name in next(reader)]
        places = [header.index(name) for name in COLUMNS]
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; correct the line or fetch the file again") from error
    except ValueError as error:
        raise UserError(f"{path} needs the columns {', '.join(COLUMNS)}: {error}; fetch it again") from error
    if not rows:
        raise UserError(f"{path} has a header and no triplets; fetch it again")
    return [_checked(path, line, row, places) for line, row in rows]


def _checked(path: Path, line: int, row: list[str], places: list[int]) -> tuple[str, ...]:
    texts = tuple(row[place].strip() for place in places if place < len(row))
    if len(texts) < len(COLUMNS) or not all(texts):
        raise UserError(f"{path}, line {line}: a triplet needs three texts; remove the line or fetch the file again")
    return texts
