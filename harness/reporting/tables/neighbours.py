"""The papers' tables of nearest sentences, from arrays of runs: the models side by side, query by query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.commands import DEFAULT_COMMANDS, Commands
from harness.formatting import fixed
from harness.method.naming import name_of
from harness.metrics import ArrayName
from harness.papers.published import PAPER_PROFILE, Paper
from harness.papers.schema import NeighbourTable, pairs_of
from harness.papers.standins import StandIns, TeacherOptions, teacher_options
from harness.profiles import Profile, load_profile
from harness.reporting.seeds.groups import Label, beside_print, kept_groups
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.reporting.tables.worded import no_run_yet, table_title
from harness.spec import Place
from harness.store import Result

if TYPE_CHECKING:
    import pandas

#: returns a result's arrays, like `Store.arrays`
ReadArrays = Callable[[Result], Mapping[ArrayName, np.ndarray]]
#: decimals of a cosine
DIGITS = 4


@dataclass(frozen=True)
class Answers:
    """The answers of one model: n queries, their k nearest sentences, (n, k), and the cosines, (n, k)."""

    queries: tuple[str, ...]
    sentences: np.ndarray
    cosines: np.ndarray


def neighbour_grids(
    papers: Sequence[Paper],
    results: Sequence[Result],
    frame: pandas.DataFrame,
    arrays: ReadArrays,
    profiles: Sequence[Profile] = (),
    options: TeacherOptions = teacher_options,
    commands: Commands = DEFAULT_COMMANDS,
) -> dict[str, list[Grid]]:
    """Word the tables of nearest sentences, by paper.

    `frame` has the scores of the `results`. The paper profile's tables may be empty; those of other `profiles` with
    stand-ins are shown if all their models have answers. Runs with overrides are left out.
    """
    names = StandIns.of(load_profile(PAPER_PROFILE), options)
    finders = [_Finder(PAPER_PROFILE, names, results, beside_print(frame), arrays)]
    finders += [
        _Finder(one.name, StandIns.of(one, options), results, frame[frame["profile"] == one.name], arrays)
        for one in profiles
        if one.stands_for is not None and one.name != PAPER_PROFILE
    ]
    found: dict[str, list[Grid]] = {}
    for paper in papers:
        for name, entry in paper.neighbours.items():
            grids = [_grid(paper, name, entry, finder, commands) for finder in finders]
            found.setdefault(paper.name, []).extend(grid for grid in grids if grid)
    return found


@dataclass(frozen=True)
class _Finder:
    """Looks up the answers of one profile's models; `frame` has the lines of its runs only."""

    profile: str
    names: StandIns
    results: Sequence[Result]
    frame: pandas.DataFrame
    arrays: ReadArrays

    @property
    def is_paper(self) -> bool:
        return self.profile == PAPER_PROFILE

    def answers(self, entry: NeighbourTable) -> tuple[int | None, dict[Place, Answers | None]]:
        """The seed shown, and each model's answers to the same queries, None where there are none.

        The seed is the lowest of those that most models have.
        """
        found = self._results(entry)
        seeds = sorted({seed for runs in found.values() for seed in runs})
        if not seeds:
            return None, dict.fromkeys(found)
        seed = max(seeds, key=lambda one: (sum(one in runs for runs in found.values()), -one))
        mine = {place: self._read(runs[seed], entry) if seed in runs else None for place, runs in found.items()}
        queries = next((one.queries for one in mine.values() if one), ())
        same = {place: one if one and one.queries == queries else None for place, one in mine.items()}
        return seed if queries else None, same

    def pool(self, entry: NeighbourTable) -> str:
        """The captions that runs searched, with their number where there are runs."""
        counts = self.frame[(self.frame["suite"] == entry.suite) & (self.frame["metric"] == "n_texts")]
        sizes = sorted({int(value) for value in counts[counts["task"] == entry.task]["value"]})
        number = "".join(f"{size:,} " for size in sizes[-1:])
        return f"the {number}captions of the test images of {entry.task}"

    def _results(self, entry: NeighbourTable) -> dict[Place, dict[int, Result]]:
        """The results of each model by seed."""
        groups = kept_groups(self.frame[self.frame["suite"] == entry.suite])
        runs = {one.fingerprint: one for one in self.results if one.profile == self.profile}
        found = {}
        for place in (self.names.place(*pair, encoder) for encoder in entry.encoders for pair in pairs_of(entry)):
            if place is not None:
                kept = groups.get((Label(self.profile, *place, ""), entry.suite))
                mine = [runs[fingerprint] for fingerprint in kept.lines["fingerprint"]] if kept else []
                found[place] = {one.spec.seed: one for one in mine}
        return found

    def _read(self, result: Result, entry: NeighbourTable) -> Answers | None:
        """A result's answers on the table's task; under other profiles on the first task that has any."""
        arrays = self.arrays(result)
        tasks = [name.task for name in arrays if name.what == "neighbours"]
        task = next((one for one in tasks if one == entry.task or not self.is_paper), None)
        if task is None:
            return None
        parts = (arrays[ArrayName(task, what)] for what in ("queries", "neighbours", "neighbour_cosines"))
        queries, sentences, cosines = (part[: entry.queries] for part in parts)
        return Answers(tuple(map(str, queries)), sentences[:, : entry.top], cosines[:, : entry.top])


def _grid(paper: Paper, name: str, entry: NeighbourTable, finder: _Finder, commands: Commands) -> Grid | None:
    """A table; None for a profile with stand-ins that does not fill it."""
    seed, answers = finder.answers(entry)
    full = bool(answers) and all(answers.values())
    if not finder.is_paper and not (full and len(answers) > 1):
        return None
    models = [f"{name_of(place.variant)} / {place.setting}" for place in answers]
    columns = list(answers.values())
    queries = next((one.queries for one in columns if one), ())
    return Grid(
        f"{paper.name}-{name}" + ("" if finder.is_paper else f"-{finder.profile}"),
        table_title(paper, name, entry.title, finder.profile),
        ("rank", *models),
        tuple(f"cosine, {model}" for model in models),
        (False,) * len(models),
        tuple(
            Section(query, tuple(_line(columns, at, rank) for rank in range(entry.top)))
            for at, query in enumerate(queries)
        ),
        tuple(_notes(paper, name, entry, finder, seed)),
        () if full else (commands.run(profile=finder.profile, table=f"{paper.name}:{name}"),),
        "" if seed is not None else no_run_yet(finder.profile),
    )


def _line(answers: Sequence[Answers | None], at: int, rank: int) -> Line:
    there = [one if one and rank < one.sentences.shape[1] else None for one in answers]
    heads = [str(one.sentences[at, rank]) if one else ABSENT for one in there]
    cells = [CellText(fixed(float(one.cosines[at, rank]), DIGITS) if one else ABSENT) for one in there]
    return Line((str(rank + 1), *heads), tuple(cells), "sentences")


def _notes(paper: Paper, name: str, entry: NeighbourTable, finder: _Finder, seed: int | None) -> list[str]:
    runs = f"Runs of profile {finder.profile}, seed {seed}."
    queries = "Queries are drawn at random, the same for every run, since the paper's are not known"
    if not finder.is_paper:
        return [f"Not comparable with the paper: other data. {runs}", f"{queries}. A query is not its own neighbour."]
    searched = f"Searched in the paper ({paper.title}, Table {name.removeprefix('T')}): {entry.pool}."
    mine = [f"{queries}. A query is not its own neighbour.", f"Searched here: {finder.pool(entry)}.", runs]
    return [*(mine if seed is not None else ()), searched, *filter(None, [entry.note])]
