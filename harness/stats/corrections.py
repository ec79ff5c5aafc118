"""Corrections of the p-values of a family: of tests that answer one question, and are therefore
judged together.

Everything that reports a corrected p-value asks the correction for its numbers and its name, so
another correction is another class here and another value of `CORRECTION`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence


class Correction(ABC):
    """How the p-values of a family are corrected, and what the correction is called."""

    #: as sentences call it, such as "Holm's correction"
    name: str
    #: as captions call it
    short: str

    @abstractmethod
    def adjust(self, ps: Sequence[float]) -> list[float]:
        """Return adjusted p-values in the order given: those below alpha are significant.

        Raises ValueError for a p that is not between 0 and 1.
        """

    @abstractmethod
    def open_level(self, ps: Sequence[float], alpha: float) -> float:
        """Return the level that one more test of the family has to pass to be significant at alpha.

        The tests that are significant already stay so; with none left, it is the last level.
        """


class Holm(Correction):
    """Holm's step-down method (1979).

    It keeps the chance of any false rejection in the family below alpha, whatever the tests have in
    common, if each test alone keeps its level.
    """

    name = "Holm's correction"
    short = "Holm"

    def adjust(self, ps: Sequence[float]) -> list[float]:
        """Return each p times the number of tests not yet rejected, never falling, capped at 1."""
        if not all(0.0 <= p <= 1.0 for p in ps):
            raise ValueError("p values lie between 0 and 1")

        adjusted = [0.0] * len(ps)
        highest = 0.0
        order = sorted(range(len(ps)), key=lambda index: ps[index])
        for rank, index in enumerate(order):
            highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
            adjusted[index] = highest
        return adjusted

    def open_level(self, ps: Sequence[float], alpha: float) -> float:
        """Return alpha over the number of tests that are not rejected."""
        open_tests = sum(p >= alpha for p in self.adjust(ps))
        return alpha / max(1, open_tests)


#: the correction of every family of the harness
CORRECTION: Correction = Holm()


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p values in the order given: Holm's step-down method (1979), capped at 1.

    Rejecting those below alpha keeps the chance of any false rejection below alpha. Raises
    ValueError for a p that is not between 0 and 1.
    """
    return Holm().adjust(ps)
