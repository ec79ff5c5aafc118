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
from harness.files import ABANDONED_S, open_regular, remove_leftovers, replaced
from harness.store.batches import batches_of
from harness.store.schema import SCHEMA_VERSION, Evaluation, Result

#: Increased when the columns change; each schema of results has indexes of its own.
INDEX_VERSION: Final = 6
#: Folders with fewer files than this have no index: reading the files takes a few hundredths of a
#: second.
WORTH_FILES: Final = 200
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
        **dict.fromkeys(
            ("seed", "backend", "steps", "text_rows", "other_rows", "kept_step", *_STATUS),
            pa.int64(),
        ),
        **dict.fromkeys(
            ("dev", "last_dev", "flops", "train_seconds", "peak_memory_mb"), pa.float64()
        ),
        "evaluations": pa.list_(pa.struct(_EVALUATION)),
    }
)

#: reads a result file; raises UserError for one that cannot be used
ReadResult = Callable[[Path], Result]


def refresh_index(root: Path, paths: Sequence[str], read: ReadResult) -> pa.Table:
    """The table of result files below a folder, in their order; new, changed and unusable ones are
    read.
    """
    known = _load_index(root)
    rows = {path: row for row, path in enumerate(known["path"].to_pylist())}
    problems = known["problem"].to_pylist()
    statuses = [
        *zip(*(column.to_pylist() for column in known.select(_STATUS).columns), strict=True)
    ]
    settled = time.time_ns() - _SETTLED_NS
    fresh: dict[str, tuple[int, ...]] = {}
    for path in paths:
        row = rows.get(path)
        status = _read_status(f"{root}/{path}")
        if row is None or problems[row] or statuses[row] != status:
            fresh[path] = status if max(status[1:]) < settled else _UNSETTLED
    if not fresh and len(paths) == len(rows):
        return known
    places = rows | {path: len(rows) + number for number, path in enumerate(fresh)}
    added = make_arrow_table(
        {"path": path, **dict(zip(_STATUS, status, strict=True)), **_read_row(root / path, read)}
        for path, status in fresh.items()
    )
    table = take_table_rows(join_tables(known, added), [places[path] for path in paths])
    if len(paths) >= WORTH_FILES:
        _save_index(root, table)
    return table


def _read_status(path: str) -> tuple[int, ...]:
    """A file's size in bytes, and in ns the times of its content and of its last change."""
    with suppress(OSError):  # gone, or not to be looked at: reading it says so
        status = os.lstat(path)  # a path object for each of many files takes long
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return _UNSETTLED


def make_row(result: Result) -> dict[str, object]:
    """The row of a result, without its file."""
    texts = result.model_dump(include={*JSON})
    return {
        **{name: getattr(result, name) for name in (*_FIELDS, *_NUMBERS)},
        **result.spec.names,
        **{name: json.dumps(texts[name]) for name in JSON},
        "batches": batches_of(result),
        "shares": json.dumps(result.shares),
        # a training ends with a dev score, so that older files have steps too
        "steps": getattr(result.budget, "steps", next(reversed(result.dev.steps), None)),
        **{
            name: getattr(result.budget, name, None)
            for name in ("text_rows", "other_rows", "flops")
        },
        "kept_step": result.dev.best_step,
        "dev": result.dev.best_score,
        "last_dev": next(reversed(result.dev.scores), None),
        "dev_task": "" if result.dev.best_step is None else result.dev.task,
        "dev_metric": result.dev.metric,
        "evaluations": [*map(_make_evaluation, result.evaluations)],
    }


def _make_evaluation(evaluation: Evaluation) -> dict[str, object]:
    parts = (
        _list_scores(task, part, values)
        for task, by_part in evaluation.parts.items()
        for part, values in by_part.items()
    )
    return {
        "suite": evaluation.suite,
        "protocol": evaluation.protocol.key,
        "declared": evaluation.protocol.model_dump_json(),
        "warnings": json.dumps(evaluation.warnings),
        "finished": evaluation.finished,
        "seconds": evaluation.seconds,
        "scores": [
            score
            for task, values in evaluation.scores.items()
            for score in _list_scores(task, "", values)
        ],
        "parts": [score for scores in parts for score in scores],
    }


def _list_scores(task: str, part: str, values: Mapping[str, float]) -> Iterator[dict[str, object]]:
    return (
        {"task": task, "part": part, "metric": metric, "value": value}
        for metric, value in values.items()
    )


def make_arrow_table(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """The table of rows as `make_row` makes them."""
    # through JSON, since a conversion of Python objects imports pandas
    texts = map(json.dumps, rows)
    return join_tables(*map(_parse_rows, iter(lambda: "\n".join(islice(texts, _BATCH)), "")))


def _parse_rows(text: str) -> pa.Table:
    plain = pa.schema([pa.field(field.name, _without_dictionaries(field.type)) for field in SCHEMA])
    whole = arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    table = arrow_json.read_json(
        io.BytesIO(text.encode()), whole, arrow_json.ParseOptions(explicit_schema=plain)
    )
    return table.select(SCHEMA.names).cast(SCHEMA)


def _without_dictionaries(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_without_dictionaries(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct(
            [pa.field(field.name, _without_dictionaries(field.type)) for field in kind]
        )
    return pa.string() if pa.types.is_dictionary(kind) else kind


def join_tables(*tables: pa.Table) -> pa.Table:
    """The rows of several tables in one."""
    return pa.concat_tables([_make_empty_table(), *tables]).unify_dictionaries().combine_chunks()


@cache
def _make_empty_table() -> pa.Table:
    return _parse_rows("{}").slice(0, 0).combine_chunks()


def take_table_rows(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """The rows of a table at these numbers, in that order."""
    numbers = np.asarray(rows, np.int64)
    return table.take(
        pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
    )


def _read_row(path: Path, read: ReadResult) -> dict[str, object]:
    try:
        return {**make_row(read(path)), "problem": ""}
    except UserError as error:
        return {"problem": str(error)}


def _index_path(root: Path) -> Path:
    return root / ".cache" / f"index-{SCHEMA_VERSION}.{INDEX_VERSION}.bin"


def _load_index(root: Path) -> pa.Table:
    """The stored table; an empty one where there is none or it is damaged."""
    with suppress(OSError, ValueError, pa.ArrowException):
        return read_table(_index_path(root), root)
    return _make_empty_table()


def _save_index(root: Path, table: pa.Table) -> None:
    with suppress(
        OSError
    ):  # a read-only folder or a full disk: the next reader reads the files again
        remove_leftovers(_index_path(root).parent, ".index-*.tmp", ABANDONED_S)
        write_table(_index_path(root), table, root)


def write_table(path: Path, table: pa.Table, within: Path | None = None) -> None:
    """Write a table; the file never exists half-written. Raises OSError, also for a link below
    `within`.
    """
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, SCHEMA, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    content: Any = memoryview(sink.getvalue())
    with replaced(path, within) as stream:
        stream.write(content)
        stream.write(zlib.crc32(content).to_bytes(4, "little"))


def read_table(path: Path, within: Path | None = None) -> pa.Table:
    """Read a file of `write_table`. Raises OSError, and ValueError or pyarrow's errors for any
    other file.
    """
    with open_regular(path, within) as stream:
        content = memoryview(stream.read())
    if zlib.crc32(content[:-4]).to_bytes(4, "little") != content[-4:]:
        raise ValueError(f"{path} is damaged")
    table = ipc.open_stream(pa.py_buffer(content[:-4])).read_all()
    if not table.schema.equals(SCHEMA):
        raise ValueError(f"{path} has other columns")
    return table.combine_chunks()
