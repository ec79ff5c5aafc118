"""Stored features: files with one row of numbers per image or caption, read by what they contain,
not by their names.

Parquet has the columns `feature` (a list of numbers) and `image_id` or `caption`. HDF5, .npz, .pt
and safetensors have `features`, (rows, width), and `image_id`, `caption` or `ids`, one a row; or one
array for each image, under its id. .npy has features alone.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harness.caches import read_or_make_note
from harness.census import Account, account_for
from harness.datafiles import detect_container, read_lines
from harness.errors import RESTORE, UserError, first_line
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
    with _opened(path, of, ids) as (known, values):
        _check_finite(path, values)
        return known, np.asarray(values[:], dtype=np.float32)


def check_features(path: Path, of: str, ids: Path | None = None) -> tuple[list[str] | None, int]:
    """Ids and number of the rows of a file that is checked as by `read_features`, once for its
    content.
    """
    with _opened(path, of, ids) as (known, values):
        note = f"stored/{digest('features that differ', hash_file(path))}.json"
        read_or_make_note(
            note, "the features will be checked again", lambda: _check_finite(path, values)
        )
        return known, len(values)


def _check_finite(path: Path, values: Any) -> Mapping[str, int]:
    """Check features (rows, width): the number of rows. Raises UserError."""
    if values.dtype.kind not in "fiu" or values.dtype.itemsize == 1:
        raise ValueError(
            f"it holds {values.dtype}, not real numbers that are stored whole; use floating point"
        )
    with np.errstate(over="ignore"):
        rows = np.asarray(values[:], dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise UserError(
            f"{path} has {len(bad)} of {len(values)} rows with NaN or infinite numbers, the first is row {bad[0] + 1}; "
            "compute them again, or remove them"
        )
    if len(rows) > 1 and not np.ptp(rows, axis=0).any():
        raise UserError(
            f"{path} has the same numbers in each of its {len(rows)} rows; compute them again"
        )
    return {"rows": len(rows)}


@contextmanager
def _opened(path: Path, of: str, beside: Path | None) -> Iterator[tuple[list[str] | None, Any]]:
    """Yield ids and features, which are read when sliced. Errors, of the block too, become a
    UserError of one line.
    """
    with ExitStack() as stack:
        try:
            arrays = _arrays(path, stack)
            found = [name for name in FEATURES if name in arrays]
            if not found and (rows := _rows_by_name(path, arrays, beside)) is not None:
                yield list(rows), _stacked(rows)
                return
            if len(found) != 1:
                raise ValueError(
                    f"no '{FEATURES[0]}' among {', '.join(sorted(arrays)) or 'no entries'}"
                )
            values = arrays.pop(found[0])
            if values.ndim != 2 or not values.size:
                what = f"{values.ndim} dimension{'s' * (values.ndim != 1)} {values.shape}"
                raise UserError(
                    f"{path} has {what}, 2 are needed, neither of them 0: one row for each {of}"
                )
            yield _ids(path, arrays, len(values), of, beside), values
        except _ERRORS as error:
            if isinstance(error, BlockingIOError):
                advice = "another process has it open; wait until it is closed, or set HDF5_USE_FILE_LOCKING=FALSE"
            else:
                advice = f"{first_line(error)}; {RESTORE}"
            raise UserError(f"the feature file {path} cannot be read: {advice}") from error


def _rows_by_name(
    path: Path, arrays: Mapping[str, Any], beside: Path | None
) -> Mapping[str, Any] | None:
    """The arrays of a file that has one for each image or caption, by its id; None for any other.

    Each has one dimension, or a first one of 1. Raises UserError for ids beside those.
    """
    widths = {values.shape[1:] if values.ndim == 2 else values.shape for values in arrays.values()}
    rows = {values.shape[0] if values.ndim == 2 else 1 for values in arrays.values()}
    are_numbers = all(values.dtype.kind in "fiu" for values in arrays.values())
    if len(widths) != 1 or rows != {1} or len(next(iter(widths))) != 1 or not are_numbers:
        return None
    if beside is not None:
        raise UserError(f"{path} has an array for each id, beside those of {beside}; remove ids")
    return arrays


def _stacked(rows: Mapping[str, Any]) -> np.ndarray:
    return np.stack([np.asarray(values).reshape(-1) for values in rows.values()])


def account_for_arrays(path: Path, of: str) -> list[Account]:
    """What became of the arrays of a file of features. Raises UserError."""
    with ExitStack() as stack:
        try:
            arrays = _arrays(path, stack)
            unread = _list_unread(path)
        except _ERRORS as error:
            raise UserError(
                f"the feature file {path} cannot be read: {first_line(error)}; {RESTORE}"
            ) from error
        read = list(arrays)
        if any(name in arrays for name in FEATURES):
            read = [name for name in arrays if name in (*FEATURES, *IDS[of])]
        others = [name for name in arrays if name not in read]
    accounts = account_for("arrays", read, "read")
    accounts += account_for("arrays", others, "left out", "neither features nor ids")
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
        entries = _torch_entries(path)
        return [str(name) for name, values in entries.items() if not _is_listed(values)]
    return [name for name in members if not name.endswith(".npy")]


def _arrays(path: Path, stack: ExitStack) -> dict[str, Any]:
    """The arrays of a file by name. Raises UserError for another kind of file, and one of _ERRORS."""
    kind = detect_container(path)
    if kind == "npy":
        try:  # mapped, so that a wrong shape in its header cannot allocate memory
            return {FEATURES[0]: np.load(path, mmap_mode="r", allow_pickle=False)}
        except ValueError as error:
            raise ValueError(
                "it is no .npy file of numbers, or shorter than its shape says"
            ) from error
    if kind == "zip":
        with zipfile.ZipFile(path) as archive:
            _check_size(path, sum(member.file_size for member in archive.infolist()))
            is_of_torch = any(name.endswith("/data.pkl") for name in archive.namelist())
        if is_of_torch:
            return _tensors(path)
        with np.load(path, allow_pickle=False) as members:
            return {
                name: members[name] for name in members if isinstance(members[name], np.ndarray)
            }
    if kind == "hdf5":
        import h5py

        file = stack.enter_context(h5py.File(path))
        sets = _data_sets(file)
        _check_size(path, sum(values.nbytes for values in sets.values()))
        return {
            name: values
            for name, values in sets.items()
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
        return _columns(path)
    raise UserError(
        f"{path} is not a feature file; convert it to .npy, .npz, .h5, .pt, .parquet or .safetensors"
    )


def _data_sets(group: Any) -> dict[str, Any]:
    """The arrays of an HDF5 file by their paths, as image ids with folders have become groups."""
    import h5py

    sets = {}
    for name in group:
        link = group.get(name, getlink=True)
        # what lies in another file is not this file's content
        if isinstance(link, h5py.ExternalLink):
            continue
        value = group[name]
        if isinstance(value, h5py.Dataset):
            sets[f"{group.name}/{name}".lstrip("/")] = value
        elif isinstance(link, h5py.HardLink):
            sets |= _data_sets(value)
    return sets


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


def _tensors(path: Path) -> dict[str, Any]:
    """The tensors and lists of a file of torch."""
    import torch

    arrays = {}
    for name, values in _torch_entries(path).items():
        if isinstance(values, torch.Tensor):
            number = values.float() if values.is_floating_point() else values
            arrays[str(name)] = number.numpy()
        elif _is_listed(values):
            arrays[str(name)] = np.array(values, dtype=object)
    return arrays


def _torch_entries(path: Path) -> dict[Any, Any]:
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


def _columns(path: Path) -> dict[str, Any]:
    """The columns of a Parquet file; those that are neither features nor ids are not read, and have
    one value a row.
    """
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(path) as file:
            rows = file.metadata.num_rows
            names = file.schema_arrow.names
            known = {*FEATURES, *chain.from_iterable(IDS.values())}
            wanted = [name for name in names if name in known]
            groups = [
                file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)
            ]
            columns = [
                group.column(number) for group in groups for number in range(group.num_columns)
            ]
            _check_size(
                path,
                sum(
                    4 * each.num_values
                    for each in columns
                    if each.path_in_schema.split(".")[0] in wanted
                ),
            )
            table = file.read(wanted)
    except pyarrow.ArrowException as error:
        raise ValueError(first_line(error)) from error
    arrays: dict[str, Any] = dict.fromkeys(names, np.empty(rows, bool))
    for name in wanted:
        column = table.column(name)
        arrays[name] = (
            np.stack(column.to_numpy())
            if name in FEATURES
            else np.array(column.to_pylist(), dtype=object)
        )
    return arrays


def _ids(
    path: Path, arrays: Mapping[str, Any], rows: int, of: str, beside: Path | None
) -> list[str] | None:
    """The ids of the rows. Raises UserError for ids that would be ignored, and for fewer or more
    ids than rows.
    """
    there = [name for name in IDS[of] if name in arrays]
    where = beside or path
    if len(there) + (beside is not None) > 1:
        raise UserError(
            f"{path} has the ids {', '.join(there)}{f' beside those of {beside}' if beside else ''}; keep one"
        )
    if beside is None and not there:
        if odd := [name for name, values in arrays.items() if values.size == rows]:
            raise UserError(
                f"{path}: '{odd[0]}' has one value a row; name it {IDS[of][0]} if these are ids, or remove it"
            )
        return None
    values = list(read_lines(beside)) if beside else arrays[there[0]][:].tolist()
    if len(values) != rows:
        raise UserError(
            f"{where} has {len(values)} ids for {rows} rows of features; make both from the same list"
        )
    ids = [
        value.decode(errors="replace") if isinstance(value, bytes) else value for value in values
    ]
    for row, value in enumerate(ids, 1):
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            raise UserError(
                f"{where}: the id of row {row} is {value!r}; write texts or whole numbers"
            )
    return [str(value).strip() for value in ids]
