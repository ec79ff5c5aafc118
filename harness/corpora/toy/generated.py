"""Generated corpora and their fingerprints, cached so that a plan need not draw thousands of pictures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.corpora.base import CorpusSource
from harness.sources import Generated, cache_folder, digest, file_hash, write_text


class ToyCorpus(Generated, CorpusSource):
    """A corpus determined by its seed and size."""

    rows: ClassVar[int] = 4096

    def __init__(self, seed: int = 0, size: int | None = None) -> None:
        self.seed, self.size = seed, self.rows if size is None else size

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the rows."""
        return cached_hash([type(self).__name__, vars(self)], self.row_hash)

    @abstractmethod
    def row_hash(self) -> str:
        """Generate the rows and hash them."""


def cached_hash(what: object, compute: Callable[[], str]) -> str:
    """The hash (hex) of what the current code of the toy world generates; `what` names its options."""
    code = [file_hash(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    note = cache_folder() / "toy" / digest(repr(what), np.__version__, code)
    if note.is_file():
        text = note.read_text()
        if len(text) == 64:
            return text
    value = compute()
    write_text(note, value)
    return value
