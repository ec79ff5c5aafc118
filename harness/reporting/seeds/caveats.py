"""Weaknesses of a score itself, whatever it is compared with; they are reported wherever the score
is shown.

A caveat is a mark at the score: a collapsed model, weights selected on a test, other images than
those of other rows. The freshness of a
group of runs says how it relates to the present code, data and values, and to other runs of its
label.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from harness.formatting import count_of
from harness.metrics import AVERAGE, NEVER_READ
from harness.spec import UNTRAINED
from harness.store import PRESENT, UNKNOWN, Frames

COLLAPSED = "‡"
SELECTED = "§"
UNREAD = "¶"
GALLERY = "‖"
#: marks that are about seeds
OF_SEEDS = (COLLAPSED, UNREAD)
_WORDS = {
    COLLAPSED: "collapsed in {}, the vectors of positive pairs or of all sentences coincide",
    SELECTED: "selected on {}, which is tested here: score too high",
    UNREAD: "trained on pairs alone in {}: every step is paired, the text of the setting is never read",
    GALLERY: "ranked among {}, other rows among other images: not comparable with them",
}
#: a model has collapsed below these: mean squared distance of two sentences; that of positive pairs
#: as a share of it
SMALLEST_SPREAD = 0.02
CLOSEST_POSITIVES = 0.05


class Caveat(NamedTuple):
    """A mark at a score, and the seeds, tasks or galleries that it is about."""

    mark: str
    about: tuple[int, ...] | tuple[str, ...]

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.about))
        if self.mark in OF_SEEDS:
            listed = f"{'seed' if len(self.about) == 1 else 'seeds'} {listed}"
        return _WORDS[self.mark].format(listed)


@dataclass(frozen=True)
class GroupState:
    """The number of seeds of a group of runs, and its state, a value of the frame's column
    `present`.

    `hidden` are the seeds and states of the other groups with the same label, which are not shown.
    """

    seeds: int = 0
    state: str = UNKNOWN
    hidden: tuple[tuple[int, str], ...] = ()

    @property
    def is_stale(self) -> bool:
        """Whether code, data or values have changed since."""
        return self.state not in (PRESENT, UNKNOWN)

    @property
    def mark(self) -> str:
        """A word shown beside the number of seeds; empty if there is nothing to report."""
        if self.is_stale:
            return "stale"
        most_hidden = max((seeds for seeds, _ in self.hidden), default=0)
        return "incomplete" if self.seeds < most_hidden else ""

    def __str__(self) -> str:
        """The warning to show wherever the numbers are shown; empty if there is none."""
        parts = []
        if self.is_stale:
            parts.append(f"stale, changed since: {self.state}")
        if self.hidden and self.state == UNKNOWN:
            parts.append(
                "the newest of several groups of runs; which of them is the present one is not known"
            )
        elif self.mark == "incomplete":
            seeds = count_of(self.seeds, "seed")
            parts.append(f"incomplete, {seeds} with the present code, data and values")
        if self.hidden:
            hidden = [_describe_hidden_group(seeds, state) for seeds, state in self.hidden]
            parts.append(f"not shown: {' and '.join(hidden)}")
        return "; ".join(parts)


def _describe_hidden_group(seeds: int, state: str) -> str:
    change = "" if state in (PRESENT, UNKNOWN) else f" (changed since: {state})"
    return f"{count_of(seeds, 'seed')} of another group{change}"


def has_collapsed(alignment: float | None, uniformity: float) -> bool:
    """Whether all vectors nearly coincide, or those of positive pairs do, relative to other
    distances.

    -uniformity / 2 is at most the mean squared distance of two sentences, by Jensen's inequality.
    """
    spread = -uniformity / 2
    if spread < SMALLEST_SPREAD:
        return True
    return alignment is not None and alignment < CLOSEST_POSITIVES * spread


def find_collapsed_runs(frames: Frames, groups: Collection[str]) -> Mapping[str, Collection[int]]:
    """The seeds of collapsed runs of some groups, as far as results have their alignment and
    uniformity.
    """
    collapsed = _find_all_collapsed_runs(frames)
    return {group: collapsed[group] for group in groups if group in collapsed}


@lru_cache(maxsize=4)
def _find_all_collapsed_runs(frames: Frames) -> Mapping[str, Collection[int]]:
    """The seeds of all collapsed runs, by group."""
    scores = frames.scores
    is_distance = scores["metric"].isin(["alignment", "uniformity"])
    lines = scores[is_distance & (scores["task"] != AVERAGE)]
    lines = lines.join(frames.evaluations[["run", "suite"]], on="evaluation")
    lines = lines.join(frames.runs[["group", "seed", "setting"]], on="run")
    lines = lines[lines["setting"] != UNTRAINED]

    measured: dict[tuple[str, int, str, str], dict[str, float]] = {}
    names = ("group", "seed", "suite", "task", "metric", "value")
    columns = [lines[name].tolist() for name in names]
    for group, seed, suite, task, metric, value in zip(*columns, strict=True):
        measured.setdefault((group, seed, suite, task), {})[metric] = value

    collapsed: dict[str, set[int]] = {}
    for (group, seed, _, _), values in measured.items():
        if "uniformity" in values and has_collapsed(values.get("alignment"), values["uniformity"]):
            collapsed.setdefault(group, set()).add(seed)
    return collapsed


def find_unread_runs(frames: Frames, groups: Collection[str]) -> Mapping[str, Collection[int]]:
    """The seeds of runs of some groups whose steps never read the setting's text."""
    runs = frames.runs
    unread: dict[str, set[int]] = {}
    is_marked = runs["group"].isin(groups) & runs["warnings"].str.contains(NEVER_READ, regex=False)
    marked = runs[is_marked]
    for group, seed in zip(marked["group"].tolist(), marked["seed"].tolist(), strict=True):
        unread.setdefault(group, set()).add(seed)
    return unread


def find_caveats(
    collapsed: Collection[int],
    unread: Collection[int],
    dev: Collection[str],
    task: str,
    tasks: Collection[str],
) -> tuple[Caveat, ...]:
    """The caveats of a score in a task of a suite with these `tasks`, whose weights were selected
    on `dev`; collapsed runs, and those that read no text, are given by their seeds.
    """
    present_caveats = []
    if collapsed:
        present_caveats.append(Caveat(COLLAPSED, tuple(sorted(collapsed))))
    if unread:
        present_caveats.append(Caveat(UNREAD, tuple(sorted(unread))))

    # an average has the scores of all tasks
    scored_tasks = set(tasks) if task == AVERAGE else {task}
    selected_on = sorted(set(dev) & scored_tasks)
    if selected_on:
        present_caveats.append(Caveat(SELECTED, tuple(selected_on)))
    return tuple(present_caveats)


def join_caveats(cells: Iterable[Iterable[Caveat]]) -> tuple[Caveat, ...]:
    """The caveats of several scores as those of their mean: one per mark."""
    joined: dict[str, set[Any]] = {}
    for caveat in chain.from_iterable(cells):
        joined.setdefault(caveat.mark, set()).update(caveat.about)
    return tuple(Caveat(mark, tuple(sorted(about))) for mark, about in joined.items())


class Weakness(NamedTuple):
    """All that weakens some scores of a row, which is called `name` and stands at `where`."""

    where: str
    name: str
    caveats: tuple[Caveat, ...]
    freshness: GroupState

    @property
    def marks(self) -> str:
        """The marks to show beside the row's name if there are no cells and no number of seeds to
        carry them.
        """
        marks = "".join(dict.fromkeys(caveat.mark for caveat in self.caveats))
        if self.freshness.mark:
            marks += f" ({self.freshness.mark})"
        return marks

    def __str__(self) -> str:
        """The same in words; empty for none."""
        texts = [*map(str, self.caveats), str(self.freshness)]
        return "; ".join(text for text in texts if text)


def list_weakness_notes(rows: Iterable[Weakness]) -> Iterator[str]:
    """A note for each caveat and each freshness, with the rows that have it."""
    weaknesses = list(rows)
    names_by_caveat: dict[Caveat, dict[str, None]] = {}
    for weakness in weaknesses:
        for caveat in weakness.caveats:
            names_by_caveat.setdefault(caveat, {})[weakness.name] = None

    for caveat in sorted(names_by_caveat, key=lambda caveat: (caveat.mark, str(caveat))):
        yield f"{caveat.mark} {'; '.join(names_by_caveat[caveat])}: {caveat}."
    yield from list_freshness_notes(weaknesses)


def list_freshness_notes(rows: Iterable[Weakness]) -> Iterator[str]:
    """One note for each different warning about the freshness of rows."""
    lines = []
    for weakness in rows:
        text = str(weakness.freshness)
        if text:
            lines.append((f"{text[0].upper()}{text[1:]}", weakness.where, weakness.name))
    return group_notes(lines)


def group_notes(lines: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """One note for each text, with the places and the names of the rows that it applies to. Names
    may have commas.
    """
    # of each text, the names in each place, each once
    notes: dict[str, dict[str, dict[str, None]]] = {}
    for text, where, name in lines:
        names_by_place = notes.setdefault(text, {})
        names_by_place.setdefault(where, {})[name] = None

    for text, names_by_place in notes.items():
        sentences = [f"In {where}: {'; '.join(names)}." for where, names in names_by_place.items()]
        yield " ".join((f"{text}.", *sentences))
