"""One source that a run reads, below a data root: what is missing of it, its fingerprint, and what
reading it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from harness.code import KnownBy, hash_module_code
from harness.errors import UserError
from harness.sources import Checkable, Findings, Missing, read_by

S = TypeVar("S", bound=Checkable, covariant=True)


@dataclass(frozen=True)
class Ingredient(Generic[S]):
    """One source that a run reads, below a data root; `source` loads it. `known_by` is the notation
    of the code that reads it.

    Missing inputs and the fingerprint are computed once and sent to other processes with the
    ingredient.
    """

    source: S
    root: Path | None
    known_by: KnownBy = "syntax"

    @cached_property
    def missing(self) -> tuple[Missing, ...]:
        """Missing inputs below the data root."""
        return tuple(self.source.missing(self.root))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content and of another package's code that reads it; 'absent: INPUT' if an
        input is missing.
        """
        if self.missing:
            return f"absent: {self.missing[0].what}"
        code = hash_module_code(type(self.source).__module__, self.known_by)
        return read_by(self.source.fingerprint(self.root), code)

    @cached_property
    def examined(self) -> Findings:
        """What reading it shows; nothing while an input is missing. Raises UserError."""
        examined = getattr(self.source, "examined", None)
        return Findings() if self.missing or examined is None else examined(self.root)

    def current(self) -> S:
        """The source, to be read now. Raises UserError if its content has changed since the run was
        planned.
        """
        now = Ingredient(self.source, self.root, self.known_by)
        if now.fingerprint == self.fingerprint:
            return self.source

        files = getattr(self.source, "files", ())
        if not files:
            files = [getattr(self.source, "folder", type(self.source).__name__)]
        raise UserError(describe_change(", ".join(map(str, files))))


def describe_change(what: str) -> str:
    """What is said of an input or of code that is not as it was planned."""
    return f"{what} has changed since the run was planned; run the same command again"
