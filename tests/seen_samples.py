"""Results with scores on test pairs that training has seen and on the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builders import result, sts

from harness.metrics import AVERAGE, SEEN, UNSEEN
from harness.store import Result

#: task -> (seen pairs, their score, unseen pairs, their score); None for too few pairs
Split = Mapping[str, tuple[float, float | None, float, float | None]]


def split(variant: str, seed: int, tasks: Split, **more: Any) -> Result:
    """One result with parts, and their averages as the suite makes them."""
    parts: dict[str, dict[str, dict[str, float]]] = {}
    for task, (seen, seen_score, unseen, unseen_score) in tasks.items():
        parts[task] = {UNSEEN: _part(unseen, unseen_score), SEEN: _part(seen, seen_score)}
    parts[AVERAGE] = {}
    for part in (UNSEEN, SEEN):
        rows = [found[part] for task, found in parts.items() if task != AVERAGE]
        scores = [row["spearman"] for row in rows if "spearman" in row]
        mean = sum(scores) / len(rows) if len(scores) == len(rows) else None
        parts[AVERAGE][part] = _part(sum(row["n"] for row in rows), mean)
    return result(variant, seed, sts(**dict.fromkeys(tasks, 70.0)), parts={"sts": parts}, **more)


def _part(pairs: float, score: float | None) -> dict[str, float]:
    return {"n": pairs} if score is None else {"spearman": score, "n": pairs}
