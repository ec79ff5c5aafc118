"""The table of runs that several labs have: their scores side by side, never averaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from harness.formatting import count_of, fixed, signed
from harness.metrics import AVERAGE
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.store import Result
from harness.store.labs import repeated


class LabsSection(ReportSection):
    """The runs that several labs have, if there are any."""

    order = 550
    title = "Reproducibility: the same runs in several labs"

    @cached_property
    def parts(self) -> Sequence[Part]:
        profile = self.contents.profile
        copies = [
            some
            for some in repeated(self.contents.store)
            if profile in (None, _shown(some).profile)
        ]
        grid = labs_grid(copies)
        return [Part("", "", [grid])] if grid else []


#: the columns after those of the suites
FACTS = ("dev", "largest difference", "hardware", "versions")
#: packages whose versions change numbers
_PACKAGES = ("torch", "transformers", "numpy")


def labs_grid(repeated: Sequence[Mapping[str, Result]]) -> Grid | None:
    """Tabulate runs that several labs have, first the lab whose result the other tables show; None
    if there are none.

    A cell is a suite's average, or its first task where it has none, and the difference from the
    first lab.
    """
    if not repeated:
        return None
    suites = list(
        dict.fromkeys(
            suite for copies in repeated for copy in copies.values() for suite in copy.suites
        )
    )
    sections: dict[str, list[Line]] = {}
    for copies in sorted(repeated, key=lambda some: _shown(some).spec.key):
        sections.setdefault(_shown(copies).profile, []).extend(_lines(copies, suites))
    columns = (*suites, *FACTS)
    return Grid(
        "reproducibility",
        "Reproducibility: the same runs in several labs",
        ("run", "lab"),
        columns,
        (False,) * len(columns),
        tuple(Section(f"profile {profile}", tuple(lines)) for profile, lines in sections.items()),
        (
            "Runs of one fingerprint by several labs. The first lab of each is the one whose result all other tables "
            "show; nothing is averaged over labs.",
            "In brackets the difference from the first lab; the largest is over all metrics of whole tasks that both "
            "have under one protocol.",
        ),
    )


def _shown(copies: Mapping[str, Result]) -> Result:
    return next(iter(copies.values()))


def _lines(copies: Mapping[str, Result], suites: Sequence[str]) -> Iterator[Line]:
    first = _shown(copies)
    values = ", ".join(f"{name}={value}" for name, value in sorted(first.overrides.items()))
    name = f"{first.spec.key} ({values})" if values else first.spec.key
    for number, (lab, result) in enumerate(copies.items()):
        other = first if number else None
        cells = (_suite(result, other, suite) for suite in suites)
        facts = (_dev(result, other), _largest(result, first) if number else ABSENT)
        texts = map(CellText, (*facts, _hardware(result), _versions(result)))
        span = 0 if number else len(copies)
        yield Line(
            (name, lab),
            (*cells, *texts),
            "plain" if number else "baseline",
            span,
            first.fingerprint,
        )


def _suite(result: Result, first: Result | None, suite: str) -> CellText:
    mine, other = result.latest(suite), first.latest(suite) if first else None
    if mine is None or not mine.protocol.metrics:
        return CellText(ABSENT)
    metric = mine.protocol.metrics[0]
    task = AVERAGE if AVERAGE in mine.scores else next(iter(mine.scores), "")
    value = mine.scores.get(task, {}).get(metric.name)
    if value is None:
        return CellText(ABSENT)
    text = fixed(value, metric.digits)
    if other is None or other.key != mine.key:
        return CellText(text, extra="another protocol" if other else "")
    before = other.scores.get(task, {}).get(metric.name)
    return CellText(text, extra="" if before is None else signed(value - before, metric.digits))


def _dev(result: Result, first: Result | None) -> str:
    best, before = result.dev.best_score, first.dev.best_score if first else None
    if best is None:
        return ABSENT
    return fixed(best, 2) + ("" if before is None else f" ({signed(best - before, 2)})")


def _largest(result: Result, first: Result) -> str:
    """The largest difference of two results in a score that both have."""
    held = {evaluation.key: evaluation.scores for evaluation in first.evaluations}
    differences = [
        (abs(value - before), f"{evaluation.suite}.{task}.{name}")
        for evaluation in result.evaluations
        for task, values in evaluation.scores.items()
        for name, value in values.items()
        if (before := held.get(evaluation.key, {}).get(task, {}).get(name)) is not None
    ]
    if not differences:
        return "nothing to compare"
    size, where = max(differences)
    return f"{size:.2g} ({where})" if size else "none"


def _hardware(result: Result) -> str:
    told = result.hardware
    threads = f", {count_of(int(str(told['threads'])), 'thread')}" if "threads" in told else ""
    return f"{told.get('accelerator') or told.get('processor') or 'unknown'}{threads}"


def _versions(result: Result) -> str:
    packages = [f"{name} {result.packages[name]}" for name in _PACKAGES if name in result.packages]
    return ", ".join(
        [f"backend {result.backend}", *packages, f"code {(result.revision or 'unknown')[:12]}"]
    )
