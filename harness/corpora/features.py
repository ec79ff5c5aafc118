"""Image features from a file: the path that serves published feature files.

A file is Parquet (columns image_id and feature), HDF5 (data set `features`, as MCSE publishes),
.npy, or safetensors (tensor `features`); rows are images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from harness.errors import UserError
from harness.sources import FileSource, digest


class FeatureFile(FileSource):
    """Stored features of one teacher, optionally transformed.

    `sqrt-standardise` takes the signed square root and then standardises each dimension over the
    file (mean 0, deviation 1): raw ReLU averages are skewed and never negative.
    """

    def __init__(self, file: str, how: str, transform: Literal["none", "sqrt-standardise"] = "none") -> None:
        super().__init__([file], how)
        if transform not in ("none", "sqrt-standardise"):
            raise UserError(f"transform = '{transform}' is unknown; valid: none, sqrt-standardise")
        self.transform = transform

    def fingerprint(self, root: Path | None) -> str:
        """Content and transform."""
        return digest(super().fingerprint(root), self.transform)

    def read(self, root: Path | None) -> tuple[list[str] | None, np.ndarray]:
        """Image ids (None where the file has none) and features, (images, f) float32. Raises UserError."""
        path = self.paths(root)[0]
        if path.suffix not in _READERS:
            raise UserError(f"{path} is no feature file this project reads; give one of {', '.join(sorted(_READERS))}")
        try:
            ids, values = _READERS[path.suffix](path)
        except (OSError, EOFError, ValueError, TypeError, RuntimeError) as error:
            raise UserError(f"the feature file {path} cannot be read: {first_line(error)}; fetch it again") from error
        if values.ndim != 2 or not values.size or not np.isfinite(values).all():
            raise UserError(f"{path} must hold a finite number a cell in two dimensions; fetch it again")
        return ids, _standardised(values) if self.transform == "sqrt-standardise" else values


class StoredFeatures(Mapping[str, np.ndarray]):
    """Features by teacher, a row an image; a file is read when its teacher is asked for."""

    def __init__(
        self, files: Mapping[str, FeatureFile], root: Path | None, ids: Callable[[], list[str] | None], images: int
    ) -> None:
        """`ids` gives the images' names in their order, or None where they have none."""
        self.files, self.root, self.ids, self.images = files, root, ids, images

    def __getitem__(self, teacher: str) -> np.ndarray:
        """Features of the images, (m, f). Raises KeyError, or UserError where the files do not match."""
        file = self.files[teacher]
        ids, values = file.read(self.root)
        wanted = self.ids() if ids is not None else None
        if ids is not None and wanted is not None:
            return values[_places(file, ids, wanted)]
        if len(values) != self.images:
            raise UserError(
                f"{file.files[0]} has {len(values)} rows for {self.images} captioned images; "
                "the two files must come from the same list of images"
            )
        return values

    def __contains__(self, teacher: object) -> bool:
        """Whether there is a file of the teacher; it is not read."""
        return teacher in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def _places(file: FeatureFile, ids: list[str], wanted: list[str]) -> np.ndarray:
    """The row of each image that is wanted."""
    places = {name: place for place, name in enumerate(ids)}
    if len(places) != len(ids):
        raise UserError(f"{file.files[0]} has an image_id twice; fetch it again")
    absent = next((name for name in wanted if name not in places), None)
    if absent is not None:
        raise UserError(f"{file.files[0]} has no features of the image {absent}; fetch the matching file")
    return np.array([places[name] for name in wanted])


def first_line(error: Exception) -> str:
    """What an error says, in one line: Arrow's messages go on with the whole schema."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def _standardised(values: np.ndarray) -> np.ndarray:
    """Moments in float64: in float32 the rounding of the mean would pass for the spread of a constant column."""
    rooted = np.sign(values) * np.sqrt(np.abs(values))
    mean, spread = rooted.mean(axis=0, dtype=np.float64), rooted.std(axis=0, dtype=np.float64)
    return (rooted - mean.astype(np.float32)) / np.where(spread > 0, spread, 1).astype(np.float32)


def _parquet(path: Path) -> tuple[list[str] | None, np.ndarray]:
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["image_id", "feature"])
    values = np.stack(table.column("feature").to_numpy()).astype(np.float32)
    return [str(name) for name in table.column("image_id").to_pylist()], values


def _hdf5(path: Path) -> tuple[list[str] | None, np.ndarray]:
    import h5py

    with h5py.File(path) as file:
        _check_features(file)
        return None, np.asarray(file["features"], dtype=np.float32)


def _npy(path: Path) -> tuple[list[str] | None, np.ndarray]:
    return None, np.asarray(np.load(path, allow_pickle=False), dtype=np.float32)


def _safetensors(path: Path) -> tuple[list[str] | None, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    _check_features(tensors)
    return None, tensors["features"].astype(np.float32)


def _check_features(names: Iterable[str]) -> None:
    held = sorted(names)
    if "features" not in held:
        raise ValueError(f"it holds no 'features' but {', '.join(held) or 'nothing'}")


_READERS = {".parquet": _parquet, ".hdf5": _hdf5, ".h5": _hdf5, ".npy": _npy, ".safetensors": _safetensors}
