"""What a frozen teacher can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Protocol

import numpy as np
from safetensors import SafetensorError

from harness.errors import UserError

#: what the libraries raise for a folder, a configuration or weights that they cannot read
UNREADABLE = (OSError, EOFError, ValueError, LookupError, TypeError, RuntimeError, UnpicklingError, SafetensorError)
Images = Sequence[np.ndarray] | np.ndarray


class Teacher(Protocol):
    """A frozen model that gives features, in the order of what it is given; each may refuse what it has not.

    Rows do not depend on what is beside them, but for rounding. Those of a kind that a teacher does not
    give raise UserError.
    """

    kind: str
    gives: str

    def images(self, pixels: Images) -> np.ndarray:
        """Features of n images, each (h, w, 3) uint8: (n, f) float32."""
        raise self._refusal("images")

    def captions(self, sentences: Sequence[str]) -> np.ndarray:
        """Features of n sentences: (n, f) float32."""
        raise self._refusal("captions")

    def tokens(self, sentences: Sequence[str], max_length: int) -> np.ndarray:
        """Features of every token of n sentences: (n, max_length, f) float32."""
        raise self._refusal("tokens")

    def _refusal(self, what: str) -> UserError:
        return UserError(f"a teacher of kind '{self.kind}' gives features of {self.gives}, not of {what}; name another")


def unreadable(folder: Path, error: Exception | str, needs: str) -> UserError:
    """The one line for a teacher folder that a library cannot read."""
    first = next(iter(str(error).splitlines()), "") or type(error).__name__
    if not folder.is_dir():
        first = "there is no such folder"
    return UserError(f"the teacher folder {folder} cannot be read: {first}; it needs {needs}")
