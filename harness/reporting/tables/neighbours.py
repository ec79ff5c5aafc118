"""The papers' tables of nearest sentences, from the arrays of runs: the models side by side, query by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.formatting import fixed
from harness.metrics import ArrayName
from harness.papers.needed import Names
from harness.papers.published import Paper
from harness.papers.schema import Neighbours, pairs_of
from harness.profiles.schema import Profile
from harness.reporting.figures.runs import Arrays
from harness.reporting.formats import ABSENT, CellText
from harness.reporting.seeds.summary import Label, kept_groups
from harness.reporting.tables.cells import PROFILE
from harness.reporting.tables.grids import Grid, Line, Section
from harness.spec import Place
from harness.store.arrays import NamedArrays

if TYPE_CHECKING:
    import pandas

#: decimals of a cosine
DIGITS = 4


@dataclass(frozen=True)
class Answers:
    """What one model found: n queries, their k nearest sentences, (n, k), and the cosines."""

    queries: tuple[str, ...]
    sentences: np.ndarray
    cosines: np.ndarray


def neighbour_grids(
    papers: Sequence[Paper],
    results: Sequence[Any],
    frame: pandas.DataFrame,
    arrays: Arrays,
    profiles: Sequence[Profile] = (),
) -> dict[str, list[Grid]]:
    """The tables of nearest sentences by paper: those of profile `paper`, filled or empty, and their shapes.

    `results` are the store's, `frame` is made of them and `arrays` is `Store.arrays`. The shape of a table is shown for
    each of the `profiles` with stand-ins where all its models have answers. Runs with `--set` are left out.
    """
    found: dict[str, list[Grid]] = {}
    names = {PROFILE: Names()}
    names |= {one.name: Names.of(one) for one in profiles if one.stands_for is not None and one.name != PROFILE}
    plain = frame[frame["overrides"] == ""]
    finders = [_Finder(one, names[one], results, plain[plain["profile"] == one], arrays) for one in names]
    for paper in papers:
        for name, entry in paper.neighbours.items():
            grids = [_grid(paper, name, entry, finder) for finder in finders]
            found.setdefault(paper.name, []).extend(one for one in grids if one is not None)
    return found


@dataclass(frozen=True)
class _Finder:
    """Looks up what the models of one profile found; `frame` has the lines of its runs alone."""

    profile: str
    names: Names
    results: Sequence[Any]
    frame: pandas.DataFrame
    arrays: Arrays

    def answers(self, entry: Neighbours) -> tuple[int | None, dict[Place, Answers | None]]:
        """The models' answers to the same queries, None where there are none, and the seed that they are of.

        The seed is the lowest of those that most models have.
        """
        found = {place: self._by_seed(place, entry) for place in self._places(entry)}
        seeds = sorted({seed for runs in found.values() for seed in runs})
        if not seeds:
            return None, dict.fromkeys(found)
        seed = max(seeds, key=lambda one: (sum(one in runs for runs in found.values()), -one))
        mine = {place: self._read(runs.get(seed), entry) for place, runs in found.items()}
        queries = next((one.queries for one in mine.values() if one), ())
        same = {place: one if one and one.queries == queries else None for place, one in mine.items()}
        return seed if queries else None, same

    def _places(self, entry: Neighbours) -> list[Place]:
        places = (self.names.place(*pair, encoder) for encoder in entry.encoders for pair in pairs_of(entry))
        return list(dict.fromkeys(place for place in places if place))

    def _by_seed(self, place: Place, entry: Neighbours) -> dict[int, Any]:
        mine = self.frame["suite"] == entry.suite
        for name, value in place._asdict().items():
            mine &= self.frame[name] == value
        kept = kept_groups(self.frame[mine]).get(Label(self.profile, *place, ""))
        if kept is None:
            return {}
        runs = [one for one in self.results if (one.profile, one.group) == (self.profile, kept.group)]
        return {one.spec.seed: one for one in runs if one.latest(entry.suite)}

    def _read(self, result: Any, entry: Neighbours) -> Answers | None:
        """A result's answers of the table's task; on other data of the first task that has some."""
        arrays: NamedArrays = {} if result is None else self.arrays(result)
        tasks = [name.task for name in arrays if name.what == "neighbours"]
        task = next((one for one in tasks if one == entry.task or self.profile != PROFILE), None)
        if task is None:
            return None
        parts = [arrays[ArrayName(task, what)] for what in ("queries", "neighbours", "neighbour_cosines")]
        queries, sentences, cosines = (part[: entry.queries] for part in parts)
        return Answers(tuple(map(str, queries)), sentences[:, : entry.top], cosines[:, : entry.top])


def _grid(paper: Paper, name: str, entry: Neighbours, finder: _Finder) -> Grid | None:
    """A table; None for a shape that is not whole."""
    seed, answers = finder.answers(entry)
    is_paper, whole = finder.profile == PROFILE, bool(answers) and all(answers.values())
    if not is_paper and not (whole and len(answers) > 1):
        return None
    title = f"{paper.short or paper.name} {name}"
    title = title if is_paper else f"The shape of {title} on profile {finder.profile}"
    models = [f"{place.variant} / {place.setting}" for place in answers]
    return Grid(
        f"{paper.name}-{name}" + ("" if is_paper else f"-{finder.profile}"),
        f"{title}: {entry.title}",
        ("rank", *models),
        tuple(f"cosine, {model}" for model in models),
        (False,) * len(models),
        _sections(list(answers.values()), entry.top),
        tuple(_notes(paper, name, entry, finder.profile, seed)),
        () if whole else (f"harness run --table {paper.name}:{name}",),
        "" if seed is not None else f"no run of profile {finder.profile} yet",
    )


def _sections(answers: Sequence[Answers | None], top: int) -> tuple[Section, ...]:
    queries = next((one.queries for one in answers if one), ())
    return tuple(
        Section(query, tuple(_line(answers, at, rank) for rank in range(top))) for at, query in enumerate(queries)
    )


def _line(answers: Sequence[Answers | None], at: int, rank: int) -> Line:
    there = [one if one and rank < one.sentences.shape[1] else None for one in answers]
    heads = [str(one.sentences[at, rank]) if one else ABSENT for one in there]
    cells = [CellText(fixed(float(one.cosines[at, rank]), DIGITS) if one else ABSENT) for one in there]
    return Line((str(rank + 1), *heads), tuple(cells), "sentences")


def _notes(paper: Paper, name: str, entry: Neighbours, profile: str, seed: int | None) -> list[str]:
    queries = "The paper's queries are not among the published numbers: these are drawn, the same for every run"
    if profile != PROFILE:
        which = f"Runs of profile {profile}, seed {seed}; not the paper's data, and nothing here is the paper's."
        return [which, f"{queries}. A query is never its own neighbour."]
    notes = [
        f"{queries}, from the captions of {entry.task} that the suite {entry.suite} reads; these are the pool too "
        f"(the paper's: {entry.pool}; {paper.title}, table {name.removeprefix('T')}). A query is never its own "
        "neighbour."
    ]
    notes += [f"Runs of profile {PROFILE}, seed {seed}."] if seed is not None else []
    return notes + ([entry.note] if entry.note else [])
