"""The index of a results folder: the data that tables need from every result, as one Arrow table in
one file.

RESULTS/.cache/index-SCHEMA.VERSION.bin, an Arrow IPC stream (lz4), and its CRC-32 in the last 4
bytes

The table has one row per result file; a row's evaluations, and the scores in them, are nested
lists.

The index is a cache. A result file is read again when its size or a time differs from the index's
(the time of its content, which programs can set, or that of its last change, which they cannot),
and for a while after it was written, since a second change within one tick of the file system's
clock would go unnoticed. What could not be used is read each time: another user may have been
refused it. A damaged index is rebuilt; a folder that cannot be written has none. Concurrent writers
are safe: each replaces the whole file, and the last one wins.
"""

from __future__ import annotations

import io
import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import ipc
from pyarrow import json as arrow_json

from harness.errors import UserError
from harness.files import ABANDONED_S, open_regular, remove_leftovers, replace_file
from harness.store.batches import batches_of
from harness.store.schema import SCHEMA_VERSION, Budget, Evaluation, Result

#: Increased when the columns change; each schema of results has indexes of its own.
INDEX_VERSION: Final = 6
#: Folders with fewer files than this have no index: reading the files takes a few hundredths of a
#: second.
WORTH_FILES: Final = 20
#: Age in ns from which a file's time is trusted when it is read; file systems keep times to two
#: seconds or better.
_SETTLED_NS: Final = 2_500_000_000
#: the status of a file that is to be read again
_UNSETTLED: Final = (0, -1, -1)
#: results that are made into a table at once
_BATCH: Final = 500

#: a text that many rows share, and one of its own
_SHARED = pa.dictionary(pa.int32(), pa.string())
_OWN = pa.string()
#: `part` is '' in the scores of whole tasks
_SCORES = pa.list_(
    pa.struct({**dict.fromkeys(("task", "part", "metric"), _SHARED), "value": pa.float64()})
)
#: `protocol` is the protocol's key, `declared` its JSON text; seconds are wall time
_EVALUATION = {
    **dict.fromkeys(("suite", "protocol", "declared", "warnings"), _SHARED),
    **{"finished": _OWN, "seconds": pa.float64(), "scores": _SCORES, "parts": _SCORES},
}
#: columns of JSON texts
JSON = ("overrides", "hyperparameters", "teachers", "hardware", "packages", "revision", "warnings")
#: columns that are fields of a result
_FIELDS = ("profile", "profile_origin", "fingerprint", "group", "started", "finished")
_NUMBERS = ("backend", "train_seconds", "peak_memory_mb")
#: columns that tell whether a file has changed, as `_read_status` returns them
_STATUS = ("size", "mtime", "ctime")
#: columns that are fields of a result's budget: whole numbers, and others
_COUNTS = [name for name, field in Budget.model_fields.items() if field.annotation is int]
_AMOUNTS = [name for name in Budget.model_fields if name not in _COUNTS]
#: `problem` is what is wrong with a file that cannot be used, `dev` the dev score at the
#: `kept_step`, `shares` of terms in JSON, and `batches` as `batches_of` gives them
SCHEMA = pa.schema(
    {
        **dict.fromkeys(("path", "problem", "fingerprint", "started", "finished", "shares"), _OWN),
        **dict.fromkeys(
            ("profile", "profile_origin", "method", "variant", "setting", "encoder", "group"),
            _SHARED,
        ),
        "batches": _SHARED,
        **dict.fromkeys(("dev_task", "dev_metric", *JSON), _SHARED),
        **dict.fromkeys(("seed", "backend"), pa.int64()),
        **dict.fromkeys([*_COUNTS, "kept_step", *_STATUS], pa.int64()),
        **dict.fromkeys(("dev", "last_dev"), pa.float64()),
        **dict.fromkeys([*_AMOUNTS, "train_seconds", "peak_memory_mb"], pa.float64()),
        "evaluations": pa.list_(pa.struct(_EVALUATION)),
    }
)

#: reads a result file; raises UserError for one that cannot be used
ReadResult = Callable[[Path], Result]


def refresh_index(root: Path, paths: Sequence[str], read: ReadResult) -> pa.Table:
    """The table of result files below a folder, in their order; new, changed and unusable ones are
    read.
    """
    stored = _load_index(root)
    rows = {path: row for row, path in enumerate(stored["path"].to_pylist())}
    changed = _find_changed_files(root, paths, stored, rows)
    if not changed and len(paths) == len(rows):
        return stored

    table = join_tables(stored, make_arrow_table(_read_rows(root, changed, read)))
    for number, path in enumerate(changed):
        rows[path] = len(stored) + number
    table = take_table_rows(table, [rows[path] for path in paths])
    if len(paths) >= WORTH_FILES:
        _save_index(root, table)
    return table


def _find_changed_files(
    root: Path, paths: Sequence[str], stored: pa.Table, rows: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """The files to read, with the status that the index will store of each.

    `rows` are the rows of the stored table by path.
    """
    problems = stored["problem"].to_pylist()
    columns = [column.to_pylist() for column in stored.select(_STATUS).columns]
    statuses = list(zip(*columns, strict=True))
    settled = time.time_ns() - _SETTLED_NS

    changed: dict[str, tuple[int, ...]] = {}
    for path in paths:
        row = rows.get(path)
        status = _read_status(f"{root}/{path}")
        if row is not None and not problems[row] and statuses[row] == status:
            continue
        # a second change within one tick of the clock would go unnoticed
        is_settled = max(status[1:]) < settled
        changed[path] = status if is_settled else _UNSETTLED

    return changed


def _read_status(path: str) -> tuple[int, ...]:
    """A file's size in bytes, and in ns the times of its content and of its last change."""
    with suppress(OSError):  # gone, or not to be looked at: reading it says so
        status = os.lstat(path)  # a path object for each of many files takes long
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return _UNSETTLED


def make_row(result: Result) -> dict[str, object]:
    """The row of a result, without its file."""
    row: dict[str, object] = {name: getattr(result, name) for name in (*_FIELDS, *_NUMBERS)}
    row.update(result.spec.names)
    for name, values in result.model_dump(include={*JSON}).items():
        row[name] = json.dumps(values)
    row["batches"] = batches_of(result)
    row["shares"] = json.dumps(result.shares)

    # a training ends with a dev score, so that older files have steps too
    last_step = next(reversed(result.dev.steps), None)
    row["steps"] = last_step
    if result.budget is not None:
        row.update(result.budget.model_dump())

    is_trained = result.dev.best_step is not None
    row["kept_step"] = result.dev.best_step
    row["dev"] = result.dev.best_score
    row["last_dev"] = next(reversed(result.dev.scores), None)
    row["dev_task"] = result.dev.task if is_trained else ""
    row["dev_metric"] = result.dev.metric
    row["evaluations"] = [_make_evaluation(evaluation) for evaluation in result.evaluations]
    return row


def _make_evaluation(evaluation: Evaluation) -> dict[str, object]:
    scores = list[dict[str, object]]()
    for task, values in evaluation.scores.items():
        scores += _list_scores(task, "", values)

    parts = list[dict[str, object]]()
    for task, values_by_part in evaluation.parts.items():
        for part, values in values_by_part.items():
            parts += _list_scores(task, part, values)

    return {
        "suite": evaluation.suite,
        "protocol": evaluation.protocol.key,
        "declared": evaluation.protocol.model_dump_json(),
        "warnings": json.dumps(evaluation.warnings),
        "finished": evaluation.finished,
        "seconds": evaluation.seconds,
        "scores": scores,
        "parts": parts,
    }


def _list_scores(task: str, part: str, values: Mapping[str, float]) -> list[dict[str, object]]:
    return [
        {"task": task, "part": part, "metric": metric, "value": value}
        for metric, value in values.items()
    ]


def make_arrow_table(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """The table of rows as `make_row` makes them."""
    # through JSON, since a conversion of Python objects imports pandas
    texts = map(json.dumps, rows)
    tables = []
    while batch := list(islice(texts, _BATCH)):
        tables.append(_parse_rows("\n".join(batch)))
    return join_tables(*tables)


def _parse_rows(text: str) -> pa.Table:
    """The table of rows as lines of JSON."""
    plain = pa.schema([_expand_field(field) for field in SCHEMA])
    parsing = arrow_json.ParseOptions(explicit_schema=plain)
    in_one_block = arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    table = arrow_json.read_json(io.BytesIO(text.encode()), in_one_block, parsing)
    return table.select(SCHEMA.names).cast(SCHEMA)


def _expand_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _expand_type(field.type))


def _expand_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_expand_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([_expand_field(field) for field in kind])
    if pa.types.is_dictionary(kind):
        return pa.string()
    return kind


def join_tables(*tables: pa.Table) -> pa.Table:
    """The rows of several tables in one."""
    return pa.concat_tables([_make_empty_table(), *tables]).unify_dictionaries().combine_chunks()


@cache
def _make_empty_table() -> pa.Table:
    return _parse_rows("{}").slice(0, 0).combine_chunks()


def take_table_rows(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """The rows of a table at these numbers, in that order."""
    numbers = np.asarray(rows, np.int64)
    # from the buffer, since a conversion of the array imports pandas
    buffers = [None, pa.py_buffer(numbers)]
    return table.take(pa.Array.from_buffers(pa.int64(), len(numbers), buffers))


def _read_rows(
    root: Path, statuses: Mapping[str, tuple[int, ...]], read: ReadResult
) -> Iterator[dict[str, object]]:
    """The rows of result files; that of a file that cannot be used says why."""
    for path, status in statuses.items():
        try:
            row = make_row(read(root / path))
            row["problem"] = ""
        except UserError as error:
            row = {"problem": str(error)}
        row["path"] = path
        row.update(zip(_STATUS, status, strict=True))
        yield row


def _index_path(root: Path) -> Path:
    return root / ".cache" / f"index-{SCHEMA_VERSION}.{INDEX_VERSION}.bin"


def _load_index(root: Path) -> pa.Table:
    """The stored table; an empty one where there is none or it is damaged."""
    with suppress(OSError, ValueError, pa.ArrowException):
        return read_table(_index_path(root), root)
    return _make_empty_table()


def _save_index(root: Path, table: pa.Table) -> None:
    path = _index_path(root)
    # a read-only folder or a full disk: the next reader reads the files again
    with suppress(OSError):
        remove_leftovers(path.parent, ".index-*.tmp", ABANDONED_S)
        write_table(path, table, root)


def write_table(path: Path, table: pa.Table, within: Path | None = None) -> None:
    """Write a table; the file never exists half-written. Raises OSError, also for a link below
    `within`.
    """
    sink = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression="lz4")
    with ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_table(table)

    content: Any = memoryview(sink.getvalue())
    with replace_file(path, within) as stream:
        stream.write(content)
        stream.write(_compute_checksum(content))


def read_table(path: Path, within: Path | None = None) -> pa.Table:
    """Read a file of `write_table`. Raises OSError, and ValueError or pyarrow's errors for any
    other file.
    """
    with open_regular(path, within) as stream:
        content = memoryview(stream.read())
    body = content[:-4]
    if _compute_checksum(body) != content[-4:]:
        raise ValueError(f"{path} is damaged")

    table = ipc.open_stream(pa.py_buffer(body)).read_all()
    if not table.schema.equals(SCHEMA):
        raise ValueError(f"{path} has other columns")
    return table.combine_chunks()


def _compute_checksum(content: memoryview) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little")
