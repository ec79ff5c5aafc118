"""Methods tuned at equal budgets: each seed picks its trial with the best dev score, without any use of test scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

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
        return tuned_reports(self.contents.tunings, self.contents.results, self.contents.tables)

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
    for place in report.places:
        where = {"setting": place.setting, "encoder": place.encoder}
        for line in place.lines:
            seeds = {"variant": line.method.name, "seeds": " ".join(str(pick.seed) for pick in line.picks)}
            seeds["weakened_by"] = str(line.freshness)
            for trials, summary in enumerate(line.expected, start=1):
                number = {"task": f"best of {trials}", "n": summary.n, "mean": summary.mean, "std": summary.std}
                yield {**shared, **where, **seeds, **number}


class Pick(NamedTuple):
    """The trial that one seed picked, with its dev score and the mean of all trials'."""

    seed: int
    variant: str
    dev: float
    mean: float


@dataclass(frozen=True)
class TunedLine:
    """A method in one setting with one encoder; its `rows`, one for each suite, have the test scores of its picks.

    `expected` is the expected best dev score of 1, 2, ... trials over seeds, `freshness` that of all trials. `lacking`
    maps each incomplete seed to its number of missing trials; such a seed picks nothing.
    """

    method: TunedMethod
    picks: tuple[Pick, ...]
    expected: tuple[Summary, ...]
    lacking: Mapping[int, int]
    freshness: GroupState
    rows: Mapping[str, Row]


@dataclass(frozen=True)
class TunedPlace:
    """The methods of a tuning in one setting with one encoder, and the dev task that picks."""

    setting: str
    encoder: str
    lines: tuple[TunedLine, ...]
    dev: str

    @property
    def title(self) -> str:
        return f"{self.setting} / {self.encoder}"

    def weaknesses(self) -> Iterator[Weakness]:
        for line in self.lines:
            caveats = joined_caveats(cell.caveats for row in line.rows.values() for cell in row.cells.values())
            yield Weakness(self.title, name_of(line.method.base).text, caveats, line.freshness)

    @property
    def incomplete(self) -> list[int]:
        """The seeds in which some method lacks trials."""
        return sorted({seed for line in self.lines for seed in line.lacking})


@dataclass(frozen=True)
class TunedReport:
    """A tuning in all places where it was run, and the tables of the picked trials' test scores."""

    tuning: Tuning
    places: tuple[TunedPlace, ...]
    tables: tuple[SummaryTable, ...]

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
    return [report for report in reports if report.places]


def _report(tuning: Tuning, results: Sequence[Result], tables: Sequence[SummaryTable]) -> TunedReport:
    frames = frames_of(results).where(profile=[tuning.profile], variant=tuning.variants)
    fits = (frames.runs["overrides"] == overrides_text(tuning.overrides)) & frames.runs["dev"].notna()
    frames = frames.taken(frames.runs.index[fits].tolist())
    # one group of a trial in all suites, so that each seed picks among runs of one configuration
    frames = frames.where(group={*chosen(frames, frames.scores).drop_duplicates([*Label._fields])["group"]})
    kept, places = chosen(frames, frames.scores), []
    for at, runs in frames.runs.astype({"setting": str, "encoder": str}).groupby(["setting", "encoder"]):
        here, (setting, encoder) = kept[kept["run"].isin(runs.index)], map(str, at)
        if tuning.place not in (None, f"{setting}/{encoder}"):
            continue
        lines = tuple(_tuned(tuning, method, frames, runs, here) for method in tuning.methods)
        dev = f"{runs['dev_metric'].iloc[0]} on {runs['dev_task'].iloc[0]}"
        places.append(TunedPlace(setting, encoder, lines, dev))
    shown = (table for table in tables if table.profile == tuning.profile)
    return TunedReport(tuning, tuple(places), tuple(filter(None, (_table(tuning, places, metric) for metric in shown))))


def _tuned(
    tuning: Tuning, method: TunedMethod, frames: Frames, runs: pandas.DataFrame, kept: pandas.DataFrame
) -> TunedLine:
    """A method in one place, from the runs there and their chosen evaluations."""
    devs = {(run.variant, run.seed): run.dev for run in lines_of(runs)}
    seeds = sorted({seed for _, seed in devs})
    done = {seed: {trial: devs[trial, seed] for trial in method.trials if (trial, seed) in devs} for seed in seeds}
    lacking = {seed: tuning.trials - len(some) for seed, some in done.items() if len(some) < tuning.trials}
    full = {seed: some for seed, some in done.items() if seed not in lacking}
    curves = [expected_best([*scores.values()]) for scores in full.values()]
    picks = tuple(_pick(seed, scores) for seed, scores in full.items())
    expected = tuple(summarise(values) for values in zip(*curves, strict=True))
    every = (state for trial in method.trials for state in kept["freshness"][kept["variant"] == trial])
    stale = dict.fromkeys(freshness.state for freshness in every if freshness.is_stale)
    freshness = GroupState(len(picks), " and ".join(stale))
    return TunedLine(method, picks, expected, lacking, freshness, _picked(method, picks, frames, kept, freshness))


def _pick(seed: int, dev: Mapping[str, float]) -> Pick:
    """The trial with the best dev score of a seed; of equal ones, the first drawn."""
    best = max(dev, key=dev.__getitem__)
    return Pick(seed, best, dev[best], summarise([*dev.values()]).mean)


def _picked(
    method: TunedMethod, picks: Sequence[Pick], frames: Frames, kept: pandas.DataFrame, freshness: GroupState
) -> Mapping[str, Row]:
    """The row of the picked trials in each suite, under the name of the tuned method."""
    wanted = {(pick.variant, pick.seed) for pick in picks}
    mine = kept[[trial in wanted for trial in zip(kept["variant"], kept["seed"], strict=True)]]
    mine = mine.assign(variant=method.name, row=mine.groupby("suite", observed=True).ngroup())
    rows = rows_of(frames, mine.sort_values(["row", "seed"]), frames.scores)
    return {
        row.suite: replace(row, group="", freshness=freshness, training={}, pooling="", is_method=True) for row in rows
    }


def _table(tuning: Tuning, places: Sequence[TunedPlace], table: SummaryTable) -> SummaryTable | None:
    """The picked trials' test scores in the columns of a suite's table; None if there are none."""
    some = (row for place in places for line in place.lines if (row := line.rows.get(table.suite)))
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
        Section(f"{place.title}, {place.dev}", tuple(_expected(line, counts) for line in place.lines))
        for place in report.places
    )
    missing = (
        tune_command(report.tuning, place.setting, place.encoder, place.incomplete, commands)
        for place in report.places
        if place.incomplete
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
    return Line((name_of(line.method.base), seeds_text(len(line.picks), line.freshness)), tuple(cells), "plain")


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
    for place in report.places:
        for line in place.lines:
            if line.lacking:
                lacks = ", ".join(f"{count} of seed {seed}" for seed, count in line.lacking.items())
                where = f"{name_of(line.method.base)} in {place.title}"
                yield f"Trials missing: {where} ({lacks}). These seeds have no pick."
    yield from freshness_notes(weak for place in report.places for weak in place.weaknesses())


def picks_grid(report: TunedReport) -> Grid:
    """Tabulate the trial that each seed picked: its dev score and its test scores."""
    averages = [(table, column) for table in report.tables for column in table.columns if column.task == AVERAGE]
    scores = (f"{suite_title(table.suite)} {table.title(column)}" for table, column in averages)
    columns = ("picked", "dev", "mean dev of trials", *scores)
    sections = (
        Section(place.title, tuple(line for chosen in place.lines for line in _picks(chosen, averages)))
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
            *sorted(f"Dev score in {place.title}: {place.dev}." for place in report.places),
            *weakness_notes(weak for place in report.places for weak in place.weaknesses()),
        ),
    )


def _picks(line: TunedLine, averages: Sequence[tuple[SummaryTable, Column]]) -> Iterator[Line]:
    for index, pick in enumerate(line.picks):
        dev = (CellText(fixed(number, DIGITS)) for number in (pick.dev, pick.mean))
        cells = ((table, column, line.rows[table.suite].cells.get(column)) for table, column in averages)
        scores = (
            cell_text(cell.of_seed(pick.seed) if cell else None, table.metric(column).digits, seeds=1)
            for table, column, cell in cells
        )
        heads = (name_of(line.method.base), seeds_text(pick.seed, line.freshness))
        texts = (CellText(name_of(pick.variant).text), *dev, *scores)
        yield Line(heads, texts, "plain", 0 if index else len(line.picks), line.method.base)


def tuned_figures(report: TunedReport) -> list[ReportFigure]:
    """A figure, if some seed has all trials."""
    places = [place for place in report.places if any(line.expected for line in place.lines)]
    if not places:
        return []
    key, title = f"budget-{report.tuning.key}", f"Expected best dev score against trials, {report.title}"
    text = (
        "Expected best of n trials, drawn from all trials of a seed: mean over seeds, and bars of one standard "
        "deviation. Methods are compared fairly at equal numbers of trials only."
    )
    lines = places[0].lines
    entries = [of_series(index, f"{line.method.base} ({n_of(line.expected)})") for index, line in enumerate(lines)]
    svg, pdf = drawn(title, grid([_panel(place, entries) for place in places], 3))
    return [ReportFigure(key, "", report.tuning.profile, title, text, svg, pdf)]


def _panel(place: TunedPlace, entries: Sequence[Look]) -> ChartSpec:
    values = [
        spread(series.name, trials, best)
        for line, series in zip(place.lines, entries, strict=True)
        for trials, best in enumerate(line.expected, start=1)
    ]
    most = max(len(line.expected) for line in place.lines)
    counts = {"values": list(range(1, most + 1, max(1, most // 10))), "format": "d", "grid": False}
    x = axis("x", "trials", axis=counts)
    layer = curves(values, x, axis("y", f"best dev score, {place.dev}"), by_series(entries))
    return {"title": place.title, "layer": [layer]}
