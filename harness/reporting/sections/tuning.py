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
from harness.reporting.csvfiles import CsvFields, list_summary_fields
from harness.reporting.figures.drawn import ReportFigure
from harness.reporting.look import (
    ChartSpec,
    Look,
    choose_counted_looks,
    draw_curves,
    draw_picture,
    encode_axis,
    encode_series,
    join_panels,
    make_curve_point,
)
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.seeds.caveats import list_freshness_notes, list_weakness_notes
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.seeds.tuned import TunedLine, TunedReport
from harness.reporting.seeds.wording import name_suite
from harness.reporting.tables.grids import (
    ABSENT,
    CellText,
    Grid,
    Line,
    Section,
    format_cell,
    format_seeds,
    format_summary,
    make_summary_grid,
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
        """A part for each tuning: its tables and its figure."""
        parts = []
        for report in self.contents.tuned:
            tables = make_tuned_grids(report, self.contents.commands)
            figures = draw_tuned_figures(report)
            parts.append(Part(f"tuned-{report.tuning.key}", report.title, tables, figures))
        return parts

    def rows(self) -> Iterable[CsvFields]:
        for report in self.contents.tuned:
            yield from list_tuning_fields(report)


def list_tuning_fields(report: TunedReport) -> Iterator[CsvFields]:
    """The lines of tables.csv of a tuning: scores of the picked trials, then expected dev scores."""
    for table in report.tables:
        yield from list_summary_fields(table, f"tuned {report.tuning.key}")
    for line in report.lines:
        yield from _list_expected_fields(report.tuning, line)


def _list_expected_fields(tuning: Tuning, line: TunedLine) -> Iterator[CsvFields]:
    """A line for each number of trials of a method in one place."""
    fields: CsvFields = {
        "table": f"budget {tuning.key}",
        "profile": tuning.profile,
        "metric": "expected best dev",
        "setting": line.setting,
        "encoder": line.encoder,
        "variant": line.name,
        "seeds": " ".join(map(str, line.picks)),
        "weakened_by": str(line.freshness),
    }
    for trials, summary in enumerate(line.expected, start=1):
        means = {"n": summary.n, "mean": summary.mean, "std": summary.std}
        yield {**fields, "task": f"best of {trials}", **means}


#: decimals of dev scores
DIGITS = 2
#: most columns, one per number of trials, in the table of expected scores; the figure has all
#: numbers
MOST_COLUMNS = 10


def make_tuned_grids(report: TunedReport, commands: Commands = DEFAULT_COMMANDS) -> list[Grid]:
    """All tables of a tuning, in order."""
    return [
        make_expected_grid(report, commands),
        *map(make_summary_grid, report.tables),
        make_picks_grid(report),
    ]


def make_expected_grid(report: TunedReport, commands: Commands = DEFAULT_COMMANDS) -> Grid:
    """Tabulate the expected best dev score against the number of trials, mean and deviation over
    seeds.
    """
    counts = choose_counts(report.tuning.trials)
    sections = []
    for place in report.places:
        lines = [format_expected(line, counts) for line in place]
        sections.append(Section(f"{place[0].place}, {place[0].dev}", tuple(lines)))

    return Grid(
        key=f"expected-{report.tuning.key}",
        title=f"Expected best dev score, {report.title}",
        heads=("method", "seeds"),
        columns=tuple(count_of(count, "trial") for count in counts),
        sections=tuple(sections),
        notes=tuple(list_notes(report)),
        commands=tuple(list_missing_trials(report, commands)),
    )


def list_missing_trials(report: TunedReport, commands: Commands) -> Iterator[str]:
    """The command of each place where some seeds lack trials."""
    for place in report.places:
        incomplete_seeds: set[int] = set()
        for line in place:
            incomplete_seeds.update(line.lacking)
        if incomplete_seeds:
            setting = place[0].setting
            encoder = place[0].encoder
            yield tune_command(report.tuning, setting, encoder, sorted(incomplete_seeds), commands)


def tune_command(
    tuning: Tuning,
    setting: str,
    encoder: str,
    seeds: Sequence[int],
    commands: Commands = DEFAULT_COMMANDS,
) -> str:
    """The command that runs all trials of some seeds in one place."""
    tunings: list[str] = []
    for method in tuning.methods:
        tunings += ["--tune", method.typed]
    # a single number would be read as a count of seeds
    listed = f"{seeds[0]}," if len(seeds) == 1 else seeds
    return commands.run(
        *tunings,
        profile=tuning.profile,
        trials=tuning.trials,
        sampler=tuning.sampler,
        settings=setting,
        encoders=encoder,
        seeds=listed,
        set=tuning.overrides,
    )


def choose_counts(trials: int) -> list[int]:
    """The numbers of trials shown: every one, or 1, 2, 4, ... and the largest if there are many."""
    if trials <= MOST_COLUMNS:
        return list(range(1, trials + 1))

    counts = []
    count = 1
    while count < trials:
        counts.append(count)
        count *= 2
    return [*counts, trials]


def format_expected(line: TunedLine, counts: Sequence[int]) -> Line:
    """A method's expected best dev scores at the numbers of trials that are shown."""
    cells = [CellText(ABSENT)] * len(counts)
    if line.expected:
        cells = [format_summary(line.expected[n - 1], DIGITS) for n in counts]
    heads = (name_of(line.method.base), format_seeds(len(line.picks), line.freshness.mark))
    return Line(heads, tuple(cells), "plain")


def list_notes(report: TunedReport) -> Iterator[str]:
    """How the trials were drawn, what is expected of them, and which are missing."""
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

    for line in report.lines:
        if not line.lacking:
            continue

        lacks = ", ".join(f"{count} of seed {seed}" for seed, count in line.lacking.items())
        row = f"{name_of(line.method.base)} in {line.place}"
        yield f"Trials missing: {row} ({lacks}). These seeds have no pick."
    yield from list_freshness_notes(line.weakness for line in report.lines)


def make_picks_grid(report: TunedReport) -> Grid:
    """Tabulate the trial that each seed picked: its dev score and its test scores."""
    averages = []
    columns = ["seed", "dev", "mean dev of trials"]
    for table in report.tables:
        for column in table.columns:
            if column.task == AVERAGE:
                averages.append((table, column))
                columns.append(f"{name_suite(table.suite)} {table.title(column)}")

    sections = []
    for place in report.places:
        lines: list[Line] = []
        for line in place:
            lines += format_picks(line, averages)
        sections.append(Section(place[0].place, tuple(lines)))

    dev_scores = sorted(f"Dev score in {line.place}: {line.dev}." for line, *_ in report.places)
    return Grid(
        key=f"picks-{report.tuning.key}",
        title=f"Picked trial of each seed, {report.title}",
        heads=("method", "picked"),
        columns=tuple(columns),
        sections=tuple(sections),
        notes=(
            "Each seed picks the trial with its best dev score; test scores are not used.",
            *dev_scores,
            *list_weakness_notes(line.weakness for line in report.lines),
        ),
    )


def format_picks(
    line: TunedLine, averages: Sequence[tuple[SummaryTable, Column]]
) -> Iterator[Line]:
    """A line for each seed of a method, with its picked trial."""
    for index, (seed, trial) in enumerate(line.picks.items()):
        dev_by_trial = line.scores[seed]
        mean_dev = summarise([*dev_by_trial.values()]).mean
        texts = [
            CellText(format_seeds(seed, line.freshness.mark)),
            CellText(fixed(dev_by_trial[trial], DIGITS)),
            CellText(fixed(mean_dev, DIGITS)),
        ]
        for table, column in averages:
            cell = line.rows[table.suite].cells.get(column)
            score = cell.of_seed(seed) if cell else None
            texts.append(format_cell(score, table.metric(column).digits, seeds=1))

        # the method's name spans the lines of its seeds
        spanned_lines = len(line.picks) if index == 0 else 0
        heads = (name_of(line.method.base), name_of(trial))
        yield Line(heads, tuple(texts), "plain", spanned_lines, line.method.base)


def draw_tuned_figures(report: TunedReport) -> list[ReportFigure]:
    """A figure, if some seed has all trials."""
    places = [place for place in report.places if any(line.expected for line in place)]
    if not places:
        return []

    lines: list[TunedLine] = []
    for place in places:
        lines += [line for line in place if line.expected]
    looks = assign_looks(lines)
    profile = report.tuning.profile
    panels = [draw_panel(place, looks, profile) for place in places]

    title = f"Expected best dev score against trials, {report.title}"
    text = (
        "Expected best of n trials, drawn from all trials of a seed: mean over seeds, and bars of one standard "
        "deviation. Methods are compared fairly at equal numbers of trials only."
    )
    picture = draw_picture(title, join_panels(panels))
    return [ReportFigure(f"budget-{report.tuning.key}", "", profile, title, text, picture)]


def assign_looks(lines: Sequence[TunedLine]) -> Mapping[str, Look]:
    """The look of each tuned method, by the name of its rows, with the seeds of all its points."""
    points: dict[str, list[Summary]] = {}
    bases: dict[str, str] = {}
    for line in lines:
        points.setdefault(line.name, []).extend(line.expected)
        bases[line.name] = line.method.base

    # tunings of one method are told apart by their options
    tunings_of_base = Counter(bases.values())
    titles = [name_of(base if tunings_of_base[base] == 1 else name) for name, base in bases.items()]
    return choose_counted_looks(points, titles)


def draw_panel(place: Sequence[TunedLine], looks: Mapping[str, Look], profile: str) -> ChartSpec:
    """Expected best dev scores of one setting and encoder against the number of trials."""
    values = []
    for line in place:
        source = {
            "profile": profile,
            "variant": line.name,
            "setting": line.setting,
            "encoder": line.encoder,
        }
        for trials, best in enumerate(line.expected, start=1):
            values.append(make_curve_point(looks[line.name].name, trials, best, source))

    most_trials = max(len(line.expected) for line in place)
    ticks = range(1, most_trials + 1, max(1, most_trials // 10))
    x = encode_axis("x", "trials", axis={"values": list(ticks), "format": "d", "grid": False})
    y = encode_axis("y", f"best dev score, {place[0].dev}")
    layer = draw_curves(values, x, y, encode_series([*looks.values()]))
    return {"title": place[0].place, "layer": [layer]}
