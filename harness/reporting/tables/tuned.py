"""The tables of a tuning at equal budgets: expected best dev scores, test scores, and what each seed picked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.command_line import harness_command
from harness.formatting import count_of, fixed
from harness.method.naming import name_of
from harness.metrics import AVERAGE, Column
from harness.reporting.seeds.caveats import freshness_notes, weakness_notes
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.seeds.tuned import Pick, TunedLine, TunedPlace, TunedReport
from harness.reporting.seeds.words import suite_title
from harness.reporting.tables.grids import (
    ABSENT,
    CellText,
    Grid,
    Line,
    Section,
    cell_text,
    seeds_text,
    summary_grid,
    summary_text,
)
from harness.store.tunings import Tuning

#: decimals of dev scores
DIGITS = 2
#: numbers of trials that the table of expected scores has columns for; the figure has all
MOST_COLUMNS = 10


def tuned_grids(report: TunedReport) -> list[Grid]:
    """All tables of a tuning, in order."""
    return [expected_grid(report), *map(summary_grid, report.tables), picks_grid(report)]


def expected_grid(report: TunedReport) -> Grid:
    """Word the expected best dev score against the number of trials, mean and deviation over seeds."""
    counts = shown_counts(report.tuning.trials)
    sections = []
    for place in report.places:
        lines = (
            Line(
                (name_of(line.method.base), seeds_text(len(line.picks), line.freshness)),
                tuple(_expected(line, n) for n in counts),
                "plain",
            )
            for line in place.lines
        )
        sections.append(Section(f"{place.setting} / {place.encoder}, {place.dev}", tuple(lines)))
    columns = tuple(count_of(n, "trial") for n in counts)
    commands = tuple(
        tune_command(report.tuning, place.setting, place.encoder, place.incomplete)
        for place in report.places
        if place.incomplete
    )
    return Grid(
        f"expected-{report.tuning.key}",
        f"Expected best dev score, {report.title}",
        ("method", "seeds"),
        columns,
        (False,) * len(columns),
        tuple(sections),
        tuple(_notes(report)),
        commands,
    )


def tune_command(tuning: Tuning, setting: str, encoder: str, seeds: Sequence[int]) -> str:
    """The command that runs all trials of some seeds in one place."""
    tune = [word for method in tuning.methods for word in ("--tune", method.typed)]
    listed = f"{seeds[0]}," if len(seeds) == 1 else seeds
    where = {"profile": tuning.profile, "settings": setting, "encoders": encoder}
    return harness_command("run", *tune, trials=tuning.trials, **where, seeds=listed, set=tuning.overrides)


def shown_counts(trials: int) -> list[int]:
    """Numbers of trials: all, or of many 1, 2, 4, ... and all."""
    if trials <= MOST_COLUMNS:
        return list(range(1, trials + 1))
    return [*(2**power for power in range(trials.bit_length()) if 2**power < trials), trials]


def _expected(line: TunedLine, trials: int) -> CellText:
    return summary_text(line.expected[trials - 1], DIGITS) if line.expected else CellText(ABSENT)


def _notes(report: TunedReport) -> Iterator[str]:
    tuning = report.tuning
    spaces = "; ".join(method.typed for method in tuning.methods)
    yield (
        f"Equal budgets: {count_of(tuning.trials, 'configuration')} of each method, drawn without replacement by a "
        f"fixed seed from {spaces}."
    )
    yield (
        "The expected best of n trials is that of n draws with replacement from the dev scores of all trials of a seed "
        "(Dodge et al., 2019), mean ± sample standard deviation over seeds."
    )
    for place in report.places:
        for line in place.lines:
            if line.lacking:
                lacks = ", ".join(f"{count} of seed {seed}" for seed, count in line.lacking.items())
                where = f"{place.setting} / {place.encoder}"
                yield f"Trials missing: {name_of(line.method.base)} in {where} ({lacks}). These seeds have no pick."
    yield from freshness_notes(weak for place in report.places for weak in place.weaknesses())


def picks_grid(report: TunedReport) -> Grid:
    """Word what each seed picked: its dev score and its test scores."""
    averages = [(table, column) for table in report.tables for column in table.columns if column.task == AVERAGE]
    columns = (
        "picked",
        "dev",
        "mean dev of trials",
        *(f"{suite_title(table.suite)} {table.title(one)}" for table, one in averages),
    )
    sections = (
        Section(
            f"{place.setting} / {place.encoder}",
            tuple(line for one in place.lines for line in _picks(one, averages)),
        )
        for place in report.places
    )
    return Grid(
        f"picks-{report.tuning.key}",
        f"Picked trial of each seed, {report.title}",
        ("method", "seed"),
        columns,
        (False,) * len(columns),
        tuple(sections),
        (
            "Each seed picks the trial with its best dev score; test scores are not used.",
            *sorted(map(_dev, report.places)),
            *weakness_notes(weak for place in report.places for weak in place.weaknesses()),
        ),
    )


def _dev(place: TunedPlace) -> str:
    return f"Dev score in {place.setting} / {place.encoder}: {place.dev}."


def _picks(line: TunedLine, averages: list[tuple[SummaryTable, Column]]) -> Iterator[Line]:
    for index, pick in enumerate(line.picks):
        dev = (CellText(fixed(number, DIGITS)) for number in (pick.dev, pick.mean))
        scores = (_score(pick, *one) for one in averages)
        span = 0 if index else len(line.picks)
        cells = (CellText(name_of(pick.variant).text), *dev, *scores)
        yield Line(
            (name_of(line.method.base), seeds_text(pick.seed, line.freshness)), cells, "plain", span, line.method.base
        )


def _score(pick: Pick, table: SummaryTable, column: Column) -> CellText:
    return cell_text(pick.scores.get(table.suite, {}).get(column), table.metric(column).digits, seeds=1)
