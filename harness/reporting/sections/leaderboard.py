"""The leaderboard that a report begins with: the methods of each profile, setting, encoder and
metric, best first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from math import comb
from typing import NamedTuple

from harness.formatting import interval_text, signed
from harness.method.naming import name_of
from harness.metrics import Column, Score, Significance
from harness.reporting.charts.curves import make_run_spec
from harness.reporting.look import (
    DIGITS,
    INK,
    ChartSpec,
    Plot,
    encode_nominal,
    encode_quantity,
    make_data,
    make_layer,
    make_tooltip,
)
from harness.reporting.pages import Pages, anchor
from harness.reporting.sections.base import ReportSection
from harness.reporting.sections.questions import sort_forests
from harness.reporting.sections.runs import sort_runs
from harness.reporting.seeds.cells import Row, is_ahead
from harness.reporting.seeds.comparison import Comparison
from harness.reporting.seeds.gains import (
    Forest,
    Gain,
    compare_against,
    make_headline,
    select_methods,
)
from harness.reporting.seeds.spent import BUDGET, MINUTES
from harness.reporting.seeds.wording import Sentence, name_suite
from harness.reporting.tables.grids import ABSENT, CellText, format_cell, format_summary
from harness.stats import FEWEST_SEEDS


def draw_costs(forest: Forest, key: str, budget: str, spent: Sequence[tuple[Gain, float]]) -> Plot:
    """A named point for each row with what its trainings `spent` of a budget, such as minutes."""
    metric = forest.metric
    values = []
    for gain, number in spent:
        summary = gain.cell.summary
        score = str(format_summary(summary, metric.digits))
        values.append({"name": gain.name.text, "x": number, "y": summary.mean, "score": score})

    # large numbers have a letter, such as 1.2T
    kind = "s" if max(number for _, number in spent) >= 1e4 else "g"
    ticks = {"tickCount": 5, "format": f"~{kind}"}
    tooltip = make_tooltip(
        ("name", "method"), ("score", "mean ± deviation"), ("x", budget, f".3~{kind}")
    )
    name = {"text": encode_nominal("name")}
    spec: ChartSpec = {
        **make_data(values, DIGITS),
        "height": 220,
        "description": f"{metric.title} against {budget}, {forest.place}",
        "encoding": {
            "x": encode_quantity("x", title=f"{budget}, median over seeds", axis=ticks),
            "y": encode_quantity("y", title=metric.title, scale={"zero": False}),
        },
        "layer": [
            make_layer("point", {"tooltip": tooltip}, filled=True, size=70, color=INK),
            make_layer("text", name, align="center", dy=-10, color=INK, fontSize=12),
        ],
    }
    title = f"Score against {budget}"
    return Plot(f"cost-{key}-{budget}", title, spec, unscripted="report.csv has the numbers.")


#: longest reference, in characters, shown as a method's source if it names no authors and year
LONGEST_SOURCE = 40
#: what rows spent that a leaderboard shows at first; a reader chooses the rest
SHOWN_BUDGET = (BUDGET["steps"], MINUTES)
#: rows of a leaderboard whose variants have gains over every baseline and that can be compared with
#: each other, and pairs of rows in all leaderboards; their script says so of others
MOST_COMPARED = 40
MOST_PAIRS = 4_000


class BoardRow(NamedTuple):
    """A row of a leaderboard: `number` is its place in the data, `also` are readings with equal
    scores.
    """

    number: int
    gain: Gain
    score: CellText
    also: Sequence[str]


@dataclass(frozen=True)
class Board:
    """The leaderboard of a profile, setting, encoder and metric. `sentences` are its findings,
    `pages` the stems of pages of runs that have one; its first `compared` rows can be compared with
    each other.
    """

    forest: Forest
    sentences: Sequence[Sentence]
    pages: Mapping[int, str]
    compared: int = MOST_COMPARED

    @cached_property
    def key(self) -> str:
        """Its id on the page."""
        table = self.forest.table
        metric = self.forest.column.metric
        return anchor(f"board-{table.profile}-{table.suite}-{metric}-{self.forest.place}")

    @property
    def choice(self) -> Mapping[str, str]:
        """What a reader chooses it by, with its id and the file that a page loads it from."""
        block = self.forest.block
        return {
            "id": self.key,
            "file": f"boards/{self.key}.js",
            "profile": self.forest.table.profile,
            "setting": block.setting,
            "encoder": block.encoder,
            "metric": self.metric,
        }

    @cached_property
    def metric(self) -> str:
        table = self.forest.table
        return f"{name_suite(table.suite)}, {table.title(self.forest.column)}"

    @cached_property
    def entries(self) -> Sequence[BoardRow]:
        """The rows, best first. Readings of a method with equal scores are one."""
        gains_by_data: dict[object, list[Gain]] = {}
        for gain in self.forest.gains:
            gains_by_data.setdefault((gain.row.label.method, gain.row.data), []).append(gain)

        digits = self.forest.metric.digits
        entries = []
        for number, gains in enumerate(gains_by_data.values()):
            first, *rest = sorted(gains, key=lambda gain: not gain.row.is_method)
            score = format_cell(first.cell, digits, len(first.row.seeds))
            entries.append(BoardRow(number, first, score, list(map(_name_reading, rest))))
        return entries

    shown_budget = SHOWN_BUDGET

    @property
    def names_readings(self) -> bool:
        """Whether a row is named by a reading of its method, which a note then explains."""
        names = chain.from_iterable(entry.also for entry in self.entries)
        return any("@" in name for name in names)

    @cached_property
    def budget(self) -> Sequence[str]:
        """The columns of what its rows spent."""
        columns: dict[str, None] = {}
        for entry in self.entries:
            columns |= dict.fromkeys(entry.gain.row.spent.texts())
        return [*columns]

    @cached_property
    def words(self) -> Mapping[int, tuple[str, str]]:
        """The gain of each row over the baseline, by its number, and what its test says."""
        if not self.forest.base:
            return {entry.number: (ABSENT, "") for entry in self.entries}
        return {entry.number: describe_gain(self.forest, entry.gain) for entry in self.entries}

    @cached_property
    def leaders(self) -> Sequence[Gain]:
        """The rows that stand for methods, best first."""
        return select_methods(self.forest)

    @cached_property
    def methods(self) -> Sequence[Sequence[BoardRow]]:
        """The rows of each method, best method first: its own row, then those of its variants."""
        by_method: dict[str, list[BoardRow]] = {}
        for entry in self.entries:
            by_method.setdefault(entry.gain.row.label.method, []).append(entry)

        methods = []
        for entries in by_method.values():
            own_row = next(filter(self._is_own, entries), entries[0])
            methods.append([own_row, *(entry for entry in entries if entry is not own_row)])
        return sorted(methods, key=lambda entries: -entries[0].gain.size)

    def _is_own(self, entry: BoardRow) -> bool:
        """Whether a row stands for its method."""
        return entry.gain in self.leaders or entry.gain.kind == "untrained"

    def _has_all_gains(self, entry: BoardRow) -> bool:
        """Whether a row has gains over every baseline: in a long table, not all variants have."""
        is_variant = entry.gain.row.is_trained and entry.gain not in self.leaders
        return entry.number < MOST_COMPARED or not is_variant

    def rank(self, gain: Gain) -> str:
        """One more than the number of significantly better methods; ABSENT with too few seeds or
        without training.
        """
        if gain not in self.leaders or gain.cell.summary.n < FEWEST_SEEDS:
            return ABSENT
        verdicts = [self.forest.conclude(leader.row, gain.row).verdict for leader in self.leaders]
        return str(1 + verdicts.count(Significance.BETTER))

    @cached_property
    def tasks(self) -> Sequence[Column]:
        """The columns of its metric, without the average."""
        return self.forest.table.list_tasks(self.forest.column.metric)

    @cached_property
    def wins(self) -> Mapping[str, Sequence[int]]:
        """On how many tasks each method has a better mean than each other; none for fewer than two
        methods or tasks.
        """
        rows = [gain.row for gain in self.leaders]
        if len(rows) < 2 or len(self.tasks) < 2:
            return {}

        wins = {}
        for row in rows:
            wins[row.label.name.text] = [self._count_wins(row, rival) for rival in rows]
        return wins

    def _count_wins(self, row: Row, other: Row) -> int:
        """The number of tasks in which a row has a better mean than another."""
        wins = 0
        for task in self.tasks:
            if task in row.cells and task in other.cells:
                mean = row.cells[task].summary.mean
                if is_ahead(mean, other.cells[task].summary.mean, self.forest.metric):
                    wins += 1
        return wins

    @cached_property
    def costs(self) -> Mapping[str, Plot]:
        """Scores against each budget in words; none for fewer than two methods with a value."""
        budgets: dict[str, None] = {}
        for entry in self.entries:
            budgets |= dict.fromkeys(entry.gain.row.spent.numbers())

        plots = {}
        for budget in budgets:
            numbers = [(gain, gain.row.spent.numbers().get(budget, 0.0)) for gain in self.leaders]
            spent = [(gain, number) for gain, number in numbers if number > 0]
            if len(spent) > 1:
                plots[budget] = draw_costs(self.forest, self.key, budget, spent)
        return plots

    @property
    def data(self) -> Mapping[str, object]:
        """What the page's script shows on request: gains over other baselines, and pairs of rows.

        It is large, and made anew at each use, since one page has it.
        """
        forest = self.forest
        variants = dict.fromkeys(leader.row.label.variant for leader in self.leaders)
        gains = {name_of(variant).text: self._list_gains(variant) for variant in variants}
        pairs = {}
        for a, b in combinations(self.entries[: self.compared], 2):
            pairs[f"{a.number} {b.number}"] = self._describe_pair(a, b)
        return {
            "rows": list(map(self._describe_row, self.entries)),
            "column": forest.table.title(forest.column),
            "digits": forest.metric.digits,
            "base": name_of(forest.block.base).text if forest.base else "",
            "gains": gains,
            "pairs": pairs,
        }

    def _describe_row(self, entry: BoardRow) -> Mapping[str, object]:
        """The names, pages, seeds and scores of a row, for the page's script."""
        row = entry.gain.row
        scores = {}
        for column, cell in row.cells.items():
            if column.metric == self.forest.column.metric:
                title = self.forest.table.title(column)
                scores[title] = [round(value, 4) for value in cell.values]

        # a mean over some of its seeds would pass for that of the row
        pages = [self.pages.get(run, "") for run in row.runs]
        return {
            "name": entry.gain.name.text,
            "code": entry.gain.name.code,
            "pages": pages if all(pages) else [],
            "seeds": row.seeds,
            "scores": scores,
        }

    def _list_gains(self, variant: str) -> Sequence[Sequence[object] | None]:
        """Each row's gain over a variant, its interval and what its test says; None where it has no
        score beside it, or is one of many variants.
        """
        if variant == self.forest.block.base:
            if not self.forest.base:
                return [None] * len(self.entries)
            return [_list_gain(entry.gain, self.words[entry.number]) for entry in self.entries]

        rows = [entry.gain.row for entry in self.entries if self._has_all_gains(entry)]
        forest = compare_against(self.forest, variant, rows)
        by_label = {gain.row.label: gain for gain in forest.gains} if forest.base else {}
        gains: list[Sequence[object] | None] = []
        for entry in self.entries:
            gain = by_label.get(entry.gain.row.label)
            gains.append(_list_gain(gain, describe_gain(forest, gain)) if gain else None)
        return gains

    def _describe_pair(self, a: BoardRow, b: BoardRow) -> Sequence[object]:
        """The conclusion on two rows, and each test that could be made: name, p-value or bound."""
        score = Score(self.forest.table.suite, *self.forest.column)
        pair = Comparison(self.forest.conclude(a.gain.row, b.gain.row), score)
        has_tests = min(cell.summary.n for cell in pair.cells) >= FEWEST_SEEDS
        tests = []
        if has_tests and not pair.one_sample:
            for name, value, interval, p in pair.rows():
                tests.append([name, p or interval or value])
        return [pair.conclusion(), tests]


def _list_gain(gain: Gain, words: tuple[str, str]) -> Sequence[object]:
    """A gain and its interval as numbers, and its `words`, for the page's script."""
    numbers = [round(number, 6) for number in (gain.size, gain.low, gain.high)]
    return [*numbers, *words]


def describe_gain(forest: Forest, gain: Gain) -> tuple[str, str]:
    """A gain with its interval, and what its conclusion says."""
    if gain.kind == "baseline":
        return "baseline", ""
    digits = forest.metric.digits
    size = signed(gain.size, digits)
    if gain.low < gain.high:
        size += f" ({interval_text(gain.low, gain.high, digits)})"
    return size, forest.words(gain) if gain.row.is_trained else gain.kind


def _name_reading(gain: Gain) -> str:
    """Such as `@official` if the variant is its method in that reading without other changes, else
    its name.
    """
    variant = gain.row.label.parsed
    if variant is None or variant.options or gain.row.label.overrides:
        return gain.name.text
    return f"@{variant.reading}"


def shorten_reference(paper: str) -> str:
    """The authors and the year of a reference; a text without these is kept if short, else empty."""
    # such as `Gao et al., SimCSE: ..., EMNLP 2021`
    match = re.match(r"(?P<who>[^,]{1,40}),.*\b(?P<year>(?:19|20)\d\d)\b", paper)
    if match:
        return f"{match['who']} {match['year']}"
    return paper if len(paper) <= LONGEST_SOURCE else ""


def count_compared_rows(rows_by_board: Sequence[int]) -> int:
    """How many rows of each leaderboard are compared: at most MOST_COMPARED, with at most MOST_PAIRS
    pairs in all.
    """
    for compared in range(MOST_COMPARED, 2, -1):
        if sum(comb(min(rows, compared), 2) for rows in rows_by_board) <= MOST_PAIRS:
            return compared
    return 2


class LeaderboardSection(ReportSection):
    """Which method leads where: the first leaderboard, and a choice of the others, which the page
    loads from files of their own.
    """

    order = 100
    title = "Leaderboard"
    overview = "overview/leaderboard.html"
    is_shown = True

    @cached_property
    def boards(self) -> Sequence[Board]:
        """The leaderboards: the papers' profile, then other real texts, then the toy world; STS
        before other suites.
        """
        contents = self.contents
        stems = sort_runs(contents.frames)["page"]
        pages = dict(zip(stems.index.tolist(), stems.tolist(), strict=True))
        forests = sort_forests(contents)
        compared = count_compared_rows([len(forest.gains) for forest in forests])
        return [
            Board(forest, make_headline(forest, contents.commands), pages, compared)
            for forest in forests
        ]

    @property
    def choices(self) -> Sequence[Mapping[str, str]]:
        """What a reader can choose from."""
        return [board.choice for board in self.boards]

    #: the specification of the curves of two rows, which the page's script fills
    curve = make_run_spec(2)

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, str]]:
        """The paper of each method, in short and in full."""
        return {
            facts.name: (shorten_reference(facts.paper), facts.paper)
            for facts in self.contents.methods
        }

    @property
    def sentences(self) -> Sequence[Sentence]:
        return list(chain.from_iterable(board.sentences for board in self.boards))

    def write(self, pages: Pages) -> None:
        """Write the file of each leaderboard but the first."""
        for board in self.boards[1:]:
            # a copy, with which all that it computes is dropped
            copied_board = replace(board)
            pages.write_fragment(
                "board.html", board.choice["file"], section=self, board=copied_board
            )
