"""What weakens a score itself, whatever it is compared with: a collapsed model, weights selected on a test."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from harness.metrics import AVERAGE
from harness.spec import UNTRAINED

if TYPE_CHECKING:
    import pandas

COLLAPSED, SELECTED = "‡", "§"
_WORDS = {
    COLLAPSED: "collapsed in {}, the vectors of positive pairs or of all sentences coincide",
    SELECTED: "selected on {}, which is tested here: score too high",
}
#: smallest mean squared distance of two sentences, and of a positive pair as a part of it, that is no collapse
SMALLEST_SPREAD, CLOSEST_POSITIVES = 0.02, 0.05


class Caveat(NamedTuple):
    """A mark at a score, and the seeds or tasks that it is about."""

    mark: str
    about: str


def has_collapsed(alignment: float | None, uniformity: float) -> bool:
    """Whether all vectors coincide, or those of positive pairs do beside the distances of others.

    -uniformity / 2 is at most the mean squared distance of two sentences, by Jensen's inequality.
    """
    spread = -uniformity / 2
    return spread < SMALLEST_SPREAD or (alignment is not None and alignment < CLOSEST_POSITIVES * spread)


def collapsed_runs(frame: pandas.DataFrame) -> Mapping[str, frozenset[int]]:
    """The seeds of collapsed runs by group, as far as a frame has their alignment and uniformity."""
    wanted = frame["metric"].isin(["alignment", "uniformity"]) & (frame["part"] == "")
    lines = frame[wanted & (frame["task"] != AVERAGE) & (frame["setting"] != UNTRAINED)]
    measured: dict[tuple[str, int, str, str], dict[str, float]] = {}
    columns = ("group", "seed", "suite", "task", "metric", "value")
    for *run, metric, value in zip(*(lines[name].tolist() for name in columns), strict=True):
        group, seed, suite, task = run
        measured.setdefault((group, seed, suite, task), {})[metric] = value
    found: dict[str, set[int]] = {}
    for (group, seed, *_), values in measured.items():
        if "uniformity" in values and has_collapsed(values.get("alignment"), values["uniformity"]):
            found.setdefault(group, set()).add(seed)
    return {group: frozenset(seeds) for group, seeds in found.items()}


def caveats(collapsed: Collection[int], dev: Collection[str], task: str, tasks: Collection[str]) -> tuple[Caveat, ...]:
    """The caveats of a score in a task of a suite with these `tasks`, whose weights were selected on `dev`."""
    seeds = f"seed{'s' * (len(collapsed) > 1)} {', '.join(map(str, sorted(collapsed)))}"
    found = [Caveat(COLLAPSED, seeds)] if collapsed else []
    selected = sorted(set(dev) & (set(tasks) if task == AVERAGE else {task}))
    return (*found, *([Caveat(SELECTED, ", ".join(selected))] if selected else []))


def caveat_text(names: Sequence[str], caveat: Caveat) -> str:
    """A caveat of some rows in words."""
    return f"{'; '.join(names)}: {_WORDS[caveat.mark].format(caveat.about)}"


def caveat_notes(rows: Iterable[tuple[str, Iterable[Caveat]]]) -> Iterator[str]:
    """A note for each caveat, with the rows that have it."""
    found: dict[Caveat, dict[str, None]] = {}
    for name, some in rows:
        for caveat in some:
            found.setdefault(caveat, {})[name] = None
    for caveat, names in sorted(found.items()):
        yield f"{caveat.mark} {caveat_text(list(names), caveat)}."
