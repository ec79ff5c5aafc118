"""Methods tuned at equal budgets: each seed picks its trial with the best dev score, without any
use of test scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from harness.commands import DEFAULT_COMMANDS, Commands
from harness.formatting import count_of, fixed
from harness.method.naming import name_of
from harness.metrics import AVERAGE, Column
from harness.reporting.csvfiles import CsvFields, summary_rows
from harness.reporting.figures.drawn import ReportFigure
from harness.reporting.look import (
    ChartSpec,
    Look,
    axis,
    by_series,
    curves,
    drawn,
    grid,
    n_of,
    of_series,
    spread,
)
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.seeds.caveats import freshness_notes, weakness_notes
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.seeds.tuned import TunedLine, TunedReport
from harness.reporting.seeds.wording import suite_title
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
from harness.stats import Summary, summarise
from harness.store.tunings import FIRST_TRIALS, Tuning


class TuningSection(ReportSection):
    """Methods tuned at equal budgets."""

    order = 700
    title = menu = "Equal budgets"
    about = "Methods tuned with equally many trials each; each seed picks by its dev score."
    lede = (
        "Every method was tried with equally many configurations. Each seed picks the one with its best dev score, and "
        "the tests score what was picked."
    )

    @cached_property
    def parts(self) -> Sequence[Part]:
        return [
            Part(
                f"tuned-{report.tuning.key}",
                report.title,
                tuned_grids(report, self.contents.commands),
                tuned_figures(report),
            )
            for report in self.contents.tuned
        ]

    def rows(self) -> Iterable[CsvFields]:
        return (fields for report in self.contents.tuned for fields in _csv(report))


def _csv(report: TunedReport) -> Iterator[CsvFields]:
    for table in report.tables:
        yield from summary_rows(table, f"tuned {report.tuning.key}")
    shared = {
        "table": f"budget {report.tuning.key}",
        "profile": report.tuning.profile,
        "metric": "expected best dev",
    }
    for line in report.lines:
        where = {"setting": line.setting, "encoder": line.encoder}
        seeds = {"variant": line.name, "seeds": " ".join(map(str, line.picks))}
        seeds["weakened_by"] = str(line.freshness)
        for trials, summary in enumerate(line.expected, start=1):
            number = {
                "task": f"best of {trials}",
                "n": summary.n,
                "mean": summary.mean,
                "std": summary.std,
            }
            yield {**shared, **where, **seeds, **number}


#: decimals of dev scores
DIGITS = 2
#: most columns, one per number of trials, in the table of expected scores; the figure has all
#: numbers
MOST_COLUMNS = 10


def tuned_grids(report: TunedReport, commands: Commands = DEFAULT_COMMANDS) -> list[Grid]:
    """All tables of a tuning, in order."""
    return [expected_grid(report, commands), *map(summary_grid, report.tables), picks_grid(report)]


def expected_grid(report: TunedReport, commands: Commands = DEFAULT_COMMANDS) -> Grid:
    """Tabulate the expected best dev score against the number of trials, mean and deviation over
    seeds.
    """
    counts = shown_counts(report.tuning.trials)
    sections = (
        Section(
            f"{place[0].place}, {place[0].dev}", tuple(_expected(line, counts) for line in place)
        )
        for place in report.places
    )
    incomplete = (
        (place[0], sorted({seed for line in place for seed in line.lacking}))
        for place in report.places
    )
    missing = (
        tune_command(report.tuning, first.setting, first.encoder, seeds, commands)
        for first, seeds in incomplete
        if seeds
    )
    return Grid(
        f"expected-{report.tuning.key}",
        f"Expected best dev score, {report.title}",
        ("method", "seeds"),
        tuple(count_of(n, "trial") for n in counts),
        (False,) * len(counts),
        tuple(sections),
        tuple(_notes(report)),
        tuple(missing),
    )


def tune_command(
    tuning: Tuning,
    setting: str,
    encoder: str,
    seeds: Sequence[int],
    commands: Commands = DEFAULT_COMMANDS,
) -> str:
    """The command that runs all trials of some seeds in one place."""
    tune = [word for method in tuning.methods for word in ("--tune", method.typed)]
    listed = f"{seeds[0]}," if len(seeds) == 1 else seeds
    return commands.run(
        *tune,
        profile=tuning.profile,
        trials=tuning.trials,
        sampler=tuning.sampler,
        settings=setting,
        encoders=encoder,
        seeds=listed,
        set=tuning.overrides,
    )


def shown_counts(trials: int) -> list[int]:
    """The numbers of trials shown: every one, or 1, 2, 4, ... and the largest if there are many."""
    if trials <= MOST_COLUMNS:
        return list(range(1, trials + 1))
    return [*(2**power for power in range(trials.bit_length()) if 2**power < trials), trials]


def _expected(line: TunedLine, counts: Sequence[int]) -> Line:
    cells = (
        summary_text(line.expected[n - 1], DIGITS) if line.expected else CellText(ABSENT)
        for n in counts
    )
    return Line(
        (name_of(line.method.base), seeds_text(len(line.picks), line.freshness.mark)),
        tuple(cells),
        "plain",
    )


def _notes(report: TunedReport) -> Iterator[str]:
    tuning = report.tuning
    spaces = "; ".join(method.typed for method in tuning.methods)
    yield (
        f"Equal budgets: {count_of(tuning.trials, 'configuration')} of each method, drawn without replacement by a "
        f"fixed seed from {spaces}."
    )
    if tuning.sampler:
        yield (
            f"Only the first {FIRST_TRIALS} are drawn so; Optuna's {tuning.sampler} chose each other one by the mean "
            "dev scores of those before it. The expected best assumes independent trials, which these are not."
        )
    yield (
        "The expected best of n trials is that of n draws with replacement from the dev scores of all trials of a seed "
        "(Dodge et al., 2019), mean ± sample standard deviation over seeds."
    )
    for line in (line for line in report.lines if line.lacking):
        lacks = ", ".join(f"{count} of seed {seed}" for seed, count in line.lacking.items())
        where = f"{name_of(line.method.base)} in {line.place}"
        yield f"Trials missing: {where} ({lacks}). These seeds have no pick."
    yield from freshness_notes(line.weakness for line in report.lines)


def picks_grid(report: TunedReport) -> Grid:
    """Tabulate the trial that each seed picked: its dev score and its test scores."""
    averages = [
        (table, column)
        for table in report.tables
        for column in table.columns
        if column.task == AVERAGE
    ]
    scores = (f"{suite_title(table.suite)} {table.title(column)}" for table, column in averages)
    columns = ("seed", "dev", "mean dev of trials", *scores)
    sections = (
        Section(place[0].place, tuple(line for tuned in place for line in _picks(tuned, averages)))
        for place in report.places
    )
    return Grid(
        f"picks-{report.tuning.key}",
        f"Picked trial of each seed, {report.title}",
        ("method", "picked"),
        columns,
        (False,) * len(columns),
        tuple(sections),
        (
            "Each seed picks the trial with its best dev score; test scores are not used.",
            *sorted(f"Dev score in {line.place}: {line.dev}." for line, *_ in report.places),
            *weakness_notes(line.weakness for line in report.lines),
        ),
    )


def _picks(line: TunedLine, averages: Sequence[tuple[SummaryTable, Column]]) -> Iterator[Line]:
    for index, (seed, trial) in enumerate(line.picks.items()):
        dev = line.scores[seed]
        numbers = (
            CellText(fixed(number, DIGITS))
            for number in (dev[trial], summarise([*dev.values()]).mean)
        )
        cells = (
            (table, column, line.rows[table.suite].cells.get(column)) for table, column in averages
        )
        scores = (
            cell_text(cell.of_seed(seed) if cell else None, table.metric(column).digits, seeds=1)
            for table, column, cell in cells
        )
        heads = (name_of(line.method.base), name_of(trial))
        texts = (CellText(seeds_text(seed, line.freshness.mark)), *numbers, *scores)
        yield Line(heads, texts, "plain", 0 if index else len(line.picks), line.method.base)


def tuned_figures(report: TunedReport) -> list[ReportFigure]:
    """A figure, if some seed has all trials."""
    places = [place for place in report.places if any(line.expected for line in place)]
    if not places:
        return []
    key = f"budget-{report.tuning.key}"
    title = f"Expected best dev score against trials, {report.title}"
    text = (
        "Expected best of n trials, drawn from all trials of a seed: mean over seeds, and bars of one standard "
        "deviation. Methods are compared fairly at equal numbers of trials only."
    )
    entries = _entries([line for place in places for line in place if line.expected])
    panels = [_panel(place, entries, report.tuning.profile) for place in places]
    picture = drawn(title, grid(panels))
    return [ReportFigure(key, "", report.tuning.profile, title, text, picture)]


def _entries(lines: Sequence[TunedLine]) -> Mapping[str, Look]:
    """The look of each tuned method, by the name of its rows, with the seeds of all its points."""
    points: dict[str, list[Summary]] = {}
    bases: dict[str, str] = {}
    for line in lines:
        points.setdefault(line.name, []).extend(line.expected)
        bases[line.name] = line.method.base

    named = Counter(bases.values())
    entries = {}
    for index, (name, base) in enumerate(bases.items()):
        text = name_of(base) if named[base] == 1 else name_of(name)
        entries[name] = of_series(index, f"{text} ({n_of(points[name])})")
    return entries


def _panel(place: Sequence[TunedLine], entries: Mapping[str, Look], profile: str) -> ChartSpec:
    values = []
    for line in place:
        source = {
            "profile": profile,
            "variant": line.name,
            "setting": line.setting,
            "encoder": line.encoder,
        }
        for trials, best in enumerate(line.expected, start=1):
            values.append(spread(entries[line.name].name, trials, best, source))
    most = max(len(line.expected) for line in place)
    counts = {"values": list(range(1, most + 1, max(1, most // 10))), "format": "d", "grid": False}
    x = axis("x", "trials", axis=counts)
    y = axis("y", f"best dev score, {place[0].dev}")
    layer = curves(values, x, y, by_series([*entries.values()]))
    return {"title": place[0].place, "layer": [layer]}
