"""The first page of a report: which method is best in one setting with one encoder, by how much,
whether to believe it, what to run next, and the words for a paper. One page a question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.commands import Commands
from harness.metrics import SEEN, UNSEEN
from harness.papers.citing import Used, make_bibtex
from harness.reporting import look
from harness.reporting.charts.standings import draw_standings
from harness.reporting.contents import Contents
from harness.reporting.figures.drawn import ReportFigure
from harness.reporting.pages import Pages, make_slugs
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.checks import PAIRS, TrustCheck, list_checks
from harness.reporting.seeds.choose import group_rows
from harness.reporting.seeds.citable import describe_result, make_results_grid
from harness.reporting.seeds.gains import Forest, rank_importance
from harness.reporting.seeds.next_run import NextRun, find_next_run
from harness.reporting.seeds.question import (
    Answer,
    Question,
    pick_first_forests,
    rank_suite,
)
from harness.reporting.seeds.standings import Standings, make_standings
from harness.reporting.tables.grids import Grid
from harness.spec import UNTRAINED

#: answers in which the best mean says nothing for its method
_REFUTED = (Answer.CONFOUNDED, Answer.OPEN)


@dataclass(frozen=True)
class QuestionPage:
    """A question with all that its page shows. `path` is that of its page below the report."""

    question: Question
    path: str
    key: str
    commands: Commands

    @property
    def tone(self) -> str:
        """Whether the answer is to be believed: good, bad or open."""
        if self.question.answer in _REFUTED:
            return "bad"
        return "good" if self.question.is_believed else "open"

    @cached_property
    def standings(self) -> Standings:
        return make_standings(self.question)

    @cached_property
    def plot(self) -> look.Plot:
        return draw_standings(self.question, self.standings, self.key)

    @cached_property
    def checks(self) -> Sequence[TrustCheck]:
        return list_checks(self.question)

    @cached_property
    def next_run(self) -> NextRun | None:
        return find_next_run(self.question, self.commands)

    @property
    def sentence(self) -> str:
        """The result as a paper says it."""
        return describe_result(self.question)

    @property
    def grid(self) -> Grid:
        """The table for a column of a paper."""
        return make_results_grid(self.question, self.standings, self.key)

    @property
    def bibtex(self) -> str:
        """The works of the methods, the encoder, the corpora and the suite."""
        forest = self.question.forest
        used = [Used("methods", gain.row.label.method) for gain in self.question.methods]
        used.append(Used("encoders", forest.block.encoder))
        corpora = forest.block.setting.partition("[")[0].split("+")
        used += [Used("corpora", name) for name in corpora]
        used.append(Used("suites", forest.table.suite))
        return make_bibtex(used)

    @cached_property
    def figure(self) -> ReportFigure:
        """The figure as files."""
        question = self.question
        plot = self.plot
        title = f"{question.title} {question.place}"
        picture = look.draw_picture(title, look.make_paper_spec(plot))
        profile = question.forest.table.profile
        return ReportFigure(self.key, "", profile, title, plot.text, picture)


def sort_forests(contents: Contents) -> list[Forest]:
    """All forests by their profile, their suite and metric, and how much they show."""

    def rank_forest(forest: Forest) -> tuple[object, ...]:
        profile = contents.rank_profile(forest.table.profile)
        return *profile, *rank_suite(forest), *rank_importance(forest)

    return sorted(contents.forests, key=rank_forest)


class QuestionsSection(ReportSection):
    """One page for each profile, setting and encoder; the first one is the first page of the report."""

    order = 50
    title = "Questions and answers"
    overview = "overview/questions.html"

    @property
    def is_shown(self) -> bool:
        return bool(self.pages)

    @cached_property
    def pages(self) -> Sequence[QuestionPage]:
        """The questions, each in its first suite and metric: the papers' profile first, then other
        real texts, then the toy world.
        """
        contents = self.contents
        parts = self._collect_parts()
        tuned = self._list_tuned()
        forests = pick_first_forests(sort_forests(contents))
        stems = make_slugs(f"{profile}-{place}" for profile, place in forests)

        pages: list[QuestionPage] = []
        for (profile, place), forest in forests.items():
            stem = stems[f"{profile}-{place}"]
            # the first question is answered on the first page of the report
            path = f"questions/{stem}.html" if pages else "index.html"
            question = Question(forest, tuned, parts.get(forest.table.suite, {}))
            pages.append(QuestionPage(question, path, f"answer-{stem}", contents.commands))
        return pages

    def _collect_parts(self) -> Mapping[str, Mapping[Label, Row]]:
        """The rows with scores on test pairs that training has seen and on the others, by suite."""
        frames = self.contents.frames
        shown_metrics = {PAIRS}.union(*self.contents.metrics.values())
        parts = frames.parts
        is_shown = parts["part"].isin((SEEN, UNSEEN)) & parts["metric"].isin(shown_metrics)

        by_suite: dict[str, dict[Label, Row]] = {}
        for label, rows in group_rows(frames, parts[is_shown]).items():
            if label.setting == UNTRAINED:
                continue
            for suite, row in rows.items():
                by_suite.setdefault(suite, {})[label] = row
        return by_suite

    def _list_tuned(self) -> frozenset[str]:
        """The variants that tunings picked."""
        names: set[str] = set()
        for report in self.contents.tuned:
            for line in report.lines:
                names.update(line.picks.values())
        return frozenset(names)

    @cached_property
    def figures(self) -> Sequence[ReportFigure]:
        return [page.figure for page in self.pages]

    def write(self, pages: Pages) -> None:
        """Write the page of each question."""
        for page in self.pages:
            pages.write("question.html", page.path, page=page, count=len(self.pages))
