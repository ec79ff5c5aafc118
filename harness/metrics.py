"""Metrics, the names of scores and arrays, and verdicts on numbers. Imports nothing of the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

#: The task that holds the means over a suite's tasks.
AVERAGE = "Avg"
#: Stands between the names of suite and task and the reason, in the warning on a task without its
#: main metric.
NO_SCORE = "no score"
#: Ends the warning on a run whose steps are all paired, so that the setting's text is not read.
NEVER_READ = "is never read"
#: The parts of a task by training: pairs with at least one sentence read in training, and pairs
#: with none.
SEEN = "[seen]"
UNSEEN = "[unseen]"


def is_average(task: str) -> bool:
    """Whether scores of a task are means over tasks: of all, or of a kind, as 'Avg[STS]' are."""
    return task == AVERAGE or task.startswith(f"{AVERAGE}[")


def is_by_training(part: str) -> bool:
    """Whether a part of a task depends on what a run was trained on, as '[seen]' and 'images
    [unseen]' do.
    """
    return part.endswith((SEEN, UNSEEN))


@dataclass(frozen=True)
class Metric:
    """How a metric is read and shown.

    A metric that is not `judged` means nothing alone, as alignment without uniformity: it gets no
    tests and no ranks. `unit` follows a difference in a sentence, such as 'points of Spearman'.
    Tables have a metric only if it is `shown`; result files and the pages of runs have every
    metric.
    """

    name: str
    larger_is_better: bool = True
    digits: Annotated[int, Field(ge=0, le=12)] = 2
    unit: str = ""
    shown: bool = True
    judged: bool = True

    @property
    def title(self) -> str:
        """The unit of its differences, as sentences name it."""
        return self.unit or self.name


class MetricWords(NamedTuple):
    """How tables name a metric: `alone` heads a table that has no other, such as 'accuracy in
    percent'; beside others of its `group` it is called `heading`, such as 'R@1' of 'image to text'.
    Without words it has its name.
    """

    alone: str = ""
    group: str = ""
    heading: str = ""


class Column(NamedTuple):
    """One metric of one task, as a table of one suite has it."""

    task: str
    metric: str


class Score(NamedTuple):
    """One metric of one task of one suite."""

    suite: str
    task: str
    metric: str

    @property
    def column(self) -> Column:
        """The column of its suite's table."""
        return Column(self.task, self.metric)


class ArrayName(NamedTuple):
    """The name of an array stored beside a result: its task, its content and its vector space, if
    it has one.
    """

    task: str
    what: str
    space: str = ""


#: suite -> metric name -> metric, as the suites of some results declare them
Metrics = Mapping[str, Mapping[str, Metric]]


class Significance(StrEnum):
    """A mean against that of another variant, by a t-test at a level of significance.

    BETTER_ALONE, WORSE_ALONE: significant alone, but not after the correction in its family. EQUAL:
    no difference is shown, and two one-sided tests show that it is within a margin.
    """

    BETTER = "better"
    WORSE = "worse"
    BETTER_ALONE = "better alone"
    WORSE_ALONE = "worse alone"
    EQUAL = "equal"
    NONE = "not significant"


class Agreement(StrEnum):
    """A measured mean beside the printed one.

    REPRODUCED: equivalent within a margin, by two one-sided t-tests, even if a small difference is
    significant. DIFFERS: otherwise, if a t-test finds a difference. UNDECIDED: neither is shown.
    All after the correction over the cells of a table.
    """

    REPRODUCED = "reproduced"
    DIFFERS = "differs"
    UNDECIDED = "not distinguishable"
    TOO_FEW = "too few seeds"


class ClaimVerdict(StrEnum):
    """A paper's claim about two variants, judged by this store's own runs.

    CONFOUNDED: significant, but a control of the better variant explains its score. ALONE:
    significant, but not after the correction over the claims of its table. EQUAL: the two are
    equivalent.
    """

    HOLDS = "holds"
    CONFOUNDED = "confounded"
    OPPOSITE = "opposite"
    ALONE = "alone"
    EQUAL = "equal"
    UNSEEN = "not significant"
    TOO_FEW = "too few seeds"


class AuditVerdict(StrEnum):
    """A statement recomputed from printed numbers.

    ROUNDING: it fails for the numbers as printed, but holds for some numbers that round to them.
    """

    HOLDS = "holds"
    ROUNDING = "within rounding"
    FAILS = "fails"


Verdict = Significance | Agreement | ClaimVerdict | AuditVerdict
Tone = Literal["good", "bad", "open"]

_GOOD = (Significance.BETTER, Agreement.REPRODUCED, ClaimVerdict.HOLDS, AuditVerdict.HOLDS)
_BAD = (
    Significance.WORSE,
    Agreement.DIFFERS,
    ClaimVerdict.OPPOSITE,
    ClaimVerdict.EQUAL,
    AuditVerdict.FAILS,
)


def tone(verdict: Verdict) -> Tone:
    """Whether a verdict is good news, bad news or undecided, for the colour of a badge."""
    if verdict in _GOOD:
        return "good"
    if verdict in _BAD:
        return "bad"
    return "open"
