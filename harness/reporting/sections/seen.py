"""Scores on test pairs that training has seen and on the others, and the gains over plain SimCSE on
each.

Both kinds are parts of a task, as `harness.evaluation.sts` stores them. Gains are differences by
seed; they are given if both runs have about as many seen pairs, so presumably the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.formatting import fixed, signed
from harness.method.naming import name_of
from harness.metrics import AVERAGE, SEEN, UNSEEN, Column, Metric, Metrics
from harness.reporting import look
from harness.reporting.csvfiles import CsvFields, make_measured_fields
from harness.reporting.figures.drawn import ReportFigure
from harness.reporting.pages import anchor
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.seeds.caveats import Weakness, join_caveats, list_weakness_notes
from harness.reporting.seeds.cells import Cell, Label, Row
from harness.reporting.seeds.choose import choose_evaluations, make_rows
from harness.reporting.seeds.wording import name_suite
from harness.reporting.tables.grids import (
    ABSENT,
    CellText,
    Grid,
    Line,
    Section,
    format_cell,
    format_seeds,
)
from harness.spec import BASELINE
from harness.stats import ALPHA, paired_t_test
from harness.store import Result, frames_of


class SeenSection(ReportSection):
    """Scores by what training has seen, where it has seen test pairs."""

    order = 600
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
        return make_seen_tables(self.contents.frames, self.contents.metrics)

    @cached_property
    def parts(self) -> Sequence[Part]:
        shown = [table for table in self.tables if table.has_seen]
        return [
            Part(
                f"pairs-{table.key}", table.title, [make_seen_grid(table)], draw_seen_figures(table)
            )
            for table in shown
        ]

    def rows(self) -> Iterable[CsvFields]:
        return (fields for table in self.tables for fields in _list_seen_fields(table))

    @property
    def notes(self) -> Sequence[str]:
        """Where training has seen no test pair."""
        by_suite: dict[str, list[str]] = {}
        for table in self.tables:
            if not table.has_seen:
                place = f"{table.setting} / {table.encoder} (profile {table.profile})"
                by_suite.setdefault(table.suite, []).append(place)
        return [
            f"{name_suite(suite)}: training read no sentence of a test pair in {'; '.join(places)}."
            for suite, places in by_suite.items()
        ]


def _list_seen_fields(table: SeenTable) -> Iterator[CsvFields]:
    for row in table.rows:
        shared = {**row.label._asdict(), "group": row.group, "seeds": " ".join(map(str, row.seeds))}
        for part, task in table.cells_of(row):
            scores = table.scores(row, part, task)
            gains = table.gains.get((row.label, part, task))
            if scores:
                place = {
                    "suite": table.suite,
                    "task": task,
                    "part": part,
                    "metric": table.metric.name,
                }
                fields = make_measured_fields(scores.tested(gains.test if gains else None), None)
                gain = {"against": BASELINE, "difference": gains.summary.mean} if gains else {}
                weak = {"weakened_by": str(table.weakness(row))}
                yield {"table": "seen", **shared, **place, **fields, **gain, **weak}


#: Two runs have seen the same pairs if their numbers of seen pairs differ by at most this share of
#: the larger one.
SHARE = 0.05
#: with fewer seen pairs, the scores on them say nothing about a method
FEWEST_PAIRS = 100
#: the metric that counts the pairs of a part
PAIRS = "n"


@dataclass(frozen=True)
class SeenTable:
    """Scores on the parts of each task of a suite, of one profile, setting and encoder, the
    baseline first.

    `metric` is the suite's main one. `averaged` are the tasks in which all compared rows have gains
    on both parts in all seeds; `mean` is the name of the task that pools them, empty if there are
    none. `gains` over the baseline, by row, part and task, are differences by seed with their
    paired t-test; `problems` says why a row has none.
    """

    key: str
    profile: str
    suite: str
    setting: str
    encoder: str
    metric: Metric
    rows: tuple[Row, ...]
    gains: Mapping[tuple[Label, str, str], Cell]
    problems: Mapping[Label, str]
    averaged: tuple[str, ...]
    mean: str

    @staticmethod
    def pairs(row: Row, part: str, task: str) -> Cell | None:
        return row.cell(Column(task, PAIRS), part)

    def scores(self, row: Row, part: str, task: str) -> Cell | None:
        """The scores of a row on a part of a task; None if no seed has enough pairs there."""
        return row.cell(Column(task, self.metric.name), part)

    @staticmethod
    def cells_of(row: Row) -> list[tuple[str, str]]:
        """The parts and tasks of a row, those of seen pairs first."""
        there = [(part, column.task) for part, column in row.parts if column.metric == PAIRS]
        return sorted(there, key=lambda at: at[0] != SEEN)

    def weakness(self, row: Row) -> Weakness:
        return row.weakness_in(filter(None, (self.scores(row, *at) for at in self.cells_of(row))))

    @property
    def tasks(self) -> list[str]:
        """All tasks in order, means last."""
        tasks = list(dict.fromkeys(task for row in self.rows for _, task in self.cells_of(row)))
        return sorted(
            tasks,
            key=lambda task: (task == self.mean and task not in self.averaged, task == AVERAGE),
        )

    @property
    def title(self) -> str:
        return f"{self.paper_title}, profile {self.profile}"

    @property
    def paper_title(self) -> str:
        """The title for readers who know no profiles."""
        where = f"{self.setting} / {self.encoder}"
        return f"{name_suite(self.suite)} on seen and unseen pairs: {where}"

    @property
    def has_seen(self) -> bool:
        """Whether training read a sentence of any pair, in any row."""
        return any(sum(_count_seen_pairs(row).values()) > 0 for row in self.rows)

    def fewest_seen(self, task: str) -> float:
        """The smallest number of seen pairs of a task in any compared row with a score on them; 0
        if no row has one.
        """
        compared = (row for row in self.rows if row.label not in self.problems)
        pairs = (self.pairs(row, SEEN, task) for row in compared if self.scores(row, SEEN, task))
        return min((cell.summary.mean for cell in pairs if cell), default=0.0)

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
        few = {
            task: pairs
            for task in self.tasks
            if 0 < (pairs := self.fewest_seen(task)) < FEWEST_PAIRS
        }
        if few:
            listed = "; ".join(f"{task} ({pairs:.0f})" for task, pairs in few.items())
            yield f"Fewer than {FEWEST_PAIRS} seen pairs say nothing about a method: {listed}."
        for problem in dict.fromkeys(self.problems.values()):
            labels = (label.name.text for label, found in self.problems.items() if found == problem)
            yield f"Not compared, {problem}: {'; '.join(labels)}."
        yield from list_weakness_notes(map(self.weakness, self.rows))


def make_seen_tables(results: Sequence[Result], metrics: Metrics) -> list[SeenTable]:
    """Build a table for each profile, suite, setting and encoder with scores on seen or unseen
    pairs.
    """
    kept: dict[tuple[str, str, str, str], list[Row]] = {}
    frames = frames_of(results)
    shown = {
        PAIRS,
        *(_find_main_metric(metrics, suite).name for suite in frames.evaluations["suite"].unique()),
    }
    scores = frames.parts[
        frames.parts["part"].isin((SEEN, UNSEEN)) & frames.parts["metric"].isin(shown)
    ]
    for row in make_rows(frames, choose_evaluations(frames, scores), scores):
        kept.setdefault(
            (row.label.profile, row.suite, row.label.setting, row.label.encoder), []
        ).append(row)
    return [
        _make_seen_table(
            anchor(f"seen {' '.join(place)}"), place, rows, _find_main_metric(metrics, place[1])
        )
        for place, rows in sorted(kept.items())
    ]


def _find_main_metric(metrics: Metrics, suite: str) -> Metric:
    """The first metric that a suite's tables show."""
    return next(
        (metric for metric in metrics.get(suite, {}).values() if metric.shown), Metric("spearman")
    )


def _make_seen_table(
    key: str, place: tuple[str, str, str, str], rows: Sequence[Row], metric: Metric
) -> SeenTable:
    rows = sorted(
        rows,
        key=lambda row: (row.label.overrides, row.label.variant != BASELINE, row.label.variant),
    )
    by_label = {row.label: row for row in rows}
    bases = {label: label._replace(variant=BASELINE) for label in by_label}
    shared = {
        row.label: _find_shared_seeds(row, by_label.get(bases[row.label]))
        for row in rows
        if row.label.variant != BASELINE
    }
    sides = [
        (by_label[side], seeds)
        for label, (seeds, _) in shared.items()
        if seeds
        for side in (label, bases[label])
    ]
    averaged = tuple(
        task
        for task in _list_tasks(rows)
        if sides and all(_has_both(row, task, metric, seeds) for row, seeds in sides)
    )
    mean = f"{len(averaged)} tasks, pooled" if len(averaged) > 1 else "".join(averaged)
    if len(averaged) > 1:
        by_label = {row.label: _add_pooled_task(row, mean, averaged, metric) for row in rows}
    gains = {
        (label, *at): gain
        for label, (seeds, _) in shared.items()
        if seeds
        for at, gain in _compute_seen_gains(by_label[label], by_label[bases[label]], seeds, metric)
    }
    problems = {label: problem for label, (_, problem) in shared.items() if problem}
    return SeenTable(key, *place, metric, tuple(by_label.values()), gains, problems, averaged, mean)


def _list_tasks(rows: Iterable[Row]) -> list[str]:
    """The tasks with a number of seen or unseen pairs, without the suite's average."""
    tasks = (column.task for row in rows for _, column in row.parts if column.metric == PAIRS)
    return [task for task in dict.fromkeys(tasks) if task != AVERAGE]


def _find_shared_seeds(row: Row, base: Row | None) -> tuple[Sequence[int], str]:
    """The seeds in which a row is compared with the baseline, and why there are none."""
    name = name_of(BASELINE)
    if base is None:
        return (), f"no matching run of {name}"
    if base.protocol != row.protocol:
        return (), f"{name} was evaluated with another version or other data of the suite"
    common = sorted(set(row.seeds) & set(base.seeds))
    if not common:
        return (), f"no seed in common with {name}"
    mine = _count_seen_pairs(row)
    theirs = _count_seen_pairs(base)
    seeds = [at for at in common if abs(mine[at] - theirs[at]) <= SHARE * max(mine[at], theirs[at])]
    problem = (
        ""
        if seeds
        else f"the numbers of seen pairs differ from those of {name} by more than {SHARE:.0%}"
    )
    return seeds, problem


def _count_seen_pairs(row: Row) -> Counter[int]:
    """The number of seen pairs in all tasks together, by seed."""
    pairs = Counter[int]()
    for (part, column), cell in row.parts.items():
        if part == SEEN and column.metric == PAIRS and column.task != AVERAGE:
            pairs.update(cell.by_seed)
    return pairs


def _has_both(row: Row, task: str, metric: Metric, seeds: Sequence[int]) -> bool:
    """Whether a row has scores on both parts of a task for all seeds."""
    cells = [row.parts.get((part, Column(task, metric.name))) for part in (SEEN, UNSEEN)]
    return all(cell and {*seeds} <= {*cell.seeds} for cell in cells)


def _add_pooled_task(row: Row, name: str, tasks: Sequence[str], metric: Metric) -> Row:
    """A row with a task more, which pools the pairs of `tasks`; its score is their mean, weighted
    by pairs.

    It has only the seeds with a score in all of these tasks.
    """
    parts = {**row.parts}
    for part in (SEEN, UNSEEN):
        pairs, scores = (
            [row.parts.get((part, Column(task, of))) for task in tasks]
            for of in (PAIRS, metric.name)
        )
        both = [
            (n.by_seed, cell.by_seed) for n, cell in zip(pairs, scores, strict=True) if n and cell
        ]
        seeds = (
            set.intersection(*(set(values) for _, values in both))
            if len(both) == len(tasks)
            else ()
        )
        if seeds:
            counts = {
                seed: sum(numbers[seed] for numbers, _ in both)
                for seed in both[0][1]
                if seed in seeds
            }
            totals = {
                seed: sum(numbers[seed] * values[seed] for numbers, values in both)
                for seed in counts
            }
            weak = join_caveats(cell.caveats for cell in scores if cell)
            parts[part, Column(name, PAIRS)] = Cell.of(counts)
            parts[part, Column(name, metric.name)] = Cell.of(
                {at: totals[at] / n for at, n in counts.items()}, weak
            )
    return replace(row, parts=parts)


def _compute_seen_gains(
    row: Row, base: Row, seeds: Sequence[int], metric: Metric
) -> Iterator[tuple[tuple[str, str], Cell]]:
    """The differences by seed between a row and the baseline, by part and task."""
    for (part, column), cell in row.parts.items():
        if column.metric == metric.name and (other := base.parts.get((part, column))):
            mine = cell.by_seed
            theirs = other.by_seed
            if both := [seed for seed in seeds if seed in mine and seed in theirs]:
                test = paired_t_test([mine[seed] for seed in both], [theirs[seed] for seed in both])
                gains = Cell.of({seed: mine[seed] - theirs[seed] for seed in both})
                yield (part, column.task), gains.tested(test)


def make_seen_grid(table: SeenTable) -> Grid:
    """Format a table of scores by what training has seen, task by task."""
    columns = ("pairs", "score", f"gain over {name_of(BASELINE)}")
    sections = tuple(
        Section("Avg, all tasks" if task == AVERAGE else task, tuple(_list_seen_lines(table, task)))
        for task in table.tasks
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
        paper_title=table.paper_title,
    )


def _list_seen_lines(table: SeenTable, task: str) -> Iterator[Line]:
    for row in table.rows:
        if any(table.pairs(row, part, task) for part in (SEEN, UNSEEN)):
            cells = tuple(
                text for part in (SEEN, UNSEEN) for text in _format_part(table, row, part, task)
            )
            heads = (row.label.name, format_seeds(len(row.seeds), row.freshness.mark))
            yield Line(heads, cells, "baseline" if row.label.variant == BASELINE else "plain")


def _format_part(table: SeenTable, row: Row, part: str, task: str) -> tuple[CellText, ...]:
    """Pairs, with their deviation if it differs between seeds, the score and the gain."""
    pairs = table.pairs(row, part, task)
    gains = table.gains.get((row.label, part, task))
    if pairs is None:
        return (CellText(ABSENT),) * 3
    digits = table.metric.digits
    seeds = len(row.seeds)
    gain = format_cell(gains, digits, seeds)
    if gains:
        gain = CellText(signed(gains.summary.mean, digits), gain.spread, extra=gain.extra)
    counted = CellText(
        fixed(pairs.summary.mean, 0), fixed(pairs.summary.std, 0) if pairs.summary.std else ""
    )
    return counted, format_cell(table.scores(row, part, task), digits, seeds), gain


def draw_seen_figures(table: SeenTable) -> list[ReportFigure]:
    """A figure of the gains over the tasks that all compared rows have, if there are any."""
    compared = [row for row in table.rows if (row.label, SEEN, table.mean) in table.gains]
    if not compared:
        return []
    title = (
        f"Gain over {name_of(BASELINE)} on seen and unseen pairs, {table.setting} / {table.encoder}"
    )
    text = (
        f"{', '.join(table.averaged)}, weighted by pairs. Bars are {1 - ALPHA:.0%} intervals (t) of the gain by seed; "
        "one seed has none."
    )
    if table.fewest_seen(table.mean) < FEWEST_PAIRS:
        text += f" Fewer than {FEWEST_PAIRS} pairs are seen: the gain on them says nothing."
    return [
        ReportFigure(
            f"gains-{table.key}",
            "",
            table.profile,
            title,
            text,
            look.draw_picture(title, _make_seen_spec(table, compared)),
        )
    ]


def _make_seen_spec(table: SeenTable, compared: Sequence[Row]) -> look.ChartSpec:
    """The mean gains with their intervals, seen above unseen pairs in each row."""
    parts = (SEEN, UNSEEN)
    entries = [
        look.choose_series_look(at, f"{part.strip('[]')} pairs") for at, part in enumerate(parts)
    ]
    values: list[dict[str, object]] = []
    summaries = []
    for at, row in enumerate(compared):
        for part, series in zip(parts, entries, strict=True):
            cell = table.gains[row.label, part, table.mean]
            summaries.append(cell.summary)
            values.append(
                {
                    "i": at,
                    "series": series.name,
                    "x": cell.summary.mean,
                    "lo": cell.test.low if cell.test else cell.summary.mean,
                    "hi": cell.test.high if cell.test else cell.summary.mean,
                    "n": cell.summary.n,
                    **row.label._asdict(),
                    "suite": table.suite,
                    "task": table.mean,
                    "metric": table.metric.name,
                    "part": part,
                    "against": BASELINE,
                }
            )
    seeds = look.count_seeds(summaries)
    looks = look.encode_series(entries)
    title = f"gain over {name_of(BASELINE)}, {table.metric.title} ({seeds})"
    y, height, params = look.encode_names([row.label.name.text for row in compared])
    offset = look.encode_nominal(
        "series", sort=None, scale={"domain": [series.name for series in entries]}
    )
    points = {"x": look.encode_axis("x", title), "shape": looks["shape"]}
    layers = [
        look.make_layer("rule", {"x": look.encode_axis("lo", title), "x2": {"field": "hi"}}),
        look.make_layer("point", points, filled=True, size=30, opacity=1),
    ]
    encoding = {"y": y, "yOffset": offset, "color": looks["color"]}
    zero = look.draw_line({"x": {"datum": 0}}, color=look.BLACK)
    both = {"encoding": encoding, "layer": layers}
    panel = {"params": params, "layer": [zero, {**look.make_data(values), **both}]}
    return look.join_panels([{"height": max(height, 20 * len(compared)) + 50, **panel}])
