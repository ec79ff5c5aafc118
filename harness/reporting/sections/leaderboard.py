"""The leaderboard that a report begins with: the methods of each profile, setting, encoder and
metric, best first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from harness.commands import Commands
from harness.formatting import interval_text, signed
from harness.method.naming import name_of
from harness.metrics import AVERAGE, Column, Score, Significance
from harness.papers.published import PAPER_PROFILE
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
from harness.reporting.sections.runs import sort_runs
from harness.reporting.seeds.cells import Row, is_ahead
from harness.reporting.seeds.comparison import Comparison
from harness.reporting.seeds.gains import (
    Forest,
    Gain,
    compare_against,
    make_headline,
    rank_importance,
    select_methods,
)
from harness.reporting.seeds.spent import BUDGET, MINUTES
from harness.reporting.seeds.wording import Sentence, name_suite
from harness.reporting.tables.grids import ABSENT, CellText, format_cell, format_summary
from harness.stats import FEWEST_SEEDS


def draw_costs(forest: Forest, key: str, what: str, rows: Sequence[tuple[Gain, float]]) -> Plot:
    """A named point for each row with what its trainings spent, such as minutes."""
    metric = forest.metric
    values = [
        {
            "name": gain.name.text,
            "x": spent,
            "y": gain.cell.summary.mean,
            "score": str(format_summary(gain.cell.summary, metric.digits)),
        }
        for gain, spent in rows
    ]
    kind = "s" if max(spent for _, spent in rows) >= 1e4 else "g"  # such as 1.2T
    x = encode_quantity(
        "x", f"{what}, median over seeds", axis={"tickCount": 5, "format": f"~{kind}"}
    )
    y = encode_quantity("y", metric.title, scale={"zero": False})
    lines = make_tooltip(
        ("name", "method"), ("score", "mean ± deviation"), ("x", what, f".3~{kind}")
    )
    spec: ChartSpec = {
        **make_data(values, DIGITS),
        "height": 220,
        "description": f"{metric.title} against {what}, {forest.place}",
        "encoding": {"x": x, "y": y},
        "layer": [
            make_layer("point", {"tooltip": lines}, filled=True, size=70, color=INK),
            make_layer(
                "text",
                {"text": encode_nominal("name")},
                align="center",
                dy=-10,
                color=INK,
                fontSize=12,
            ),
        ],
    }
    return Plot(
        f"cost-{key}-{what}",
        f"Score against {what}",
        spec,
        unscripted="report.csv has the numbers.",
    )


#: the suite whose leaderboards come first, and the profile whose come last
FIRST_SUITE = "sts"
TOY_PROFILE = "tiny"
#: longest reference, in characters, shown as a method's source if it names no authors and year
LONGEST_SOURCE = 40
#: what rows spent that a leaderboard shows at first; a reader chooses the rest
SHOWN_BUDGET = (BUDGET["steps"], MINUTES)
#: rows of a leaderboard that can be compared with each other; its script says so of others
MOST_COMPARED = 40


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
    """The leaderboard of a profile, setting, encoder and metric. `pages` are the stems of pages of
    runs.
    """

    forest: Forest
    commands: Commands
    pages: Mapping[int, str]

    @cached_property
    def key(self) -> str:
        """Its id on the page."""
        table = self.forest.table
        column = self.forest.column
        return anchor(f"board-{table.profile}-{table.suite}-{column.metric}-{self.forest.place}")

    @property
    def choice(self) -> Mapping[str, str]:
        """What a reader chooses it by, with its id and the file that a page loads it from."""
        return {
            "id": self.key,
            "file": f"boards/{self.key}.js",
            "profile": self.forest.table.profile,
            "setting": self.forest.block.setting,
            "encoder": self.forest.block.encoder,
            "metric": self.metric,
        }

    @cached_property
    def metric(self) -> str:
        table = self.forest.table
        return f"{name_suite(table.suite)}, {table.title(self.forest.column)}"

    @cached_property
    def sentences(self) -> Sequence[Sentence]:
        return make_headline(self.forest, self.commands)

    @cached_property
    def entries(self) -> Sequence[BoardRow]:
        """The rows, best first. Readings of a method with equal scores are one."""
        by_method: dict[object, list[Gain]] = {}
        for gain in self.forest.gains:
            by_method.setdefault((gain.row.label.method, gain.row.data), []).append(gain)
        digits = self.forest.metric.digits
        entries = []
        for number, same in enumerate(by_method.values()):
            first, *others = sorted(same, key=lambda gain: not gain.row.is_method)
            score = format_cell(first.cell, digits, len(first.row.seeds))
            entries.append(BoardRow(number, first, score, [_name_reading(rest) for rest in others]))
        return entries

    shown_budget = SHOWN_BUDGET

    @property
    def names_readings(self) -> bool:
        """Whether a row is named by a reading of its method, which a note then explains."""
        return any("@" in name for entry in self.entries for name in entry.also)

    @property
    def budget(self) -> Sequence[str]:
        """The columns of what its rows spent."""
        return [
            *dict.fromkeys(name for entry in self.entries for name in entry.gain.row.spent.texts())
        ]

    @cached_property
    def leaders(self) -> Sequence[Gain]:
        """The rows that stand for methods, best first."""
        return select_methods(self.forest)

    @cached_property
    def methods(self) -> Sequence[Sequence[BoardRow]]:
        """The rows of each method, best method first: its own row, then those of its variants."""
        of_method: dict[str, list[BoardRow]] = {}
        for entry in self.entries:
            of_method.setdefault(entry.gain.row.label.method, []).append(entry)
        for entries in of_method.values():
            like_trained = (
                each
                for each in entries
                if each.gain in self.leaders or each.gain.kind == "untrained"
            )
            own = next(like_trained, entries[0])
            entries.sort(key=lambda entry: entry is not own)
        return sorted(of_method.values(), key=lambda entries: -entries[0].gain.size)

    def rank(self, gain: Gain) -> str:
        """One more than the number of significantly better methods; ABSENT with too few seeds or
        without training.
        """
        if gain not in self.leaders or gain.cell.summary.n < FEWEST_SEEDS:
            return ABSENT
        conclusions = [self.forest.conclude(leader.row, gain.row) for leader in self.leaders]
        return str(1 + sum(one.verdict is Significance.BETTER for one in conclusions))

    @cached_property
    def tasks(self) -> Sequence[Column]:
        """The columns of its metric, without the average."""
        columns = self.forest.table.columns
        metric = self.forest.column.metric
        return [column for column in columns if column.task != AVERAGE and column.metric == metric]

    @cached_property
    def wins(self) -> Mapping[str, Sequence[int]]:
        """On how many tasks each method has a better mean than each other; none for fewer than two
        methods or tasks.
        """
        rows = [gain.row for gain in self.leaders]
        metric = self.forest.metric
        if len(rows) < 2 or len(self.tasks) < 2:
            return {}

        def wins(first: Row, second: Row) -> int:
            both = (task for task in self.tasks if task in first.cells and task in second.cells)
            return sum(
                is_ahead(first.cells[task].summary.mean, second.cells[task].summary.mean, metric)
                for task in both
            )

        return {first.label.name.text: [wins(first, second) for second in rows] for first in rows}

    @cached_property
    def costs(self) -> Mapping[str, Plot]:
        """Scores against each budget in words; none for fewer than two methods with a value."""
        plots = {}
        for what in {
            name: None for entry in self.entries for name in entry.gain.row.spent.numbers()
        }:
            spent = ((gain, gain.row.spent.numbers().get(what, 0.0)) for gain in self.leaders)
            if len(rows := [(gain, number) for gain, number in spent if number > 0]) > 1:
                plots[what] = draw_costs(self.forest, self.key, what, rows)
        return plots

    @cached_property
    def data(self) -> Mapping[str, object]:
        """What the page's script shows on request: gains over other baselines, and pairs of rows."""
        forest = self.forest
        entries = self.entries
        rows = [
            {
                "name": entry.gain.name.text,
                "code": entry.gain.name.code,
                "pages": [self.pages[run] for run in entry.gain.row.runs if run in self.pages],
                "seeds": entry.gain.row.seeds,
                "scores": {
                    forest.table.title(column): [round(value, 4) for value in cell.values]
                    for column, cell in entry.gain.row.cells.items()
                    if column.metric == forest.column.metric
                },
            }
            for entry in entries
        ]
        bases = dict.fromkeys(gain.row.label.variant for gain in self.leaders)
        return {
            "rows": rows,
            "column": forest.table.title(forest.column),
            "digits": forest.metric.digits,
            "base": name_of(forest.block.base).text if forest.base else "",
            "gains": {name_of(variant).text: self._gains(variant) for variant in bases},
            "pairs": {
                f"{a.number} {b.number}": self._pair(a, b)
                for a, b in combinations(entries[:MOST_COMPARED], 2)
            },
        }

    def words(self, entry: BoardRow) -> tuple[str, str]:
        """The gain of a row over the baseline, and what its test says."""
        return describe_gain(self.forest, entry.gain) if self.forest.base else (ABSENT, "")

    def _gains(self, base: str) -> Sequence[Sequence[object] | None]:
        """Each row's gain over a baseline, its interval and what its test says."""
        forest = self.forest
        if base != forest.block.base:
            forest = compare_against(forest, base)
        by_label = {gain.row.label: gain for gain in forest.gains} if forest.base else {}
        gains = [by_label.get(entry.gain.row.label) for entry in self.entries]
        return [
            [
                *(round(x, 6) for x in (gain.size, gain.low, gain.high)),
                *describe_gain(forest, gain),
            ]
            if gain
            else None
            for gain in gains
        ]

    def _pair(self, a: BoardRow, b: BoardRow) -> Sequence[object]:
        """The conclusion on two rows, and each test that could be made: name, p-value or bound."""
        score = Score(self.forest.table.suite, *self.forest.column)
        pair = Comparison(self.forest.conclude(a.gain.row, b.gain.row), score)
        if pair.one_sample or min(cell.summary.n for cell in pair.cells) < FEWEST_SEEDS:
            return [pair.conclusion(), []]
        return [
            pair.conclusion(),
            [[name, p or interval or value] for name, value, interval, p in pair.rows()],
        ]


def describe_gain(forest: Forest, gain: Gain) -> tuple[str, str]:
    """A gain with its interval, and what its conclusion says."""
    if gain.kind == "baseline":
        return "baseline", ""
    digits = forest.metric.digits
    ends = f" ({interval_text(gain.low, gain.high, digits)})" if gain.low < gain.high else ""
    test = gain.kind if not gain.row.is_trained else forest.words(gain)
    return f"{signed(gain.size, digits)}{ends}", test


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
    match = re.match(r"(?P<who>[^,]{1,40}),.*\b(?P<year>(?:19|20)\d\d)\b", paper)
    return f"{match['who']} {match['year']}" if match else paper * (len(paper) <= LONGEST_SOURCE)


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
        counts = Counter(contents.frames.texts("profile"))

        def order(forest: Forest) -> tuple[object, ...]:
            profile = forest.table.profile
            suite = forest.table.suite
            first = profile != PAPER_PROFILE, profile == TOY_PROFILE, -counts[profile], profile
            return (
                *first,
                suite != FIRST_SUITE,
                forest.table.averages.index(forest.column) > 0,
                *rank_importance(forest),
            )

        ordered = sorted(contents.forests, key=order)
        return [Board(forest, contents.commands, pages) for forest in ordered]

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
        return [sentence for board in self.boards for sentence in board.sentences]

    def write(self, pages: Pages) -> None:
        """Write the file of each leaderboard but the first."""
        for board in self.boards[1:]:
            pages.write_fragment("board.html", board.choice["file"], section=self, board=board)
