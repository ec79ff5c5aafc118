"""The multilingual STS Benchmark as one table per language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.catalogue.recipes.base import Got, Take, only, write_table
from harness.catalogue.schema import Entry
from harness.parquet import read_columns

SPLITS = ("train", "dev", "test")


def stsb_multi(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write stsb-LANGUAGE.tsv.gz from the Parquet files LANGUAGE/SPLIT-*.parquet. Raises UserError."""
    header = ("split", "score", "sentence1", "sentence2")
    for output in entry.outputs:
        language = Path(output.path).name.removeprefix("stsb-").removesuffix(".tsv.gz")
        files = {split: only(entry, got, f"{language}/{split}-00000-of-00001.parquet") for split in SPLITS}
        rows = (row for split, file in files.items() for row in _sentence_pairs(split, file))
        write_table(out / output.path, header, rows)


def _sentence_pairs(split: str, path: Path) -> Iterator[list[str]]:
    columns = ("similarity_score", "sentence1", "sentence2")
    table = read_columns(path, *columns).to_pydict()
    for score, first, second in zip(*(table[name] for name in columns), strict=True):
        # scores are 32-bit floats, written with the fewest digits that identify them
        yield [split, str(np.float32(score)), first, second]
