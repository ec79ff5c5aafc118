"""Methods tuned at equal budgets: each seed picks its trial with the best dev score, without any use of test scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from harness.commands import DEFAULT_COMMANDS, Commands
from harness.formatting import count_of, fixed
from harness.method.naming import name_of
from harness.metrics import AVERAGE, Column
from harness.reporting.csvfiles import CsvFields, summary_rows
from harness.reporting.figures.drawn import ReportFigure
from harness.reporting.look import ChartSpec, Look, axis, by_series, curves, drawn, grid, n_of, of_series, spread
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.seeds.caveats import GroupState, Weakness, freshness_notes, joined_caveats, weakness_notes
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.choose import chosen, rows_of
from harness.reporting.seeds.summary import SummaryTable, blocks_of, table_of_blocks
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
from harness.spec import BASELINE
from harness.stats import Summary, expected_best, summarise
from harness.store import Frames, Result, frames_of, lines_of, overrides_text
from harness.store.tunings import FIRST_TRIALS, TunedMethod, Tuning

if TYPE_CHECKING:
    import pandas


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
    def reports(self) -> list[TunedReport]:
        return tuned_reports(self.contents.tunings, self.contents.runs, self.contents.tables)

    @cached_property
    def parts(self) -> Sequence[Part]:
        return [
            Part(
                f"tuned-{report.tuning.key}",
                report.title,
                tuned_grids(report, self.contents.commands),
                tuned_figures(report),
            )
            for report in self.reports
        ]

    def rows(self) -> Iterable[CsvFields]:
        return (fields for report in self.reports for fields in _csv(report))


def _csv(report: TunedReport) -> Iterator[CsvFields]:
    for table in report.tables:
        yield from summary_rows(table, f"tuned {report.tuning.key}")
    shared = {"table": f"budget {report.tuning.key}", "profile": report.tuning.profile, "metric": "expected best dev"}
    for line in report.lines:
        where = {"setting": line.setting, "encoder": line.encoder}
        seeds = {"variant": line.method.name, "seeds": " ".join(map(str, line.picks))}
        seeds["weakened_by"] = str(line.freshness)
        for trials, summary in enumerate(line.expected, start=1):
            number = {"task": f"best of {trials}", "n": summary.n, "mean": summary.mean, "std": summary.std}
            yield {**shared, **where, **seeds, **number}


@dataclass(frozen=True)
class TunedLine:
    """A method in one setting with one encoder; its `rows`, one for each suite, have the test scores of its picks.

    `scores` are the dev scores, on the task and in the metric that `dev` names, of each trial by seed. `freshness` is
    that of all trials. `lacking` maps each incomplete seed to its number of missing trials; such a seed picks nothing
    and is in no other field.
    """

    method: TunedMethod
    setting: str
    encoder: str
    dev: str
    scores: Mapping[int, Mapping[str, float]]
    lacking: Mapping[int, int]
    freshness: GroupState
    rows: Mapping[str, Row]

    @property
    def place(self) -> str:
        return f"{self.setting} / {self.encoder}"

    @property
    def picks(self) -> dict[int, str]:
        """The trial with the best dev score of each seed; of equal ones, the first drawn."""
        return {seed: max(dev, key=dev.__getitem__) for seed, dev in self.scores.items()}

    @cached_property
    def expected(self) -> tuple[Summary, ...]:
        """The expected best dev score of 1, 2, ... trials over seeds."""
        curves = [expected_best([*dev.values()]) for dev in self.scores.values()]
        return tuple(summarise(values) for values in zip(*curves, strict=True))

    @property
    def weakness(self) -> Weakness:
        caveats = joined_caveats(cell.caveats for row in self.rows.values() for cell in row.cells.values())
        return Weakness(self.place, name_of(self.method.base).text, caveats, self.freshness)


@dataclass(frozen=True)
class TunedReport:
    """A tuning: its methods in each place where it was run, and the tables of the picked trials' test scores."""

    tuning: Tuning
    lines: tuple[TunedLine, ...]
    tables: tuple[SummaryTable, ...]

    @property
    def places(self) -> list[list[TunedLine]]:
        """The lines of each setting and encoder."""
        return [list(some) for _, some in groupby(self.lines, key=lambda line: line.place)]

    @property
    def title(self) -> str:
        methods = ", ".join(name_of(method.base).text for method in self.tuning.methods)
        overrides = overrides_text(self.tuning.overrides)
        more = f" ({overrides})" if overrides else ""
        return f"{methods}{more}: {self.tuning.trials} trials each, profile {self.tuning.profile}"


def tuned_reports(
    tunings: Sequence[Tuning], results: Sequence[Result], tables: Sequence[SummaryTable]
) -> list[TunedReport]:
    """Evaluate each tuning that has been run. Untrained encoders are taken from the summary `tables`."""
    reports = [_report(tuning, results, tables) for tuning in tunings]
    return [report for report in reports if report.lines]


def _report(tuning: Tuning, results: Sequence[Result], tables: Sequence[SummaryTable]) -> TunedReport:
    frames = frames_of(results).where(profile=[tuning.profile], variant=tuning.variants)
    fits = (frames.runs["overrides"] == overrides_text(tuning.overrides)) & frames.runs["dev"].notna()
    frames = frames.taken(frames.runs.index[fits].tolist())
    # one group of a trial in all suites, so that each seed picks among runs of one configuration
    frames = frames.where(group={*chosen(frames, frames.scores).drop_duplicates([*Label._fields])["group"]})
    kept, lines = chosen(frames, frames.scores), list[TunedLine]()
    for (setting, encoder), runs in frames.runs.astype({"setting": str, "encoder": str}).groupby(
        ["setting", "encoder"]
    ):
        if tuning.place in (None, f"{setting}/{encoder}"):
            here = kept[kept["run"].isin(runs.index)]
            lines += [_tuned(tuning, method, frames, runs, here) for method in tuning.methods]
    shown = (table for table in tables if table.profile == tuning.profile)
    return TunedReport(tuning, tuple(lines), tuple(filter(None, (_table(tuning, lines, metric) for metric in shown))))


def _tuned(
    tuning: Tuning, method: TunedMethod, frames: Frames, runs: pandas.DataFrame, kept: pandas.DataFrame
) -> TunedLine:
    """A method in one place, from the runs there and their chosen evaluations."""
    devs, first = {(run.variant, run.seed): run.dev for run in lines_of(runs)}, runs.iloc[0]
    seeds = sorted({seed for _, seed in devs})
    done = {seed: {trial: devs[trial, seed] for trial in method.trials if (trial, seed) in devs} for seed in seeds}
    lacking = {seed: tuning.trials - len(some) for seed, some in done.items() if len(some) < tuning.trials}
    full = {seed: some for seed, some in done.items() if seed not in lacking}
    every = (state for trial in method.trials for state in kept["freshness"][kept["variant"] == trial])
    stale = dict.fromkeys(freshness.state for freshness in every if freshness.is_stale)
    dev, freshness = f"{first['dev_metric']} on {first['dev_task']}", GroupState(len(full), " and ".join(stale))
    line = TunedLine(method, first["setting"], first["encoder"], dev, full, lacking, freshness, {})
    return replace(line, rows=_picked(line, frames, kept))


def _picked(line: TunedLine, frames: Frames, kept: pandas.DataFrame) -> Mapping[str, Row]:
    """The row of the picked trials in each suite, under the name of the tuned method."""
    mine = kept[[trial in line.picks.items() for trial in zip(kept["seed"], kept["variant"], strict=True)]]
    mine = mine.assign(variant=line.method.name, row=mine.groupby("suite", observed=True).ngroup())
    rows = rows_of(frames, mine.sort_values(["row", "seed"]), frames.scores)
    return {
        row.suite: replace(row, group="", freshness=line.freshness, training={}, pooling="", is_method=True)
        for row in rows
    }


def _table(tuning: Tuning, lines: Sequence[TunedLine], table: SummaryTable) -> SummaryTable | None:
    """The picked trials' test scores in the columns of a suite's table; None if there are none."""
    some = (row for line in lines if (row := line.rows.get(table.suite)))
    shown = ((row, {at: row.cells[at] for at in table.columns if at in row.cells}) for row in some)
    rows = [replace(row, cells=cells) for row, cells in shown if cells]
    if not rows:
        return None
    encoders = {row.label.encoder for row in rows}
    untrained = [row for row in table.rows if not row.is_trained and row.label.encoder in encoders]
    names = {method.base: method.name for method in tuning.methods}
    base = names.get(BASELINE, tuning.methods[0].name)
    blocks = blocks_of([*rows, *untrained], table.metrics, base)
    made = table_of_blocks(table.profile, table.suite, table.columns, table.metrics, blocks)
    return replace(made, about=f"tuned, {tuning.trials} trials each ({tuning.key})")


#: decimals of dev scores
DIGITS = 2
#: most columns, one per number of trials, in the table of expected scores; the figure has all numbers
MOST_COLUMNS = 10


def tuned_grids(report: TunedReport, commands: Commands = DEFAULT_COMMANDS) -> list[Grid]:
    """All tables of a tuning, in order."""
    return [expected_grid(report, commands), *map(summary_grid, report.tables), picks_grid(report)]


def expected_grid(report: TunedReport, commands: Commands = DEFAULT_COMMANDS) -> Grid:
    """Tabulate the expected best dev score against the number of trials, mean and deviation over seeds."""
    counts = shown_counts(report.tuning.trials)
    sections = (
        Section(f"{place[0].place}, {place[0].dev}", tuple(_expected(line, counts) for line in place))
        for place in report.places
    )
    incomplete = ((place[0], sorted({seed for line in place for seed in line.lacking})) for place in report.places)
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
    tuning: Tuning, setting: str, encoder: str, seeds: Sequence[int], commands: Commands = DEFAULT_COMMANDS
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
    cells = (summary_text(line.expected[n - 1], DIGITS) if line.expected else CellText(ABSENT) for n in counts)
    return Line((name_of(line.method.base), seeds_text(len(line.picks), line.freshness.mark)), tuple(cells), "plain")


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
    averages = [(table, column) for table in report.tables for column in table.columns if column.task == AVERAGE]
    scores = (f"{suite_title(table.suite)} {table.title(column)}" for table, column in averages)
    columns = ("picked", "dev", "mean dev of trials", *scores)
    sections = (
        Section(place[0].place, tuple(line for tuned in place for line in _picks(tuned, averages)))
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
            *sorted(f"Dev score in {line.place}: {line.dev}." for line, *_ in report.places),
            *weakness_notes(line.weakness for line in report.lines),
        ),
    )


def _picks(line: TunedLine, averages: Sequence[tuple[SummaryTable, Column]]) -> Iterator[Line]:
    for index, (seed, trial) in enumerate(line.picks.items()):
        dev = line.scores[seed]
        numbers = (CellText(fixed(number, DIGITS)) for number in (dev[trial], summarise([*dev.values()]).mean))
        cells = ((table, column, line.rows[table.suite].cells.get(column)) for table, column in averages)
        scores = (
            cell_text(cell.of_seed(seed) if cell else None, table.metric(column).digits, seeds=1)
            for table, column, cell in cells
        )
        heads = (name_of(line.method.base), seeds_text(seed, line.freshness.mark))
        texts = (CellText(name_of(trial).text), *numbers, *scores)
        yield Line(heads, texts, "plain", 0 if index else len(line.picks), line.method.base)


def tuned_figures(report: TunedReport) -> list[ReportFigure]:
    """A figure, if some seed has all trials."""
    places = [place for place in report.places if any(line.expected for line in place)]
    if not places:
        return []
    key, title = f"budget-{report.tuning.key}", f"Expected best dev score against trials, {report.title}"
    text = (
        "Expected best of n trials, drawn from all trials of a seed: mean over seeds, and bars of one standard "
        "deviation. Methods are compared fairly at equal numbers of trials only."
    )
    entries = [
        of_series(index, f"{name_of(line.method.base)} ({n_of(line.expected)})") for index, line in enumerate(places[0])
    ]
    picture = drawn(title, grid([_panel(place, entries) for place in places]))
    return [ReportFigure(key, "", report.tuning.profile, title, text, picture)]


def _panel(place: Sequence[TunedLine], entries: Sequence[Look]) -> ChartSpec:
    values = [
        spread(series.name, trials, best)
        for line, series in zip(place, entries, strict=True)
        for trials, best in enumerate(line.expected, start=1)
    ]
    most = max(len(line.expected) for line in place)
    counts = {"values": list(range(1, most + 1, max(1, most // 10))), "format": "d", "grid": False}
    x = axis("x", "trials", axis=counts)
    layer = curves(values, x, axis("y", f"best dev score, {place[0].dev}"), by_series(entries))
    return {"title": place[0].place, "layer": [layer]}
