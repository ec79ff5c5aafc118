"""Scores on test pairs that training has seen and on the others, and the gains over plain SimCSE on
each.

Both kinds are parts of a task, as `harness.evaluation.sts` stores them. Gains are differences by
seed; they are given if both runs have about as many seen pairs, so presumably the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import mul

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
from harness.stats import ALPHA, Interval, Summary, paired_t_test
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
        """A part for each table with seen pairs: its figure and its scores."""
        parts = []
        for table in self.tables:
            if table.has_seen:
                figures = draw_seen_figures(table)
                parts.append(
                    Part(f"pairs-{table.key}", table.title, [make_seen_grid(table)], figures)
                )
        return parts

    def rows(self) -> Iterable[CsvFields]:
        for table in self.tables:
            yield from _list_seen_fields(table)

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
    """The lines of tables.csv: one for each row, part and task with scores."""
    for row in table.rows:
        weakness = str(table.weakness(row))
        for part, task in table.cells_of(row):
            scores = table.scores(row, part, task)
            if not scores:
                continue

            gains = table.gains.get((row.label, part, task))
            fields: CsvFields = {
                "table": "seen",
                **row.label._asdict(),
                "group": row.group,
                "seeds": " ".join(map(str, row.seeds)),
                "suite": table.suite,
                "task": task,
                "part": part,
                "metric": table.metric.name,
                **make_measured_fields(scores.attach_test(gains.test if gains else None), None),
                "weakened_by": weakness,
            }
            if gains:
                fields |= {"against": BASELINE, "difference": gains.summary.mean}
            yield fields


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
        parts = [(part, column.task) for part, column in row.parts if column.metric == PAIRS]
        return sorted(parts, key=lambda at: at[0] != SEEN)

    def weakness(self, row: Row) -> Weakness:
        scores = [self.scores(row, part, task) for part, task in self.cells_of(row)]
        return row.weakness_in(filter(None, scores))

    @property
    def tasks(self) -> list[str]:
        """All tasks in order, means last."""
        tasks: dict[str, None] = {}
        for row in self.rows:
            tasks |= dict.fromkeys(task for _, task in self.cells_of(row))

        def rank_task(task: str) -> tuple[bool, bool]:
            is_pooled = task == self.mean and task not in self.averaged
            return is_pooled, task == AVERAGE

        return sorted(tasks, key=rank_task)

    @property
    def title(self) -> str:
        return f"{self.paper_title}, profile {self.profile}"

    @property
    def paper_title(self) -> str:
        """The title for readers who know no profiles."""
        place = f"{self.setting} / {self.encoder}"
        return f"{name_suite(self.suite)} on seen and unseen pairs: {place}"

    @property
    def has_seen(self) -> bool:
        """Whether training read a sentence of any pair, in any row."""
        return any(sum(_count_seen_pairs(row).values()) > 0 for row in self.rows)

    def fewest_seen(self, task: str) -> float:
        """The smallest number of seen pairs of a task in any compared row with a score on them; 0
        if no row has one.
        """
        numbers = []
        for row in self.rows:
            pairs = self.pairs(row, SEEN, task)
            if pairs and row.label not in self.problems and self.scores(row, SEEN, task):
                numbers.append(pairs.summary.mean)
        return min(numbers, default=0.0)

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
            tasks = ", ".join(self.averaged)
            yield f"{self.mean}: those with scores on both kinds of pairs, weighted by their pairs: {tasks}."

        few_pairs = []
        for task in self.tasks:
            pairs = self.fewest_seen(task)
            if 0 < pairs < FEWEST_PAIRS:
                few_pairs.append(f"{task} ({pairs:.0f})")
        if few_pairs:
            tasks = "; ".join(few_pairs)
            yield f"Fewer than {FEWEST_PAIRS} seen pairs say nothing about a method: {tasks}."

        names_by_problem: dict[str, list[str]] = {}
        for label, problem in self.problems.items():
            names_by_problem.setdefault(problem, []).append(label.name.text)
        for problem, names in names_by_problem.items():
            yield f"Not compared, {problem}: {'; '.join(names)}."
        yield from list_weakness_notes(map(self.weakness, self.rows))


def make_seen_tables(results: Sequence[Result], metrics: Metrics) -> list[SeenTable]:
    """Build a table for each profile, suite, setting and encoder with scores on seen or unseen
    pairs.
    """
    frames = frames_of(results)
    suites = frames.evaluations["suite"].unique()
    shown_metrics = {PAIRS, *(_find_main_metric(metrics, suite).name for suite in suites)}
    parts = frames.parts
    is_shown = parts["part"].isin((SEEN, UNSEEN)) & parts["metric"].isin(shown_metrics)
    scores = parts[is_shown]

    rows_by_place: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in make_rows(frames, choose_evaluations(frames, scores), scores):
        label = row.label
        place = (label.profile, row.suite, label.setting, label.encoder)
        rows_by_place.setdefault(place, []).append(row)

    tables = []
    for place, rows in sorted(rows_by_place.items()):
        metric = _find_main_metric(metrics, place[1])
        tables.append(_make_seen_table(place, rows, metric))
    return tables


def _find_main_metric(metrics: Metrics, suite: str) -> Metric:
    """The first metric that a suite's tables show."""
    for metric in metrics.get(suite, {}).values():
        if metric.shown:
            return metric
    return Metric("spearman")


def _make_seen_table(
    place: tuple[str, str, str, str], rows: Sequence[Row], metric: Metric
) -> SeenTable:
    """Build the table of a place: what is compared, what is pooled, and the gains."""

    def rank_row(row: Row) -> tuple[object, ...]:
        return row.label.overrides, row.label.variant != BASELINE, row.label.variant

    by_label = {row.label: row for row in sorted(rows, key=rank_row)}
    seeds_by_label: dict[Label, Sequence[int]] = {}
    problems: dict[Label, str] = {}
    for label, row in by_label.items():
        if label.variant == BASELINE:
            continue
        seeds, problem = _find_shared_seeds(row, by_label.get(_find_base(label)))
        if problem:
            problems[label] = problem
        else:
            seeds_by_label[label] = seeds

    averaged = _list_averaged_tasks(by_label, seeds_by_label, metric)
    mean = "".join(averaged)
    if len(averaged) > 1:
        mean = f"{len(averaged)} tasks, pooled"
        by_label = {
            label: _add_pooled_task(row, mean, averaged, metric) for label, row in by_label.items()
        }

    gains: dict[tuple[Label, str, str], Cell] = {}
    for label, seeds in seeds_by_label.items():
        base = by_label[_find_base(label)]
        for (part, task), gain in _compute_seen_gains(by_label[label], base, seeds, metric):
            gains[label, part, task] = gain
    key = anchor(f"seen {' '.join(place)}")
    return SeenTable(key, *place, metric, tuple(by_label.values()), gains, problems, averaged, mean)


def _find_base(label: Label) -> Label:
    return label._replace(variant=BASELINE)


def _list_averaged_tasks(
    by_label: Mapping[Label, Row], seeds_by_label: Mapping[Label, Sequence[int]], metric: Metric
) -> tuple[str, ...]:
    """The tasks in which all compared rows, and what they are compared with, have scores on both
    parts in all shared seeds.
    """
    if not seeds_by_label:
        return ()
    averaged = _list_tasks(by_label.values())
    for label, seeds in seeds_by_label.items():
        for row in (by_label[label], by_label[_find_base(label)]):
            averaged = [task for task in averaged if _has_both(row, task, metric, seeds)]
    return tuple(averaged)


def _list_tasks(rows: Iterable[Row]) -> list[str]:
    """The tasks with a number of seen or unseen pairs, without the suite's average."""
    tasks: dict[str, None] = {}
    for row in rows:
        tasks |= dict.fromkeys(column.task for _, column in row.parts if column.metric == PAIRS)
    return [task for task in tasks if task != AVERAGE]


def _find_shared_seeds(row: Row, base: Row | None) -> tuple[Sequence[int], str]:
    """The seeds in which a row is compared with the baseline, and why there are none."""
    name = name_of(BASELINE)
    if base is None:
        return (), f"no matching run of {name}"
    if base.protocol != row.protocol:
        return (), f"{name} was evaluated with another version or other data of the suite"
    common_seeds = sorted(set(row.seeds) & set(base.seeds))
    if not common_seeds:
        return (), f"no seed in common with {name}"

    pairs = _count_seen_pairs(row)
    base_pairs = _count_seen_pairs(base)
    seeds = []
    for seed in common_seeds:
        difference = abs(pairs[seed] - base_pairs[seed])
        if difference <= SHARE * max(pairs[seed], base_pairs[seed]):
            seeds.append(seed)
    if not seeds:
        return (), f"the numbers of seen pairs differ from those of {name} by more than {SHARE:.0%}"
    return seeds, ""


def _count_seen_pairs(row: Row) -> Counter[int]:
    """The number of seen pairs in all tasks together, by seed."""
    pairs = Counter[int]()
    for (part, column), cell in row.parts.items():
        if part == SEEN and column.metric == PAIRS and column.task != AVERAGE:
            pairs.update(cell.by_seed)
    return pairs


def _has_both(row: Row, task: str, metric: Metric, seeds: Sequence[int]) -> bool:
    """Whether a row has scores on both parts of a task for all seeds."""
    for part in (SEEN, UNSEEN):
        cell = row.cell(Column(task, metric.name), part)
        if cell is None or not set(seeds) <= set(cell.seeds):
            return False
    return True


def _add_pooled_task(row: Row, name: str, tasks: Sequence[str], metric: Metric) -> Row:
    """A row with a task more, which pools the pairs of `tasks`; its score is their mean, weighted
    by pairs.

    It has only the seeds with a score in all of these tasks.
    """
    parts = {**row.parts}
    for part in (SEEN, UNSEEN):
        scores = list(filter(None, (row.cell(Column(task, metric.name), part) for task in tasks)))
        counts = list(filter(None, (row.cell(Column(task, PAIRS), part) for task in tasks)))
        if len(scores) < len(tasks) or len(counts) < len(tasks):
            continue

        pairs: dict[int, float] = {}
        means: dict[int, float] = {}
        for seed in counts[0].by_seed:
            if all(seed in cell.by_seed for cell in scores):
                numbers = [cell.by_seed[seed] for cell in counts]
                values = [cell.by_seed[seed] for cell in scores]
                pairs[seed] = sum(numbers)
                means[seed] = sum(map(mul, numbers, values)) / pairs[seed]
        if pairs:
            caveats = join_caveats(cell.caveats for cell in scores)
            parts[part, Column(name, PAIRS)] = Cell.of(pairs)
            parts[part, Column(name, metric.name)] = Cell.of(means, caveats)
    return replace(row, parts=parts)


def _compute_seen_gains(
    row: Row, base: Row, seeds: Sequence[int], metric: Metric
) -> Iterator[tuple[tuple[str, str], Cell]]:
    """The differences by seed between a row and the baseline, by part and task."""
    for (part, column), cell in row.parts.items():
        base_cell = base.parts.get((part, column))
        if column.metric != metric.name or base_cell is None:
            continue

        scores: list[float] = []
        base_scores: list[float] = []
        gains: dict[int, float] = {}
        for seed in seeds:
            if seed in cell.by_seed and seed in base_cell.by_seed:
                scores.append(cell.by_seed[seed])
                base_scores.append(base_cell.by_seed[seed])
                gains[seed] = scores[-1] - base_scores[-1]

        if gains:
            test = paired_t_test(scores, base_scores)
            yield (part, column.task), Cell.of(gains).attach_test(test)


def make_seen_grid(table: SeenTable) -> Grid:
    """Format a table of scores by what training has seen, task by task."""
    sections = []
    for task in table.tasks:
        title = "Avg, all tasks" if task == AVERAGE else task
        sections.append(Section(title, tuple(_list_seen_lines(table, task))))
    columns = ("pairs", "score", f"gain over {name_of(BASELINE)}")
    groups = ["seen pairs"] * len(columns) + ["unseen pairs"] * len(columns)
    return Grid(
        key=table.key,
        title=table.title,
        heads=("variant", "seeds"),
        columns=columns * 2,
        sections=tuple(sections),
        notes=tuple(table.notes()),
        groups=tuple(groups),
        legend=tuple(table.legend()),
        paper_title=table.paper_title,
    )


def _list_seen_lines(table: SeenTable, task: str) -> Iterator[Line]:
    """The lines of a task: one for each row with pairs of either kind."""
    for row in table.rows:
        if table.pairs(row, SEEN, task) or table.pairs(row, UNSEEN, task):
            seen = _format_part(table, row, SEEN, task)
            unseen = _format_part(table, row, UNSEEN, task)
            heads = (row.label.name, format_seeds(len(row.seeds), row.freshness.mark))
            is_base = row.label.variant == BASELINE
            yield Line(heads, seen + unseen, "baseline" if is_base else "plain")


def _format_part(table: SeenTable, row: Row, part: str, task: str) -> tuple[CellText, ...]:
    """Pairs, the score and the gain."""
    pairs = table.pairs(row, part, task)
    if pairs is None:
        return (CellText(ABSENT),) * 3

    digits = table.metric.digits
    seeds = len(row.seeds)
    gains = table.gains.get((row.label, part, task))
    gain = format_cell(gains, digits, seeds)
    if gains:
        gain = CellText(signed(gains.summary.mean, digits), gain.spread, extra=gain.extra)
    score = format_cell(table.scores(row, part, task), digits, seeds)
    return _format_pairs(pairs.summary), score, gain


@lru_cache(maxsize=1000)  # many rows have equal numbers of pairs
def _format_pairs(pairs: Summary) -> CellText:
    """A number of pairs, with its deviation if it differs between seeds."""
    deviation = fixed(pairs.std, 0) if pairs.std else ""
    return CellText(fixed(pairs.mean, 0), deviation)


def draw_seen_figures(table: SeenTable) -> list[ReportFigure]:
    """A figure of the gains over the tasks that all compared rows have, if there are any."""
    compared = [row for row in table.rows if (row.label, SEEN, table.mean) in table.gains]
    if not compared:
        return []

    place = f"{table.setting} / {table.encoder}"
    title = f"Gain over {name_of(BASELINE)} on seen and unseen pairs, {place}"
    text = (
        f"{', '.join(table.averaged)}, weighted by pairs. Bars are {1 - ALPHA:.0%} intervals (t) of the gain by seed; "
        "one seed has none."
    )
    if table.fewest_seen(table.mean) < FEWEST_PAIRS:
        text += f" Fewer than {FEWEST_PAIRS} pairs are seen: the gain on them says nothing."

    picture = look.draw_picture(title, _make_seen_spec(table, compared))
    return [ReportFigure(f"gains-{table.key}", "", table.profile, title, text, picture)]


def _make_seen_spec(table: SeenTable, compared: Sequence[Row]) -> look.ChartSpec:
    """The mean gains with their intervals, seen above unseen pairs in each row."""
    name_of_part = {SEEN: "seen pairs", UNSEEN: "unseen pairs"}
    values = []
    summaries = []
    for at, row in enumerate(compared):
        for part, name in name_of_part.items():
            cell = table.gains[row.label, part, table.mean]
            summaries.append(cell.summary)
            values.append({"i": at, "series": name, **_make_gain_fields(table, row, part, cell)})

    title = f"gain over {name_of(BASELINE)}, {table.metric.title} ({look.count_seeds(summaries)})"
    names = list(name_of_part.values())
    by = look.encode_series(look.choose_looks(names))
    y, height, params = look.encode_names([row.label.name.text for row in compared])
    offset = look.encode_nominal("series", sort=None, scale={"domain": names})
    x = look.encode_axis("x", title)
    points = {"x": x, "shape": by["shape"]}
    gains = {
        **look.make_data(values),
        "encoding": {"y": y, "yOffset": offset, "color": by["color"]},
        "layer": [
            look.make_layer("rule", look.encode_interval("x", x)),
            look.make_layer("point", points, filled=True, size=30, opacity=1),
        ],
    }
    zero = look.draw_line({"x": {"datum": 0}}, color=look.BLACK)
    panel = {
        "height": max(height, 20 * len(compared)) + 50,
        "params": params,
        "layer": [zero, gains],
    }
    return look.join_panels([panel])


def _make_gain_fields(table: SeenTable, row: Row, part: str, gains: Cell) -> dict[str, object]:
    """A mean gain with its interval, and what it is of."""
    mean = gains.summary.mean
    ends = gains.test or Interval(mean, mean, 1 - ALPHA)
    return {
        "x": mean,
        "lo": ends.low,
        "hi": ends.high,
        "n": gains.summary.n,
        **row.label._asdict(),
        "suite": table.suite,
        "task": table.mean,
        "metric": table.metric.name,
        "part": part,
        "against": BASELINE,
    }
