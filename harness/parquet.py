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


def read_columns(path: Path, *names: str) -> Table:
    """Read columns of a Parquet file. Raises UserError if it is none or has no such column."""
    import pyarrow.parquet as parquet

    with _plain_errors(path, f"file with columns {' and '.join(names)}"):
        return parquet.read_table(path, columns=list(names)).select(list(names))


@contextmanager
def _plain_errors(path: Path, what: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, KeyError) as error:
        raise UserError(f"{path} is not a Parquet {what}: {first_line(error)}; {RESTORE}") from error
