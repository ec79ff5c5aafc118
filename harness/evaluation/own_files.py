"""Tasks over tables of users (.tsv, .csv or .jsonl) whose columns a profile names.

Their fingerprints are those of what is read, so the same rows in another format are the same task, and a plan that
computes them finds a mistake in a file before anything is trained.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.caches import known_hash
from harness.datafiles import TableRow, read_rows
from harness.errors import UserError
from harness.evaluation.sts import gold_score
from harness.evaluation.suites import SIMILARITY, SentencePair
from harness.evaluation.transfer import TRANSFER, Labelled, in_order
from harness.sources import FileSource, digest

#: the scores of unrelated and of equal meaning in similarity tasks
_SCALE = (0.0, 5.0)


class _OwnFiles(FileSource):
    """A task over tables; `options` change what is read of them."""

    def __init__(self, name: str, files: Sequence[str], options: Sequence[object]) -> None:
        super().__init__(files)
        self.name, self._options = name, options

    def fingerprint(self, root: Path | None) -> str:
        key = digest("task", type(self).__name__, super().fingerprint(root), self._options)
        return known_hash(f"tasks/{key}", lambda: digest(self._content(root)))

    @abstractmethod
    def _content(self, root: Path | None) -> object:
        """What is read, as JSON values."""


class OwnPairs(_OwnFiles):
    """Sentence pairs with scores, which are rescaled to 0 to 5."""

    kind = SIMILARITY

    def __init__(
        self,
        name: str,
        file: str,
        columns: tuple[str, str, str],
        scale: tuple[float, float] = _SCALE,
        subset: str | None = None,
    ) -> None:
        """`columns` are those of both sentences and the score; without the column `subset` the task is one set."""
        self._columns = (*columns, *([subset] if subset else []))
        self._scale = scale
        super().__init__(name, [file], [self._columns, scale])

    def load(self, root: Path | None) -> dict[str, list[SentencePair]]:
        (path,) = self.paths(root)
        found: dict[str, list[SentencePair]] = {}
        for row in read_rows(path, *self._columns):
            first, second, score, *subset = row.values
            pairs = found.setdefault(subset[0] if subset else "", [])
            pairs.append((_sentence(path, row, first), _sentence(path, row, second), self._number(path, row, score)))
        if not found:
            raise UserError(f"{path} has no pairs; give a table with rows")
        return found

    def _content(self, root: Path | None) -> object:
        return list(self.load(root).items())

    def _number(self, path: Path, row: TableRow, text: str) -> float:
        low, high = self._scale
        value = gold_score(path, row.line, text)
        if not low <= value <= high:
            raise UserError(
                f"{path}, line {row.line}: the score {text} is not between {low:g} and {high:g}; correct it, or write "
                "scale = [lowest, highest] for the task"
            )
        return value if self._scale == _SCALE else _SCALE[1] * (value - low) / (high - low)


class OwnClasses(_OwnFiles):
    """Texts, or pairs of texts, with labels; the classes are the labels of the training set in order."""

    kind = TRANSFER

    def __init__(self, name: str, files: Mapping[str, str], texts: tuple[str, ...], label: str) -> None:
        """`files` by split: 'all', or 'train' and 'test', or these and 'dev'; `texts` and `label` are columns."""
        super().__init__(name, list(files.values()), [list(files), texts, label])
        self._splits, self._columns = tuple(files), (label, *texts)

    def load(self, root: Path | None) -> dict[str, Labelled]:
        paths = dict(zip(self._splits, self.paths(root), strict=True))
        rows = {split: self._rows(path) for split, path in paths.items()}
        classes = sorted({label for label, _ in rows[self._splits[0]].values()})
        if len(classes) < 2:
            raise UserError(f"{paths[self._splits[0]]} has one label only, '{classes[0]}'; a task needs two classes")
        found = {}
        for split, path in paths.items():
            for line, (label, _) in rows[split].items():
                if label not in classes:
                    raise UserError(
                        f"{path}, line {line}: no training sample has the label '{label}'; correct the line"
                    )
            found[split] = in_order([(words, classes.index(label)) for label, words in rows[split].values()])
        return found

    def _rows(self, path: Path) -> dict[int, tuple[str, list[list[str]]]]:
        found = {}
        for row in read_rows(path, *self._columns):
            label, *texts = row.values
            if not label.strip():
                raise UserError(f"{path}, line {row.line}: no label; correct or remove the line")
            found[row.line] = (label.strip(), [text.split() for text in texts])
        if not found:
            raise UserError(f"{path} has no samples; give a table with rows")
        return found

    def _content(self, root: Path | None) -> object:
        return [[split, read.sides, read.labels.tolist()] for split, read in self.load(root).items()]


def _sentence(path: Path, row: TableRow, text: str) -> str:
    words = " ".join(text.split())
    if not words:
        raise UserError(f"{path}, line {row.line}: an empty sentence; correct or remove the line")
    return words
