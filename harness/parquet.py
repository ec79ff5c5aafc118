"""Reading Parquet files below the data root."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import RESTORE, UserError, first_line

if TYPE_CHECKING:
    from pyarrow import Table


def column_names(path: Path) -> list[str]:
    """Names of the columns of a Parquet file. Raises UserError if it is none."""
    import pyarrow.parquet as parquet

    with _plain_errors(path, "file"):
        return list(parquet.read_schema(path).names)


def check_columns(path: Path, *names: str) -> int:
    """The number of rows, from the end of the file. Raises UserError if a column is missing, or it is no such file."""
    import pyarrow.parquet as parquet

    with _plain_errors(path, "file"):
        found = parquet.read_metadata(path)
        there = list(found.schema.to_arrow_schema().names)
    if missing := [name for name in names if name not in there]:
        has = f"it has {', '.join(there[:10])}" if there else "it has none"
        raise UserError(f"{path} has no column {' and '.join(missing)}; {has}; rename one, or give another file")
    return int(found.num_rows)


def read_columns(path: Path, *names: str) -> Table:
    """Read columns of a Parquet file. Raises UserError if it is none or has no such column."""
    import pyarrow.parquet as parquet

    check_columns(path, *names)
    with _plain_errors(path, "file"):
        return parquet.read_table(path, columns=list(names)).select(list(names))


@contextmanager
def _plain_errors(path: Path, what: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, KeyError) as error:
        raise UserError(f"{path} is not a Parquet {what}: {first_line(error)}; {RESTORE}") from error
