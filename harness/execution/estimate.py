"""How long the runs of a plan will take: from finished runs, else from their operations, counted, on known cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.execution.cards import CARDS
from harness.execution.operations import Passes, shape_of, suite_work, training_work
from harness.execution.plan import Plan, PlannedRun
from harness.store import Result


@dataclass(frozen=True)
class Estimate:
    """Seconds of all runs one after another: `here` from finished runs, otherwise `cards`, by the card's name."""

    here: float | None = None
    cards: Mapping[str, float] = field(default_factory=dict)


def estimate(plan: Plan) -> Estimate | None:
    """The time of the runs still to do; None where no run is finished and some corpus is none of the papers'."""
    finished = [result for result in plan.store.load()[0] if result.profile == plan.request.profile.name]
    if finished or not plan.todo:
        return Estimate(here=sum(_from_finished(run, finished) for run in plan.todo))
    cards = dict.fromkeys((card.name for card in CARDS), 0.0)
    for run in plan.todo:
        work = planned_work(run)
        if work is None:
            return None
        for card in CARDS:
            cards[card.name] += card.seconds(shape_of(run.resolved), work)
    return Estimate(cards=cards)


def planned_work(run: PlannedRun) -> list[Passes] | None:
    """What a run has still to compute, as far as it is counted; None where a corpus is none of the papers'."""
    training: list[Passes] | None = [] if run.result else training_work(run.resolved)
    return None if training is None else [*training, *suite_work(run.resolved, run.todo)]


def _from_finished(run: PlannedRun, finished: Sequence[Result]) -> float:
    """The mean time of finished runs of the same method and encoder, or of all without any."""
    spec = run.resolved.spec
    same = [one for one in finished if one.spec.method == spec.variant.name and one.spec.encoder == spec.encoder]
    pool = same or finished
    seconds = 0.0 if run.result else sum(one.train_seconds for one in pool) / len(pool)
    for suite in run.todo:
        found = [evaluation.seconds for one in pool if (evaluation := one.latest(suite))]
        seconds += sum(found) / len(found) if found else 0.0
    return seconds
