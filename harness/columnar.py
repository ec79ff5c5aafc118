"""Tables with typed columns, in Parquet or Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.datafiles import COLUMNAR, detect_container, list_parts, read_lines
from harness.errors import RESTORE, UserError, first_line

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, DataType, Schema, Table

#: the end of a whole stream of Arrow, without which rows may be missing
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"


def read_schema(path: Path) -> Schema:
    """The columns of a Parquet or Arrow table, of several files those of the first. Raises
    UserError for any other file.
    """
    schema, _ = _read_footer(list_parts(path)[0])
    return schema


def _read_footer(path: Path) -> tuple[Schema, int]:
    """The columns and the number of rows of a file."""
    import pyarrow.parquet as parquet

    if detect_container(path) == "arrow":
        arrow_table = _read_arrow(path)
        return arrow_table.schema, int(arrow_table.num_rows)

    with _convert_arrow_errors(path):
        metadata = parquet.read_metadata(path)
        return metadata.schema.to_arrow_schema(), int(metadata.num_rows)


def check_columns(path: Path, *names: str) -> int:
    """The number of rows of a Parquet or Arrow table. Raises UserError for a missing column or any
    other file.
    """
    row_count = 0
    for part in list_parts(path):
        schema, part_rows = _read_footer(part)
        row_count += part_rows
        missing = [name for name in names if name not in schema.names]
        if missing:
            present = f"it has {', '.join(schema.names[:10])}" if schema.names else "it has none"
            raise UserError(
                f"{part} has no column {' and '.join(missing)}; {present}; rename one, or give another file"
            )
    return row_count


def read_columns(path: Path, *names: str) -> Table:
    """Read columns of a Parquet or Arrow table. Raises UserError for any other file or a missing
    column.
    """
    import pyarrow

    check_columns(path, *names)
    parts = list_parts(path)
    # files may disagree about the type of a column
    with _convert_arrow_errors(parts[0]):
        return pyarrow.concat_tables([_read_columns_of_file(part, names) for part in parts])


def _read_columns_of_file(path: Path, names: Sequence[str]) -> Table:
    import pyarrow.parquet as parquet

    if detect_container(path) == "arrow":
        return _read_arrow(path).select(list(names))

    with _convert_arrow_errors(path):
        return parquet.read_table(path, columns=list(names)).select(list(names))


def _read_arrow(path: Path) -> Table:
    """A file or a stream of Arrow, mapped from disk. Raises UserError for one that is damaged or
    cut short.
    """
    import pyarrow

    with _convert_arrow_errors(path):
        source = pyarrow.memory_map(str(path))
        if source.read_at(6, 0) == b"ARROW1":
            return pyarrow.ipc.open_file(source).read_all()

        end_size = len(_STREAM_END)
        end = source.read_at(end_size, max(0, source.size() - end_size))
        if end != _STREAM_END:
            raise pyarrow.ArrowInvalid("the stream has no end: rows are missing")
        return pyarrow.ipc.open_stream(source).read_all()


@contextmanager
def _convert_arrow_errors(path: Path) -> Iterator[None]:
    from pyarrow import ArrowException

    kind = detect_container(path)
    if kind == "text" and path.stat().st_size:
        next(read_lines(path))  # says what stands in the place of the file
    try:
        yield
    except (ArrowException, OSError, KeyError) as error:
        expected = "a whole Arrow" if kind == "arrow" else "a Parquet"
        raise UserError(f"{path} is not {expected} file: {first_line(error)}; {RESTORE}") from error


def get_value_type(column_type: DataType) -> DataType:
    """The type of the values of a column, whether or not they are kept as numbers of a
    dictionary's entries.
    """
    from pyarrow import types

    return column_type.value_type if types.is_dictionary(column_type) else column_type


def is_text(column_type: DataType) -> bool:
    """Whether a column has texts."""
    from pyarrow import types

    return bool(types.is_string(column_type) or types.is_large_string(column_type))


def convert_to_texts(
    path: Path, name: str, column: ChunkedArray, *, numbers: bool = True
) -> list[str]:
    """The values of a Parquet column as texts; whole numbers and, with `numbers`, others are
    written out.

    Raises UserError for other types, and for missing values with their number and the first row.
    """
    import pyarrow.compute as compute
    from pyarrow import types

    value_type = get_value_type(column.type)
    is_allowed = is_text(value_type) or types.is_integer(value_type)
    is_allowed = is_allowed or (numbers and types.is_floating(value_type))
    if not is_allowed:
        raise UserError(
            f"{path}: the column {name} is of the type {value_type}, not of texts; convert it"
        )

    absent = compute.is_null(column, nan_is_null=True)
    absent_count = int(compute.sum(absent).as_py() or 0)
    if absent_count:
        row = compute.index(absent, True).as_py() + 1
        raise UserError(
            f"{path}, row {row}: no {name}, as in {absent_count} of {len(column)} rows; fill or remove them"
        )
    return [str(value) for value in column.to_pylist()]


def list_binary_columns(path: Path) -> list[str]:
    """The columns of a Parquet or Arrow table that hold bytes, such as pictures, also as the library
    `datasets` saves them; none of any other table. Raises UserError.
    """
    from pyarrow import types

    if detect_container(path) not in COLUMNAR:
        return []

    names = []
    for column in read_schema(path):
        kind = column.type
        if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            kind = kind.field("bytes").type
        if types.is_binary(kind) or types.is_large_binary(kind):
            names.append(column.name)
    return names


def has_lists(path: Path, name: str) -> bool:
    """Whether a Parquet or Arrow table has a column of lists of this name. Raises UserError."""
    from pyarrow import types

    schema = read_schema(path)
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    return bool(types.is_list(kind) or types.is_large_list(kind))
