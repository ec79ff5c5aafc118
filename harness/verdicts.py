"""Every verdict that a cell, a claim or an audited statement can get. Imports nothing of the project."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


class Significance(StrEnum):
    """A mean against that of another variant, by a t-test at a level of significance."""

    BETTER = "better"
    WORSE = "worse"
    NONE = "not significant"


class Agreement(StrEnum):
    """A measured mean beside the printed one.

    REPRODUCED: equivalent within a margin, by two one-sided t-tests, even where a small difference is certain.
    DIFFERS: else, by a t-test. UNDECIDED: neither is shown.
    """

    REPRODUCED = "reproduced"
    DIFFERS = "differs"
    UNDECIDED = "not distinguishable"
    TOO_FEW = "too few seeds"


class ClaimVerdict(StrEnum):
    """A paper's claim about two variants, judged by this store's own runs.

    ALONE: significant, but not after the correction over the claims of its table.
    """

    HOLDS = "holds"
    OPPOSITE = "opposite"
    ALONE = "alone"
    UNSEEN = "not significant"
    TOO_FEW = "too few seeds"


class AuditVerdict(StrEnum):
    """A statement recomputed from printed numbers.

    ROUNDING: it fails for the numbers as printed, but not for all numbers that round to them.
    """

    HOLDS = "holds"
    ROUNDING = "within rounding"
    FAILS = "fails"


Verdict = Significance | Agreement | ClaimVerdict | AuditVerdict
Tone = Literal["good", "bad", "open"]

_GOOD = (Significance.BETTER, Agreement.REPRODUCED, ClaimVerdict.HOLDS, AuditVerdict.HOLDS)
_BAD = (Significance.WORSE, Agreement.DIFFERS, ClaimVerdict.OPPOSITE, AuditVerdict.FAILS)


def tone(verdict: Verdict) -> Tone:
    """Whether a verdict is good news, bad news or undecided, for the colour of a badge."""
    return "good" if verdict in _GOOD else "bad" if verdict in _BAD else "open"
