"""The arrays of one evaluation in one .npz file, with their names in an index array."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.files import read_arrays, write_arrays
from harness.metrics import ArrayName

#: numbers or texts of any shape
Array = NDArray[Any]
NamedArrays = Mapping[ArrayName, Array]
_INDEX = "index"


def write_named_arrays(path: Path, arrays: NamedArrays) -> None:
    """Write arrays; row i of the entry `index`, (n, 3) texts, is the ArrayName of the entry `i`."""
    numbered = {str(number): values for number, values in enumerate(arrays.values())}
    write_arrays(path, {_INDEX: np.array([list(name) for name in arrays], dtype=np.str_).reshape(-1, 3), **numbered})


def read_named_arrays(path: Path) -> dict[ArrayName, Array]:
    """Read a file of `write_named_arrays`. Raises UserError naming a damaged file."""
    stored = read_arrays(path)
    names = [ArrayName(*map(str, row)) for row in stored[_INDEX]]
    return {name: stored[str(number)] for number, name in enumerate(names)}
