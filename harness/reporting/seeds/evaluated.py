"""Which runs have been evaluated on a suite, whether they got a score or not, and which could get
one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from harness.reporting.seeds.cells import Label
from harness.store import PRESENT, UNKNOWN, Frames


@lru_cache(maxsize=4)
def find_evaluated_seeds(frames: Frames) -> Mapping[tuple[Label, str], Collection[int]]:
    """The seeds that have been evaluated, by label and suite.

    Evaluations by other code, data or values than the present ones do not count: a plan makes them
    again.
    """
    labels = list(Label._fields)
    states = list(frames.present)
    evaluations = frames.evaluations[["run", "suite"]].assign(state=states)
    evaluations = evaluations[evaluations["state"].isin([PRESENT, UNKNOWN])]
    lines = evaluations.join(frames.runs[[*labels, "seed"]], on="run")

    seeds: dict[tuple[Label, str], set[int]] = {}
    columns = (lines[name].tolist() for name in (*labels, "suite", "seed"))
    for *label, suite, seed in zip(*columns, strict=True):
        seeds.setdefault((Label(*label), suite), set()).add(seed)
    return seeds


def is_unevaluated(frames: Frames, label: Label, suite: str, seeds: Sequence[int]) -> bool:
    """Whether some of these seeds of a label have not been evaluated on a suite."""
    evaluated = find_evaluated_seeds(frames).get((label, suite), ())
    return not {*seeds} <= {*evaluated}


def has_runs(frames: Frames, label: Label) -> bool:
    """Whether a label has been evaluated on any suite."""
    return label in {evaluated for evaluated, _ in find_evaluated_seeds(frames)}
