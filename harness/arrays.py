"""Stored features: files with one row of numbers per image or caption, read by what they contain,
not by their names.

Parquet has the columns `feature` (a list of numbers) and `image_id` or `caption`. HDF5, .npz, .pt
and safetensors have `features`, (rows, width), and `image_id`, `caption` or `ids`, one a row; or one
array for each image, under its id. .npy has features alone.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harness.caches import read_or_make_note
from harness.census import Account, account_for
from harness.datafiles import detect_container, read_lines
from harness.errors import RESTORE, UserError, first_line
from harness.formatting import count_of
from harness.sources import digest, hash_file

#: names of the features in a file, and of the ids of its rows by what these are
FEATURES = ("features", "feature")
IDS = {"image": ("image_id", "ids"), "caption": ("caption", "ids"), "region": ("region", "ids")}
#: A file may unpack to this many bytes, and to more if that is not more than so many times its own
#: size.
UNPACKED = 10**9
RATIO = 20
_ERRORS = (
    *(OSError, EOFError, ValueError, TypeError, RuntimeError, LookupError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)


def read_features(
    path: Path, of: str, ids: Path | None = None
) -> tuple[list[str] | None, np.ndarray]:
    """Ids of the rows, None if there are none, and features (rows, width) float32.

    The rows are `of` images, captions or regions, which names their ids; `ids` is a text file with an id on
    each line instead. Raises UserError for anything but finite numbers in two dimensions, and for a
    file that unpacks to far more than it is.
    """
    with _open_features(path, of, ids) as (row_ids, values):
        _check_finite(path, values)
        return row_ids, np.asarray(values[:], dtype=np.float32)


def check_features(path: Path, of: str, ids: Path | None = None) -> tuple[list[str] | None, int]:
    """Ids and number of the rows of a file that is checked as by `read_features`, once for its
    content.
    """
    with _open_features(path, of, ids) as (row_ids, values):
        note = f"stored/{digest('features that differ', hash_file(path))}.json"
        read_or_make_note(
            note, "the features will be checked again", lambda: _check_finite(path, values)
        )
        return row_ids, len(values)


def _check_finite(path: Path, values: Any) -> Mapping[str, int]:
    """Check features (rows, width): the number of rows. Raises UserError."""
    if values.dtype.kind not in "fiu" or values.dtype.itemsize == 1:
        raise ValueError(
            f"it holds {values.dtype}, not real numbers that are stored whole; use floating point"
        )
    with np.errstate(over="ignore"):
        rows = np.asarray(values[:], dtype=np.float32)
    bad_rows = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad_rows):
        raise UserError(
            f"{path} has {len(bad_rows)} of {len(values)} rows with NaN or infinite numbers, the first is row "
            f"{bad_rows[0] + 1}; compute them again, or remove them"
        )
    if len(rows) > 1 and not np.ptp(rows, axis=0).any():
        raise UserError(
            f"{path} has the same numbers in each of its {len(rows)} rows; compute them again"
        )
    return {"rows": len(rows)}


@contextmanager
def _open_features(
    path: Path, of: str, beside: Path | None
) -> Iterator[tuple[list[str] | None, Any]]:
    """Yield ids and features, which are read when sliced. Errors, of the block too, become a
    UserError of one line.
    """
    with ExitStack() as stack:
        try:
            arrays = _read_arrays(path, stack)
            names = [name for name in FEATURES if name in arrays]
            if not names and _is_array_by_id(arrays):
                if beside is not None:
                    raise UserError(
                        f"{path} has an array for each id, beside those of {beside}; remove ids"
                    )
                rows = [np.asarray(values).reshape(-1) for values in arrays.values()]
                yield list(arrays), np.stack(rows)
                return

            if len(names) != 1:
                listed = ", ".join(sorted(arrays)) or "no entries"
                raise ValueError(f"no '{FEATURES[0]}' among {listed}")
            values = arrays.pop(names[0])
            if values.ndim != 2 or not values.size:
                dimensions = f"{count_of(values.ndim, 'dimension')} {values.shape}"
                raise UserError(
                    f"{path} has {dimensions}, 2 are needed, neither of them 0: one row for each {of}"
                )
            yield _read_ids(path, arrays, len(values), of, beside), values
        except BlockingIOError as error:
            raise UserError(
                f"the feature file {path} cannot be read: another process has it open; wait until it is closed, or "
                "set HDF5_USE_FILE_LOCKING=FALSE"
            ) from error
        except _ERRORS as error:
            raise _explain_unreadable_array(path, error) from error


def _explain_unreadable_array(path: Path, error: Exception) -> UserError:
    return UserError(f"the feature file {path} cannot be read: {first_line(error)}; {RESTORE}")


def _is_array_by_id(arrays: Mapping[str, Any]) -> bool:
    """Whether a file has one array for each image or caption, under its id, all of one width.

    Each has one dimension, or a first one of 1.
    """
    shapes = set()
    for values in arrays.values():
        if values.dtype.kind not in "fiu":
            return False
        shapes.add(values.shape if values.ndim == 2 else (1, *values.shape))
    return len(shapes) == 1 and all(len(shape) == 2 and shape[0] == 1 for shape in shapes)


def account_for_arrays(path: Path, of: str) -> list[Account]:
    """What became of the arrays of a file of features. Raises UserError."""
    with ExitStack() as stack:
        try:
            arrays = _read_arrays(path, stack)
            unread = _list_unread(path)
        except _ERRORS as error:
            raise _explain_unreadable_array(path, error) from error

        read = list(arrays)
        if any(name in arrays for name in FEATURES):
            read = [name for name in arrays if name in (*FEATURES, *IDS[of])]
        left_out = [name for name in arrays if name not in read]

    accounts = account_for("arrays", read, "read")
    accounts += account_for("arrays", left_out, "left out", "neither features nor ids")
    return accounts + account_for("items", unread, "left out", "no arrays of this file")


def _list_unread(path: Path) -> list[str]:
    """The entries of a file of features that are no arrays, or that lie in another file."""
    kind = detect_container(path)
    if kind == "hdf5":
        import h5py

        with h5py.File(path) as file:
            return _list_elsewhere(file)
    if kind != "zip":
        return []

    with zipfile.ZipFile(path) as archive:
        members = archive.namelist()
    if any(name.endswith("/data.pkl") for name in members):
        entries = _load_torch_entries(path)
        return [str(name) for name, values in entries.items() if not _is_listed(values)]
    return [name for name in members if not name.endswith(".npy")]


def _read_arrays(path: Path, stack: ExitStack) -> dict[str, Any]:
    """The arrays of a file by name. Raises UserError for another kind of file, and one of _ERRORS."""
    kind = detect_container(path)
    if kind == "npy":
        return {FEATURES[0]: _map_npy(path)}
    if kind == "zip":
        return _read_zip(path)
    if kind == "hdf5":
        import h5py

        data_sets = _find_data_sets(stack.enter_context(h5py.File(path)))
        _check_size(path, sum(values.nbytes for values in data_sets.values()))
        return {
            name: values
            for name, values in data_sets.items()
            if not (values.is_virtual or values.external)
        }
    if kind == "safetensors":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(path))
        except SafetensorError as error:
            raise ValueError(str(error)) from error
    if kind == "parquet":
        return _read_parquet(path)
    raise UserError(
        f"{path} is not a feature file; convert it to .npy, .npz, .h5, .pt, .parquet or .safetensors"
    )


def _map_npy(path: Path) -> np.ndarray:
    """An array mapped from disk, so that a wrong shape in its header cannot allocate memory."""
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError("it is no .npy file of numbers, or shorter than its shape says") from error
    return array


def _read_zip(path: Path) -> dict[str, Any]:
    """The arrays of a file of NumPy or of torch."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    _check_size(path, sum(member.file_size for member in members))
    if any(member.filename.endswith("/data.pkl") for member in members):
        return _read_tensors(path)

    arrays = {}
    with np.load(path, allow_pickle=False) as entries:
        for name in entries:
            values = entries[name]
            if isinstance(values, np.ndarray):
                arrays[name] = values
    return arrays


def _find_data_sets(group: Any) -> dict[str, Any]:
    """The arrays of an HDF5 file by their paths, as image ids with folders have become groups."""
    import h5py

    data_sets = {}
    for name in group:
        link = group.get(name, getlink=True)
        # what lies in another file is not this file's content
        if isinstance(link, h5py.ExternalLink):
            continue
        value = group[name]
        if isinstance(value, h5py.Dataset):
            data_sets[f"{group.name}/{name}".lstrip("/")] = value
        elif isinstance(link, h5py.HardLink):
            data_sets |= _find_data_sets(value)
    return data_sets


def _list_elsewhere(group: Any) -> list[str]:
    """The entries of an HDF5 file whose content lies in another file, or in other entries."""
    import h5py

    names = []
    for name in group:
        path = f"{group.name}/{name}".replace("//", "/").lstrip("/")
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            names.append(path)
            continue
        value = group[name]
        if isinstance(value, h5py.Dataset):
            if value.is_virtual or value.external:
                names.append(path)
        elif isinstance(link, h5py.HardLink):
            names += _list_elsewhere(value)
        else:
            names.append(path)
    return names


def _is_listed(values: Any) -> bool:
    """Whether an entry of a file of torch is a tensor, or a list such as one of ids."""
    import torch

    return isinstance(values, torch.Tensor | list | tuple)


def _read_tensors(path: Path) -> dict[str, Any]:
    """The tensors and lists of a file of torch."""
    import torch

    arrays = {}
    for name, values in _load_torch_entries(path).items():
        if isinstance(values, torch.Tensor):
            number = values.float() if values.is_floating_point() else values
            arrays[str(name)] = number.numpy()
        elif _is_listed(values):
            arrays[str(name)] = np.array(values, dtype=object)
    return arrays


def _load_torch_entries(path: Path) -> dict[Any, Any]:
    """What lies in a file of torch, which unpickles nothing but tensors and plain containers."""
    import pickle

    import torch

    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} holds Python objects, which are not read; save the features alone: "
            "np.save('features.npy', features.numpy())"
        ) from error

    return loaded if isinstance(loaded, dict) else {FEATURES[0]: loaded}


def _check_size(path: Path, unpacked: int) -> None:
    size = path.stat().st_size
    if unpacked > max(UNPACKED, RATIO * size):
        much = f"unpacks to {unpacked / 1e9:.1f} GB from {size / 1e6:.1f} MB"
        raise UserError(f"{path} {much}; is it the right file? If so, save it without compression")


def _read_parquet(path: Path) -> dict[str, Any]:
    """The columns of a Parquet file; those that are neither features nor ids are not read, and have
    one value a row.
    """
    import pyarrow
    import pyarrow.parquet as parquet

    known_names = {*FEATURES, *chain.from_iterable(IDS.values())}
    try:
        with parquet.ParquetFile(path) as file:
            row_count = file.metadata.num_rows
            names = file.schema_arrow.names
            read = [name for name in names if name in known_names]
            number_count = _count_numbers(file.metadata, read)
            _check_size(path, 4 * number_count)
            arrow_table = file.read(read)
    except pyarrow.ArrowException as error:
        raise ValueError(first_line(error)) from error

    arrays: dict[str, Any] = dict.fromkeys(names, np.empty(row_count, bool))
    for name in read:
        column = arrow_table.column(name)
        if name in FEATURES:
            arrays[name] = np.stack(column.to_numpy())
        else:
            arrays[name] = np.array(column.to_pylist(), dtype=object)
    return arrays


def _count_numbers(metadata: Any, names: Sequence[str]) -> int:
    """How many values the columns of a Parquet file have, those in lists counted."""
    count = 0
    for group_number in range(metadata.num_row_groups):
        group = metadata.row_group(group_number)
        for column_number in range(group.num_columns):
            column = group.column(column_number)
            if column.path_in_schema.split(".")[0] in names:
                count += column.num_values
    return count


def _read_ids(
    path: Path, arrays: Mapping[str, Any], rows: int, of: str, beside: Path | None
) -> list[str] | None:
    """The ids of the rows. Raises UserError for ids that would be ignored, and for fewer or more
    ids than rows.
    """
    names = [name for name in IDS[of] if name in arrays]
    if beside is not None and names:
        raise UserError(f"{path} has the ids {', '.join(names)} beside those of {beside}; keep one")
    if len(names) > 1:
        raise UserError(f"{path} has the ids {', '.join(names)}; keep one")

    if beside is not None:
        place = beside
        values = list(read_lines(beside))
    elif names:
        place = path
        values = arrays[names[0]][:].tolist()
    else:
        for name, array in arrays.items():
            if array.size == rows:
                raise UserError(
                    f"{path}: '{name}' has one value a row; name it {IDS[of][0]} if these are ids, or remove it"
                )
        return None

    if len(values) != rows:
        raise UserError(
            f"{place} has {len(values)} ids for {rows} rows of features; make both from the same list"
        )
    ids = []
    for row, value in enumerate(values, 1):
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            raise UserError(
                f"{place}: the id of row {row} is {value!r}; write texts or whole numbers"
            )
        ids.append(str(value).strip())
    return ids
