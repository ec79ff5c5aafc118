"""Which runs a paper's tables and figures need, under the papers' own names or those that stand for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.errors import UserError
from harness.method import NO_TEACHER, method_named, split_teachers
from harness.metrics import Score
from harness.papers.published import Paper
from harness.papers.schema import FigureSpec, Neighbours, PaperColumn, PaperRow, PaperTable, pairs_of
from harness.profiles.schema import Profile, StandsFor
from harness.registry import suggest
from harness.spec import UNTRAINED, Place, RunSpec, Variant, parse_setting

#: run -> the suites that it is scored on
Runs = dict[RunSpec, tuple[str, ...]]


@dataclass(frozen=True)
class Names:
    """The papers' names as a profile has them: their own without `stands`, else its stand-ins, or None."""

    stands: StandsFor | None = None

    @classmethod
    def of(cls, profile: Profile) -> Names:
        """A profile's: its stand-ins where it has any, else the papers' own."""
        return cls(profile.stands_for)

    def place(self, variant: str, setting: str, encoder: str) -> Place | None:
        """Where a row's runs are."""
        if self.stands is None:
            return Place(variant, setting, encoder)
        mine, where, model = self._variant(variant), self._setting(setting), self.stands.encoders.get(encoder)
        return Place(mine, where, model) if mine and where and model else None

    def score(self, row: PaperRow, column: PaperColumn) -> Score | None:
        """Which number of a run fills a cell."""
        task = row.task or column.task
        mine = task if self.stands is None else self.stands.tasks.get(column.suite, {}).get(task)
        return None if mine is None or column.published_only else Score(column.suite, mine, column.metric)

    def suite(self, name: str) -> bool:
        """Whether a suite has a task here."""
        return self.stands is None or bool(self.stands.tasks.get(name))

    def _setting(self, text: str) -> str | None:
        if self.stands is None or text == UNTRAINED:
            return text
        setting = parse_setting(text)
        mine = self.stands.settings.get(text) or self.stands.settings.get(setting.name)
        return str(replace(setting, name=mine)) if mine and text not in self.stands.settings else mine

    def _variant(self, text: str) -> str | None:
        variant = Variant.parse(text)
        teachers = method_named(variant.name).Hyperparameters.teacher_options()
        options = {key: self._teachers(value) if key in teachers else value for key, value in variant.options}
        return None if None in options.values() else str(Variant.make(variant.name, options, variant.reading))

    def _teachers(self, value: str) -> str | None:
        known = self.stands.teachers if self.stands else {}
        names = [name if name in NO_TEACHER else known.get(name) for name in split_teachers(value)]
        return "+".join(str(name) for name in names) if all(names) else None


def table_runs(table: PaperTable, names: Names, seeds: Sequence[int] | None = None) -> Runs:
    """The runs of a table: of the rows that are its own, each with its seeds or those given.

    Seeds count from 0; what is not trained has seed 0 alone.
    """
    runs: Runs = {}
    for encoder in table.encoders:
        for _, row in table.rows_of(encoder):
            place = names.place(row.variant, row.setting, encoder) if row.planned else None
            scores = [names.score(row, column) for column in table.columns]
            if place is None or not any(scores):
                continue
            suites = tuple(name for name in table.suites if names.suite(name))
            _add(runs, _specs(place, row.seeds or table.seeds, seeds), suites)
    return runs


def entry_runs(entry: FigureSpec | Neighbours, names: Names, seeds: Sequence[int] | None = None) -> Runs:
    """The runs of a figure, or of a table of nearest sentences.

    The points of an alignment-uniformity plot are coloured by the average of `sts`.
    """
    asked = [entry.suite]
    if isinstance(entry, FigureSpec) and entry.kind == "alignment-uniformity":
        asked.append("sts")
    suites = tuple(name for name in asked if names.suite(name))
    runs: Runs = {}
    for encoder in entry.encoders:
        for variant, setting in pairs_of(entry):
            place = names.place(variant, setting, encoder)
            if place is not None:
                _add(runs, _specs(place, entry.seeds, seeds), suites)
    return runs


def paper_runs(paper: Paper, names: Names, seeds: Sequence[int] | None = None) -> dict[str, Runs]:
    """The runs of all tables and figures of a paper, by entry: `dalr:T3`, `dalr:F4`."""
    found = {f"{paper.name}:{name}": table_runs(table, names, seeds) for name, table in paper.tables.items()}
    others: dict[str, FigureSpec | Neighbours] = {**paper.neighbours, **paper.figures}
    return found | {f"{paper.name}:{name}": entry_runs(entry, names, seeds) for name, entry in others.items()}


def find_table(papers: Sequence[Paper], text: str) -> PaperTable | Neighbours:
    """A table by `PAPER:TABLE`. Raises UserError with the nearest names, or for one of hyperparameters."""
    paper, name = _found(papers, text, "table")
    if name in paper.configuration:
        raise UserError(f"--table {text} has nothing to run: {paper.configuration[name].title}; it is data already")
    return paper.tables[name] if name in paper.tables else paper.neighbours[name]


def find_figure(papers: Sequence[Paper], text: str) -> FigureSpec:
    """A figure by `PAPER:FIGURE`. Raises UserError with the nearest names."""
    paper, name = _found(papers, text, "figure")
    return paper.figures[name]


def find_paper(papers: Sequence[Paper], text: str) -> Paper:
    """A paper by its key. Raises UserError with the nearest names."""
    known = {paper.name: paper for paper in papers}
    if text not in known:
        raise UserError(f"--paper {text}: no such paper; {suggest(text, sorted(known))}")
    return known[text]


def merged(parts: Mapping[str, Runs]) -> Runs:
    """All runs once, each with the suites of every part."""
    runs: Runs = {}
    for part in parts.values():
        for spec, suites in part.items():
            _add(runs, [spec], suites)
    return runs


def _found(papers: Sequence[Paper], text: str, kind: str) -> tuple[Paper, str]:
    known = {f"{paper.name}:{name}": (paper, name) for paper in papers for name in _entries(paper, kind)}
    if text not in known:
        raise UserError(f"--{kind} {text}: no such {kind}; {suggest(text, list(known))}")
    return known[text]


def _entries(paper: Paper, kind: str) -> list[str]:
    if kind == "figure":
        return list(paper.figures)
    return [*paper.tables, *paper.configuration, *paper.neighbours]


def _specs(place: Place, count: int, seeds: Sequence[int] | None) -> Iterator[RunSpec]:
    variant, setting = Variant.parse(place.variant), parse_setting(place.setting)
    trained = place.setting != UNTRAINED
    for seed in (range(count) if seeds is None else seeds) if trained else (0,):
        yield RunSpec(variant, setting, place.encoder, seed)


def _add(runs: Runs, specs: Sequence[RunSpec] | Iterator[RunSpec], suites: Sequence[str]) -> None:
    for spec in specs:
        runs[spec] = tuple(dict.fromkeys((*runs.get(spec, ()), *suites)))
