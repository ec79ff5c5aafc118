"""Scores on test pairs that training has seen and on the others, and the gains over plain SimCSE on each.

Both kinds are parts of a task, as `harness.evaluation.sts` stores them. Gains are differences by seed, since the runs
of one seed read the same batches; they are given if both runs have about as many seen pairs, so presumably the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from harness.formatting import fixed, signed
from harness.method.naming import name_of
from harness.metrics import AVERAGE, SEEN, UNSEEN, Column, Metric, Metrics
from harness.reporting import look
from harness.reporting.csvfiles import CsvFields, measured_fields
from harness.reporting.figures.drawn import ReportFigure
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.seeds.caveats import Weakness, weakness_notes
from harness.reporting.seeds.groups import Cell, Group, Label, kept_groups, weakness_of
from harness.reporting.seeds.wording import suite_title
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section, cell_text, seeds_text
from harness.spec import BASELINE
from harness.stats import ALPHA, paired_t_test

if TYPE_CHECKING:
    import pandas


class SeenSection(ReportSection):
    """Scores by what training has seen, where it has seen test pairs."""

    place = 600
    title = "Test pairs that training has seen"
    menu = "Seen pairs"
    about = "Scores on test pairs of which training read a sentence, and on the others."
    lede = (
        "A test pair is seen if training read at least one of its two sentences, and unseen if it read neither. Each "
        "figure shows how much each method gains over SimCSE on both kinds; the table below it has the tasks one by "
        "one. The two kinds are different pairs: the distance between the two gains alone does not say what having "
        "seen the pairs is worth."
    )

    @cached_property
    def tables(self) -> list[SeenTable]:
        """One for each profile, suite, setting and encoder with scores by what training has seen."""
        return seen_tables(self.contents.frames.flat((SEEN, UNSEEN)), self.contents.metrics)

    @cached_property
    def parts(self) -> Sequence[Part]:
        shown = [table for table in self.tables if table.has_seen]
        return [Part(f"pairs-{table.key}", table.title, [seen_grid(table)], seen_figures(table)) for table in shown]

    def rows(self) -> Iterable[CsvFields]:
        return (fields for table in self.tables for fields in _csv(table))

    @property
    def notes(self) -> Sequence[str]:
        """Where training has seen no test pair."""
        where = [
            f"{table.setting} / {table.encoder} (profile {table.profile})"
            for table in self.tables
            if not table.has_seen
        ]
        return [f"Training read no sentence of any test pair in {'; '.join(where)}."] if where else []


def _csv(table: SeenTable) -> Iterator[CsvFields]:
    for row in table.rows:
        shared = {**row.label._asdict(), "group": row.runs.group, "seeds": " ".join(map(str, row.runs.seeds))}
        for (task, part), cell in row.cells.items():
            if cell.scores:
                place = {"suite": table.suite, "task": task, "part": part, "metric": table.metric.name}
                fields = measured_fields(replace(cell.scores, test=cell.gains.test if cell.gains else None), None)
                gain = {"against": BASELINE, "difference": cell.gains.summary.mean} if cell.gains else {}
                weak = {"weakened_by": str(row.weakness())}
                yield {"table": "seen", **shared, **place, **fields, **gain, **weak}


#: (task, part) -> seed -> number
Numbers = Mapping[tuple[str, str], Mapping[int, float]]
#: Two runs have seen the same pairs if their numbers of seen pairs differ by at most this share of the larger one.
SHARE = 0.05
#: with fewer seen pairs, the scores on them say nothing about a method
FEWEST_PAIRS = 100


@dataclass(frozen=True)
class SeenCell:
    """One part of a task over seeds: its pairs, its scores, and its gains over the baseline with their paired t-test.

    Seeds with too few pairs have no score; `scores` or `gains` is None if no seed has one.
    """

    pairs: Cell
    scores: Cell | None
    gains: Cell | None = None


@dataclass(frozen=True)
class SeenLine:
    """The runs of one label in numbers: pairs, and scores in a metric, of each task and part by seed.

    `averaged` maps the name of a pooled task to the tasks in it. Gains are over the runs of `base` in the seeds
    `shared` with them; `problem` says why there are none. The baseline has no gains and no problem.
    """

    label: Label
    runs: Group
    metric: str
    pairs: Numbers
    scores: Numbers
    averaged: Mapping[str, Sequence[str]] = field(default_factory=dict)
    base: SeenLine | None = None
    shared: Sequence[int] = ()
    problem: str = ""

    @classmethod
    def of(cls, label: Label, runs: Group, metric: str) -> SeenLine:
        pairs: dict[tuple[str, str], Mapping[int, float]] = {}
        scores: dict[tuple[str, str], Mapping[int, float]] = {}
        for part in (SEEN, UNSEEN):
            for column, by_seed in runs.scores_of(part).items():
                if column.metric in ("n", metric):
                    (pairs if column.metric == "n" else scores)[column.task, part] = by_seed
        return cls(label, runs, metric, pairs, scores)

    @property
    def is_baseline(self) -> bool:
        return self.label.variant == BASELINE

    def weakness(self) -> Weakness:
        return weakness_of(self.label, (cell.scores for cell in self.cells.values()), self.runs.freshness)

    @cached_property
    def cells(self) -> Mapping[tuple[str, str], SeenCell]:
        """A cell for each task and part, those of seen pairs first."""
        return {(task, part): self._cell(task, part) for task, part in sorted(self.pairs, key=lambda at: at[1] != SEEN)}

    def _cell(self, task: str, part: str) -> SeenCell:
        mine, gains = self.scores.get((task, part), {}), None
        theirs = self.base.scores.get((task, part), {}) if self.base else {}
        both = [seed for seed in self.shared if seed in mine and seed in theirs]
        if both:
            test = paired_t_test([mine[seed] for seed in both], [theirs[seed] for seed in both])
            gains = replace(Cell.of([mine[seed] - theirs[seed] for seed in both]), test=test)
        tasks = self.averaged.get(task, ())
        caveats = self.runs.caveats(Column(AVERAGE if tasks else task, self.metric), tasks)
        scores = Cell.of(list(mine.values()), caveats) if mine else None
        return SeenCell(Cell.of(list(self.pairs[task, part].values())), scores, gains)

    def seen(self, seed: int) -> float:
        """The number of seen pairs in all tasks together."""
        return sum(
            by_seed.get(seed, 0.0) for (task, part), by_seed in self.pairs.items() if part == SEEN and task != AVERAGE
        )

    def has_both(self, task: str, seeds: Sequence[int]) -> bool:
        """Whether both parts of a task have a score for all seeds."""
        return all(set(seeds) <= self.scores.get((task, part), {}).keys() for part in (SEEN, UNSEEN))

    def with_mean(self, name: str, tasks: Sequence[str]) -> SeenLine:
        """Add a task that pools the pairs of `tasks`; its score is their mean, weighted by pairs.

        It has only the seeds with a score in all of these tasks.
        """
        pairs, scores = {**self.pairs}, {**self.scores}
        for part in (SEEN, UNSEEN):
            both = [(self.pairs.get((task, part), {}), self.scores.get((task, part), {})) for task in tasks]
            seeds = [seed for seed in both[0][1] if all(seed in values for _, values in both)]
            counts = {seed: sum(numbers[seed] for numbers, _ in both) for seed in seeds}
            if counts:
                pairs[name, part] = counts
                scores[name, part] = {
                    seed: sum(numbers[seed] * values[seed] for numbers, values in both) / counts[seed] for seed in seeds
                }
        return replace(self, pairs=pairs, scores=scores, averaged={name: tasks})


@dataclass(frozen=True)
class SeenTable:
    """Scores on the parts of each task of a suite, of one profile, setting and encoder, the baseline first.

    `metric` is the suite's main one. `averaged` are the tasks in which all compared rows have gains on both parts in
    all seeds; `mean` is the name of the task that pools them, empty if there are none.
    """

    key: str
    profile: str
    suite: str
    setting: str
    encoder: str
    metric: Metric
    rows: tuple[SeenLine, ...]
    averaged: tuple[str, ...]
    mean: str

    @property
    def tasks(self) -> list[str]:
        """All tasks in order, means last."""
        tasks = list(dict.fromkeys(task for row in self.rows for task, _ in row.cells))
        return sorted(tasks, key=lambda task: (task == self.mean and task not in self.averaged, task == AVERAGE))

    @property
    def title(self) -> str:
        where = f"{self.setting} / {self.encoder}, profile {self.profile}"
        return f"{suite_title(self.suite)} on seen and unseen pairs: {where}"

    @property
    def has_seen(self) -> bool:
        """Whether training read a sentence of any pair, in any row."""
        return any(
            cell.pairs.summary.mean > 0 for row in self.rows for (_, part), cell in row.cells.items() if part == SEEN
        )

    def fewest_seen(self, task: str) -> float:
        """The smallest number of seen pairs of a task in any compared row with a score on them; 0 if no row has one."""
        cells = (row.cells.get((task, SEEN)) for row in self.rows if not row.problem)
        return min((cell.pairs.summary.mean for cell in cells if cell and cell.scores), default=0.0)

    def legend(self) -> Iterator[str]:
        """Say how the numbers are made."""
        yield f"Scores in {self.metric.title}. Mean ± sample standard deviation over seeds."
        yield (
            "Seen: training read at least one sentence of the pair, compared in lower case, without anything but "
            "letters and digits. Unseen: it read neither."
        )
        yield (
            f"Gains over {name_of(BASELINE)} are differences by seed, over the seeds in which the numbers of seen "
            f"pairs of both differ by at most {SHARE:.0%}."
        )

    def notes(self) -> Iterator[str]:
        """Say what is averaged, and why rows are not compared."""
        if len(self.averaged) > 1:
            listed = ", ".join(self.averaged)
            yield f"{self.mean}: those with scores on both kinds of pairs, weighted by their pairs: {listed}."
        few = {task: pairs for task in self.tasks if 0 < (pairs := self.fewest_seen(task)) < FEWEST_PAIRS}
        if few:
            listed = "; ".join(f"{task} ({pairs:.0f})" for task, pairs in few.items())
            yield f"Fewer than {FEWEST_PAIRS} seen pairs say nothing about a method: {listed}."
        problems: dict[str, list[str]] = {}
        for row in self.rows:
            if row.problem:
                problems.setdefault(row.problem, []).append(row.label.name.text)
        for problem, labels in problems.items():
            yield f"Not compared, {problem}: {'; '.join(labels)}."
        yield from weakness_notes(row.weakness() for row in self.rows)


def seen_tables(frame: pandas.DataFrame, metrics: Metrics) -> list[SeenTable]:
    """Build a table for each profile, suite, setting and encoder with scores on seen or unseen pairs."""
    kept: dict[tuple[str, str, str, str], list[SeenLine]] = {}
    for (label, suite), group in kept_groups(frame[frame["part"].isin((SEEN, UNSEEN))], frame).items():
        place = (label.profile, suite, label.setting, label.encoder)
        kept.setdefault(place, []).append(SeenLine.of(label, group, _main(metrics, suite).name))
    return [
        _table(f"seen-{number}-{place[0]}-{place[1]}", place, runs, _main(metrics, place[1]))
        for number, (place, runs) in enumerate(sorted(kept.items()), start=1)
    ]


def _main(metrics: Metrics, suite: str) -> Metric:
    """The first metric that a suite's tables show."""
    return next((metric for metric in metrics.get(suite, {}).values() if metric.shown), Metric("spearman"))


def _table(key: str, place: tuple[str, str, str, str], runs: Sequence[SeenLine], metric: Metric) -> SeenTable:
    runs = sorted(runs, key=lambda run: (run.label.overrides, run.label.variant != BASELINE, run.label.variant))
    by_label = {run.label: run for run in runs}
    bases = {label: label._replace(variant=BASELINE) for label in by_label}
    shared = {label: _shared_seeds(run, by_label.get(bases[label])) for label, run in by_label.items()}
    tasks = list(dict.fromkeys(task for run in runs for task, _ in run.pairs if task != AVERAGE))
    sides = [(side, seeds) for label, (seeds, _) in shared.items() if seeds for side in (label, bases[label])]
    averaged = tuple(
        task for task in tasks if sides and all(by_label[name].has_both(task, seeds) for name, seeds in sides)
    )
    mean = f"{len(averaged)} tasks, pooled" if len(averaged) > 1 else "".join(averaged)
    if len(averaged) > 1:
        by_label = {label: run.with_mean(mean, averaged) for label, run in by_label.items()}
    rows = tuple(
        replace(run, base=by_label.get(bases[label]), shared=shared[label][0], problem=shared[label][1])
        for label, run in by_label.items()
    )
    return SeenTable(key, *place, metric, rows, averaged, mean)


def _shared_seeds(line: SeenLine, base: SeenLine | None) -> tuple[Sequence[int], str]:
    """The seeds in which a row is compared with the baseline, and why there are none; the baseline has neither."""
    name = name_of(BASELINE)
    if line.is_baseline:
        return (), ""
    if base is None:
        return (), f"no matching run of {name}"
    if base.runs.protocol != line.runs.protocol:
        return (), f"{name} was evaluated with another version or other data of the suite"
    common = sorted(set(line.runs.seeds) & set(base.runs.seeds))
    if not common:
        return (), f"no seed in common with {name}"
    pairs = {seed: (line.seen(seed), base.seen(seed)) for seed in common}
    seeds = [seed for seed, (mine, theirs) in pairs.items() if abs(mine - theirs) <= SHARE * max(mine, theirs)]
    problem = "" if seeds else f"the numbers of seen pairs differ from those of {name} by more than {SHARE:.0%}"
    return seeds, problem


def seen_grid(table: SeenTable) -> Grid:
    """Format a table of scores by what training has seen, task by task."""
    columns = ("pairs", "score", f"gain over {name_of(BASELINE)}")
    sections = tuple(
        Section("Avg, all tasks" if task == AVERAGE else task, tuple(_lines(table, task))) for task in table.tasks
    )
    return Grid(
        table.key,
        table.title,
        ("variant", "seeds"),
        columns * 2,
        (False,) * len(columns) * 2,
        sections,
        tuple(table.notes()),
        groups=("seen pairs",) * len(columns) + ("unseen pairs",) * len(columns),
        legend=tuple(table.legend()),
    )


def _lines(table: SeenTable, task: str) -> Iterator[Line]:
    for row in table.rows:
        pair = [row.cells.get((task, part)) for part in (SEEN, UNSEEN)]
        if any(pair):
            cells = tuple(text for cell in pair for text in _texts(cell, table.metric.digits, len(row.runs.seeds)))
            heads = (row.label.name, seeds_text(len(row.runs.seeds), row.runs.freshness))
            yield Line(heads, cells, "baseline" if row.is_baseline else "plain")


def _texts(cell: SeenCell | None, digits: int, seeds: int) -> tuple[CellText, ...]:
    """Pairs, with their deviation if it differs between seeds, the score and the gain."""
    if cell is None:
        return (CellText(ABSENT),) * 3
    pairs, gain = cell.pairs.summary, cell_text(cell.gains, digits, seeds)
    if cell.gains:
        gain = CellText(signed(cell.gains.summary.mean, digits), gain.spread, extra=gain.extra)
    counted = CellText(fixed(pairs.mean, 0), fixed(pairs.std, 0) if pairs.std else "")
    return counted, cell_text(cell.scores, digits, seeds), gain


def seen_figures(table: SeenTable) -> list[ReportFigure]:
    """A figure of the gains over the tasks that all compared rows have, if there are any."""
    compared = [row for row in table.rows if row.shared] if table.mean else []
    if not compared:
        return []
    title = f"Gain over {name_of(BASELINE)} on seen and unseen pairs, {table.setting} / {table.encoder}"
    text = (
        f"{', '.join(table.averaged)}, weighted by pairs. Bars are {1 - ALPHA:.0%} intervals (t) of the gain by seed; "
        "one seed has none."
    )
    if table.fewest_seen(table.mean) < FEWEST_PAIRS:
        text += f" Fewer than {FEWEST_PAIRS} pairs are seen: the gain on them says nothing."
    svg, pdf = look.drawn(title, _spec(compared, table.mean, table.metric.title))
    return [ReportFigure(f"gains-{table.key}", "", table.profile, title, text, svg, pdf)]


def _spec(compared: Sequence[SeenLine], task: str, unit: str) -> look.ChartSpec:
    """The mean gains with their intervals, seen above unseen pairs in each row."""
    parts = (SEEN, UNSEEN)
    entries = [look.of_series(at, f"{part.strip('[]')} pairs") for at, part in enumerate(parts)]
    gains = [
        (at, series.name, cell)
        for at, row in enumerate(compared)
        for part, series in zip(parts, entries, strict=True)
        if (cell := row.cells[task, part].gains)
    ]
    values = [
        {
            "i": at,
            "series": name,
            "x": cell.summary.mean,
            "lo": cell.test.low if cell.test else cell.summary.mean,
            "hi": cell.test.high if cell.test else cell.summary.mean,
        }
        for at, name, cell in gains
    ]
    seeds = look.n_of(cell.summary for _, _, cell in gains)
    looks, title = look.by_series(entries), f"gain over {name_of(BASELINE)}, {unit} ({seeds})"
    y, height, params = look.named_axis([row.label.name.text for row in compared])
    offset = {
        "field": "series",
        "type": "nominal",
        "sort": None,
        "scale": {"domain": [series.name for series in entries]},
    }
    layers = [
        {"mark": {"type": "rule"}, "encoding": {"x": look.axis("lo", title), "x2": {"field": "hi"}}},
        {
            "mark": {"type": "point", "filled": True, "size": 30, "opacity": 1},
            "encoding": {"x": look.axis("x", title), "shape": looks["shape"]},
        },
    ]
    both = {
        **look.rows_of(values),
        "encoding": {"y": y, "yOffset": offset, "color": looks["color"]},
        "layer": layers,
    }
    layers = [look.line_at({"x": {"datum": 0}}, color=look.BLACK), both]
    return look.grid([{"width": 400, "height": max(height, 45 * len(compared)), "params": params, "layer": layers}])
