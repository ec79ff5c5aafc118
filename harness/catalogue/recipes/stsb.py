"""The multilingual STS Benchmark as one table a language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.catalogue.recipes.base import Got, Take, only, write_table
from harness.catalogue.schema import Entry
from harness.errors import UserError

SPLITS = ("train", "dev", "test")


def stsb_multi(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write stsb-LANGUAGE.tsv.gz from the Parquet files LANGUAGE/SPLIT-*.parquet. Raises UserError."""
    header = ("split", "score", "sentence1", "sentence2")
    for output in entry.outputs:
        language = Path(output.path).name.removeprefix("stsb-").removesuffix(".tsv.gz")
        files = {split: only(entry, got, f"{language}/{split}-00000-of-00001.parquet") for split in SPLITS}
        rows = (row for split, file in files.items() for row in _rows(split, file))
        write_table(out / output.path, header, rows)


def _rows(split: str, path: Path) -> Iterator[list[str]]:
    import pyarrow.parquet as parquet
    from pyarrow import ArrowException

    try:
        table = parquet.read_table(path, columns=["similarity_score", "sentence1", "sentence2"]).to_pydict()
    except (ArrowException, OSError, KeyError) as error:
        raise UserError(
            f"{path} is no table of sentence pairs: {' '.join(str(error).split())}; get it again"
        ) from error
    for score, first, second in zip(table["similarity_score"], table["sentence1"], table["sentence2"], strict=True):
        # stored as 32-bit floats: written with as many digits as tell them apart
        yield [split, str(np.float32(score)), first, second]
